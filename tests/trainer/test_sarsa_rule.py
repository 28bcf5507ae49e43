"""Update rules of SARSA(lambda) and its siblings: a trace worked out by hand, gradients, a chain with known values."""

import math

import numpy as np
import pytest

from trainer.learners.sarsa_lambda.rule import ENDED, NONE, Episode, Rates, learn, new_rule, value

RATES = Rates(0.1, 0.9, 0.6)


def episode(features, *, phases=None, seats=None, exploratory=None, pools=None, rewards=(1.0, -1.0)):
    """Moves of one seat, unless `seats` names others; `pools`: a list of (features, phase, reward) for each move."""
    count, width = len(features), max(map(len, pools), default=0) if pools else 0
    played = Episode(
        features=np.array(features, float),
        phases=np.array([0] * count if phases is None else phases),
        seats=np.array([0] * count if seats is None else seats),
        exploratory=np.array([False] * count if exploratory is None else exploratory),
        pool_features=np.zeros((count, width, len(features[0]))),
        pool_phases=np.full((count, width), NONE),
        pool_rewards=np.zeros((count, width)),
        rewards=np.array(rewards),
    )
    for row, pool in enumerate(pools or []):
        for rank, (found, phase, reward) in enumerate(pool):
            played.pool_features[row, rank], played.pool_phases[row, rank] = found, phase
            played.pool_rewards[row, rank] = reward
    return played


def test_three_steps_of_sarsa_agree_with_a_calculation_by_hand():
    """Two features and two phases; the game is won. a to d are the four weights; traces fade by 0.9 * 0.6."""
    a, b, c, d = 0.5, -0.25, 1.5, 0.1
    weights = np.array([[a, b], [c, d]])
    # (1, 2) in phase 0, (0, 1) in phase 1, (3, -1) in phase 1, then the win
    e_a, e_b, e_c, e_d = 1.0, 2.0, 0.0, 0.0
    error = 0.9 * (0 * c + 1 * d) - (1 * a + 2 * b)
    a, b = a + 0.1 * error * e_a, b + 0.1 * error * e_b
    e_a, e_b, e_c, e_d = 0.54 * e_a, 0.54 * e_b, 0.0, 1.0
    error = 0.9 * (3 * c - d) - d
    a, b, d = a + 0.1 * error * e_a, b + 0.1 * error * e_b, d + 0.1 * error * e_d
    e_a, e_b, e_c, e_d = 0.54 * e_a, 0.54 * e_b, 3.0, 0.54 * e_d - 1.0
    error = 1.0 - (3 * c - d)
    a, b, c, d = a + 0.1 * error * e_a, b + 0.1 * error * e_b, c + 0.1 * error * e_c, d + 0.1 * error * e_d
    rule = new_rule(weights, RATES, method="sarsa", squashes=False)
    updates, _, largest = learn(rule, episode([[1, 2], [0, 1], [3, -1]], phases=[0, 1, 1]))
    assert updates == 3
    assert largest > 3.0
    np.testing.assert_allclose(weights, [[a, b], [c, d]], rtol=0, atol=1e-12)


def test_the_gradient_agrees_with_finite_differences():
    features, step = np.array([0.7, -0.3, 0.2]), 1e-6
    for squashes in (False, True):
        weights = np.random.default_rng(1).normal(size=(2, 3))
        before = weights.copy()
        rule = new_rule(weights, Rates(1.0, 1.0, 0.0), method="sarsa", squashes=squashes)
        wanted = np.zeros_like(weights)
        for place in np.ndindex(weights.shape):
            for sign in (1, -1):
                weights[:] = before
                weights[place] += sign * step
                wanted[place] += sign * value(rule, features, 1) / (2 * step)
        weights[:] = before
        error = 1.0 - value(rule, features, 1)
        learn(rule, episode([features], phases=[1]))
        np.testing.assert_allclose((weights - before) / error, wanted, atol=1e-8)


def test_a_move_that_ends_the_game_teaches_its_reward_to_the_move_before():
    weights = np.array([[0.5]])
    updates, _, _ = learn(new_rule(weights, RATES, method="sarsa", squashes=False), episode([[1], [9]], phases=[0, ENDED]))
    assert updates == 1
    assert weights[0, 0] == pytest.approx(0.5 + 0.1 * (1.0 - 0.5), abs=1e-15)


def test_both_seats_learn_with_traces_of_their_own():
    """With features of different phases for each seat, the weights are those of two games of one seat each."""
    played = episode([[1], [2], [3], [4]], phases=[0, 1, 0, 1], seats=[0, 1, 0, 1])
    together = np.array([[0.3], [-0.2]])
    learn(new_rule(together, RATES, method="sarsa", squashes=True), played)
    apart = np.array([[0.3], [-0.2]])
    rule = new_rule(apart, RATES, method="sarsa", squashes=True)
    learn(rule, episode([[1], [3]], phases=[0, 0]))
    learn(rule, episode([[2], [4]], phases=[1, 1], seats=[1, 1]))
    np.testing.assert_allclose(together, apart, rtol=0, atol=1e-15)


def test_q_learning_takes_the_best_of_the_pool_and_not_the_move_that_was_played():
    weights = np.array([[0.5]])
    pools = [[([1], 0, 0)], [([1], 0, 0), ([1.5], 0, 0), ([1.2], 0, 0)]]
    rule = new_rule(weights, RATES, method="q_learning", squashes=False)
    learn(rule, episode([[1], [1]], exploratory=[False, True], pools=pools))
    first = 0.5 + 0.1 * (0.9 * 1.5 * 0.5 - 0.5)
    assert weights[0, 0] == pytest.approx(first + 0.1 * (1.0 - first), abs=1e-15)  # the traces ended at the exploratory move


def test_q_learning_knows_the_reward_of_a_pooled_move_that_would_have_ended_the_game():
    weights = np.array([[0.5]])
    pools = [[([1], 0, 0)], [([0], ENDED, 1.0), ([1], 0, 0)]]
    rule = new_rule(weights, Rates(0.1, 0.9, 0.0), method="q_learning", squashes=False)
    learn(rule, episode([[1], [0]], pools=pools, rewards=(-1.0, 1.0)))
    assert weights[0, 0] == pytest.approx(0.5 + 0.1 * (1.0 - 0.5), abs=1e-15)


def test_monte_carlo_learns_the_discounted_result():
    weights = np.zeros((1, 3))
    rule = new_rule(weights, Rates(1.0, 0.9, 0.0), method="monte_carlo", squashes=False)
    learn(rule, episode(np.eye(3), rewards=(-1.0, 1.0)))
    np.testing.assert_allclose(weights, [[-0.81, -0.9, -1.0]], atol=1e-15)


@pytest.mark.parametrize(("method", "decay"), [("sarsa", 0.0), ("sarsa", 0.8), ("q_learning", 0.0), ("monte_carlo", 0.0)])
def test_the_values_of_a_random_walk_are_learned(method, decay):
    """Five states in a row; left of them is a loss, right a win: the values are -2/3 to 2/3 (Sutton and Barto 1998, 6.2).

    A state is a feature of its own, so that the values are tabular. Each state has one move, the best of its pool.
    """
    rng = np.random.default_rng(7)
    weights = np.zeros((1, 5))
    games = 10_000
    for game in range(games):
        place, path = 2, []
        while 0 <= place < 5:
            path.append(np.eye(5)[place])
            place += int(rng.integers(2)) * 2 - 1
        rates = Rates(0.05 * (1 - game / games) + 0.0005, 1.0, decay)
        won = 1.0 if place == 5 else -1.0
        pools = [[(state, 0, 0.0)] for state in path]
        learn(new_rule(weights, rates, method=method, squashes=False), episode(path, pools=pools, rewards=(won, -won)))
    np.testing.assert_allclose(weights[0], [-2 / 3, -1 / 3, 0, 1 / 3, 2 / 3], atol=0.08)


def test_an_even_value_of_tanh_is_that_of_the_sum():
    rule = new_rule(np.array([[2.0, -1.0]]), RATES, method="sarsa", squashes=True)
    assert value(rule, np.array([0.5, 0.25]), 0) == pytest.approx(math.tanh(0.75), abs=1e-15)
