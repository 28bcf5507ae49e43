"""The max^n agent: everybody for themselves, and minimax where there are two."""

from __future__ import annotations

import numpy as np
import pytest

import games
from games import core
from games.core import Game, State
from zerofleet.agents import make_agent
from zerofleet.agents.depth_first import max_n
from zerofleet.agents.depth_first.deepening import finish
from zerofleet.agents.depth_first.max_n import MaxNSearch
from zerofleet.agents.depth_first.minimax import MinimaxSearch
from zerofleet.errors import InvalidRequest

THREE = games.make("chinese_checkers_star37")


def random_position(game: Game, rng: np.random.Generator) -> State:
    """A position after some random moves in which the game goes on."""
    while True:
        state = games.new_state(game)
        for _ in range(rng.integers(min(60, game.spec().max_plies))):
            if core.is_over(game, state):
                break
            core.play(game, state, int(rng.choice(games.legal(game, state))))
        if not core.is_over(game, state):
            return state


def plain_max_n(game: Game, state: State, depth: int) -> np.ndarray:
    """Max^n as the paper has it: the vector of the first move that is best for who is to move."""
    vector = np.empty(game.spec().num_players, dtype=np.float32)
    if core.is_over(game, state):
        core.scores(game, state, vector)
        return vector
    if depth == 0:
        core.estimate(game, state, vector)
        return vector
    mover = core.to_move(game, state)
    vectors = []
    for action in games.legal(game, state):
        child = state.copy()
        core.play(game, child, action)
        vectors.append(plain_max_n(game, child, depth - 1))
    return max(vectors, key=lambda found: float(found[mover]))


@pytest.mark.parametrize(("budget", "searches"), [("5ms", 1), ("5cpu_ms", 1), ("100nodes", 0), ("2", 0)])
def test_an_agent_limited_by_time_compiles_its_search_before_the_first_move(
    monkeypatch: pytest.MonkeyPatch, budget: str, searches: int
) -> None:
    finished: list[int] = []
    monkeypatch.setattr(max_n, "finish", lambda search, depth: finished.append(depth))
    make_agent(f"max_n:{budget}", THREE)
    assert finished == [1] * searches


@pytest.mark.slow
def test_max_n_with_two_players_is_minimax() -> None:
    game, rng = games.make("connect_four"), np.random.default_rng(1)
    for number in range(200):
        depth, state = 1 + number % 5, random_position(game, rng)
        search = MaxNSearch(game, state, deepest=depth)
        found, minimax = finish(search, depth), finish(MinimaxSearch(game, state, deepest=depth, root="all"), depth)
        assert found.actions.tolist() == minimax.actions.tolist()
        assert found.values.tolist() == minimax.values.tolist()
        assert np.array_equal(search.vectors().sum(axis=1), np.zeros(len(found.actions)))


@pytest.mark.slow
def test_each_of_three_players_maximises_its_own_score() -> None:
    rng = np.random.default_rng(2)
    for number in range(20):
        depth, state = 1 + number % 2, random_position(THREE, rng)
        search = MaxNSearch(THREE, state, deepest=depth)
        finish(search, depth)
        for action, vector in zip(games.legal(THREE, state), search.vectors(), strict=True):
            child = state.copy()
            core.play(THREE, child, action)
            assert vector.tolist() == plain_max_n(THREE, child, depth - 1).tolist()


def test_ties_in_the_movers_own_score_are_broken_at_random() -> None:
    game, rng = games.make("connect_four"), np.random.default_rng(3)
    agent = make_agent("max_n:2", game)
    counts = np.bincount([agent.choose(game, games.new_state(game), rng).action for _ in range(2100)], minlength=7)
    assert np.abs(counts - 300).max() < 5 * (300 * 6 / 7) ** 0.5


def test_max_n_plays_a_game_of_three_within_nodes_or_time() -> None:
    rng = np.random.default_rng(4)
    state = games.new_state(THREE)
    agent = make_agent("max_n:2000nodes", THREE)
    chosen = agent.choose(THREE, state, rng)
    assert chosen.action in games.legal(THREE, state)
    assert chosen.nodes == 2000
    assert agent.choose(THREE, state, np.random.default_rng(5)) == agent.choose(THREE, state, np.random.default_rng(5))
    assert make_agent("max_n:5ms", THREE).choose(THREE, state, rng).action in games.legal(THREE, state)


def test_max_n_refuses_hidden_information_and_invalid_budgets() -> None:
    with pytest.raises(InvalidRequest, match="max_n:2 plays games with perfect information; take_six has"):
        make_agent("max_n:2", games.make("take_six"))
    with pytest.raises(InvalidRequest, match="'max_n' needs a depth in plies or a budget"):
        make_agent("max_n", THREE)
    with pytest.raises(InvalidRequest, match="option 'ordered': Extra inputs"):
        make_agent("max_n:2,ordered=true", THREE)
