"""The agent network: a model's policy or values, without search."""

from __future__ import annotations

import numpy as np
import pytest

import games
from games import core
from games.core import Game
from zerofleet.agents import Evaluate, PolicyAgent
from zerofleet.agents.model.network import NetworkAgent, from_spelling, softmax
from zerofleet.agents.spelling import Spelling
from zerofleet.agents.uct import mover_values
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion


def saying(policy: list[float], values: list[float] | None = None) -> Evaluate:
    """A model that says the same of every position; `values` begin with the player to move."""

    def evaluate(batch: LeafBatch, version: ModelVersion) -> Evaluation:
        shares = np.zeros(batch.legal.shape, dtype=np.float16)
        shares[:, : len(policy)] = policy
        return Evaluation(shares, np.tile(np.float32(values or [0.5, -0.5]), (len(batch), 1)), version)

    return evaluate


def by_opponents_discs(batch: LeafBatch, version: ModelVersion) -> Evaluation:
    """A model of connect_four that likes few legal moves for the player to move: that is, full columns."""
    own = (batch.legal >= 0).sum(axis=1).astype(np.float32) / 7 - 0.5
    return Evaluation(np.zeros(batch.legal.shape, dtype=np.float16), np.stack([own, -own], axis=1), version)


def made(text: str, game: Game, evaluate: Evaluate | None) -> NetworkAgent:
    return from_spelling(Spelling.parse(text), game, evaluate)


def test_the_move_of_highest_policy_is_played_and_ties_are_random() -> None:
    game = games.make("connect_four")
    state, rng = games.new_state(game), np.random.default_rng(1)
    agent = made("network,model=3", game, saying([0.1, 0.3, 0.1, 0.3, 0.2, 0, 0]))
    chosen = [agent.choose(game, state, rng) for _ in range(40)]
    assert {choice.action for choice in chosen} == {1, 3}
    assert chosen[0].value == 0.5
    assert chosen[0].nodes == 1
    assert isinstance(agent, PolicyAgent)
    assert agent.policy(game, state).tolist() == [0, 0.5, 0, 0.5, 0, 0, 0]


def test_only_legal_moves_have_a_probability() -> None:
    game = games.make("connect_four")
    state = games.replay(game, [0] * 6)
    agent = made("network,model=3", game, saying([0.7, 0.3]))
    assert agent.choose(game, state, np.random.default_rng(1)).action == 1, "the first of the listed moves"


def test_by_policy_a_temperature_of_one_samples_the_policy() -> None:
    game = games.make("connect_four")
    shares = [0.5, 0.25, 0.25, 0, 0, 0, 0]
    agent = made("network,model=3,temperature=1", game, saying(shares))
    assert agent.policy(game, games.new_state(game)) == pytest.approx(shares)
    sharper = made("network,model=3,temperature=0.5", game, saying(shares)).policy(game, games.new_state(game))
    assert sharper == pytest.approx(np.array([4, 1, 1, 0, 0, 0, 0]) / 6)


def test_epsilon_is_spread_over_all_moves() -> None:
    game = games.make("connect_four")
    agent = made("network,model=3,epsilon=0.7", game, saying([1, 0, 0, 0, 0, 0, 0]))
    assert agent.policy(game, games.new_state(game)) == pytest.approx([0.4] + [0.1] * 6)
    anything = made("network,model=3,epsilon=1", game, saying([1, 0, 0, 0, 0, 0, 0]))
    assert anything.policy(game, games.new_state(game)) == pytest.approx([1 / 7] * 7)


def test_by_value_the_opponents_view_is_evaluated() -> None:
    game = games.make("connect_four")
    state = games.replay(game, [0] * 5)  # one move fills the first column, and leaves the opponent six
    agent = made("network,model=3,by=value", game, by_opponents_discs)
    choice = agent.choose(game, state, np.random.default_rng(1))
    assert choice.action == 0
    assert choice.value == pytest.approx(0.5 - 6 / 7)
    assert choice.nodes == 7


@pytest.mark.parametrize("promise", [-1.0, 1.0])
def test_by_value_terminal_positions_have_their_scores(promise: float) -> None:
    game = games.make("connect_four")
    state = games.replay(game, [3, 4, 3, 4, 3, 4])
    agent = made("network,model=3,by=value", game, saying([], [promise, -promise]))
    choice = agent.choose(game, state, np.random.default_rng(1))
    assert (choice.action, choice.value) == (3, 1.0), "a sure win, whatever the model promises elsewhere"


def test_a_full_board_is_a_draw_whatever_the_model_says() -> None:
    game = games.make("tic_tac_toe")
    state = games.replay(game, [0, 1, 2, 4, 3, 5, 7, 6])
    assert mover_values(game, state, np.array([8]), saying([], [1.0, -1.0]), ModelVersion(1)).tolist() == [0.0]


def test_each_of_three_players_reads_its_own_entry() -> None:
    game = games.make("chinese_checkers_star37")
    state = games.new_state(game)
    actions = np.array(games.legal(game, state))
    for _ in range(3):
        after = state.copy()
        core.play(game, after, int(actions[0]))
        entry = (core.to_move(game, state) - core.to_move(game, after)) % 3
        said = [0.1, 0.2, 0.3]
        values = mover_values(game, state, actions, saying([], said), ModelVersion(1))
        assert values == pytest.approx([said[entry]] * len(actions))
        assert entry == 2, "the player to move there is the next one; whoever moved is the last of the list"
        state, actions = after, np.array(games.legal(game, after))


def test_a_non_finite_value_is_an_error() -> None:
    game = games.make("connect_four")
    agent = made("network,model=3,by=value", game, saying([], [0.0, np.nan]))
    with pytest.raises(ValueError, match="model 3 returned values"):
        agent.choose(game, games.new_state(game), np.random.default_rng(1))


def test_softmax_is_stable_at_every_temperature() -> None:
    values = np.array([0.2, 0.9, 0.9, -1.0])
    assert softmax(values, 1e-11).tolist() == [0, 0.5, 0.5, 0]
    assert softmax(values, 0.0).tolist() == [0, 0.5, 0.5, 0]
    assert softmax(values, 1e6) == pytest.approx([0.25] * 4, abs=1e-5)
    assert softmax(np.array([0.0, 1.0]), 0.5) == pytest.approx([1 / (1 + np.e**2), 1 / (1 + np.e**-2)])
    assert softmax(np.full(4, -np.inf), 1.0).tolist() == [0.25] * 4


def test_by_value_the_temperature_has_the_scale_of_win_probabilities() -> None:
    game = games.make("connect_four")
    state = games.replay(game, [3, 4, 3, 4, 3, 4])
    agent = made("network,model=3,by=value,temperature=0.5", game, saying([], [1.0, -1.0]))
    shares = agent.policy(game, state)
    assert shares[3] / shares[0] == pytest.approx(np.exp(1 / 0.5), rel=1e-4), "a chance of 1 against one of 0"


def test_the_name_has_the_options_that_differ_from_the_defaults() -> None:
    game = games.make("connect_four")
    text = "network,by=value,temperature=0.10,model=7,epsilon=0"
    assert made(text, game, saying([])).name == "network,model=7,by=value,temperature=0.1"


def test_games_of_hidden_information_are_played_by_policy_only() -> None:
    game = games.make("rock_paper_scissors")
    agent = made("network,model=3", game, saying([0, 1, 0]))
    assert agent.choose(game, games.new_state(game), np.random.default_rng(1)).action == 1
    with pytest.raises(InvalidRequest, match="by=value plays games with perfect information"):
        made("network,model=3,by=value", game, saying([]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("network", "'network' needs the version of a model, such as network,model=7"),
        ("network:7", "network takes no argument after a colon"),
        ("network,model=0", "option 'model': Input should be greater than or equal to 1"),
        ("network,model=7,by=luck", "option 'by': Input should be 'policy' or 'value'"),
        ("network,model=7,epsilon=2", "option 'epsilon': Input should be less than or equal to 1"),
        ("network,model=7", "network,model=7 needs a model, but none is available"),
    ],
)
def test_invalid_spellings_are_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        made(text, games.make("connect_four"), None)
    assert said in str(refusal.value)
