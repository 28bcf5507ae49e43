"""The perfect agent: true values, no loss, and a clear refusal of games that are too large."""

from __future__ import annotations

import numpy as np
import pytest

import games
from games import core
from games.core import State
from zerofleet.agents import Agent, make_agent
from zerofleet.agents.alpha_beta import search_moves
from zerofleet.agents.perfect import PerfectAgent
from zerofleet.errors import InvalidRequest

GAME = games.make("tic_tac_toe")


def every_position(state: State, seen: dict[int, State]) -> dict[int, State]:
    """All positions that can follow, by key."""
    key = int(core.key(GAME, state))
    if key not in seen:
        seen[key] = state
        for action in games.legal(GAME, state):
            child = state.copy()
            core.play(GAME, child, action)
            every_position(child, seen)
    return seen


@pytest.mark.slow
def test_every_position_of_tic_tac_toe_has_its_true_values() -> None:
    agent = PerfectAgent(GAME)
    positions = every_position(games.new_state(GAME), {})
    assert len(positions) == 5478
    for state in positions.values():
        if not core.is_over(GAME, state):
            assert agent.analyse(state).values.tolist() == search_moves(GAME, state, 9).values.tolist(), GAME.draw(state)


def play_out(seats: list[Agent], rng: np.random.Generator) -> tuple[float, ...]:
    """The scores of one game between two agents."""
    state = games.new_state(GAME)
    while not core.is_over(GAME, state):
        games.advance(GAME, state, seats[core.to_move(GAME, state)].choose(GAME, state, rng).action)
    return games.final_scores(GAME, state)


def test_two_perfect_players_always_draw_but_not_always_alike() -> None:
    agent, rng = PerfectAgent(GAME), np.random.default_rng(1)
    assert {play_out([agent, agent], rng) for _ in range(100)} == {(0.0, 0.0)}
    assert len({agent.choose(GAME, games.new_state(GAME), rng).action for _ in range(100)}) == 9


@pytest.mark.slow
@pytest.mark.parametrize("seat", [0, 1])
def test_a_perfect_player_never_loses_to_a_random_one(seat: int) -> None:
    rng = np.random.default_rng(2)
    agents = [make_agent("perfect", GAME), make_agent("random", GAME)]
    scores = [play_out(agents[:: 1 - 2 * seat], rng)[seat] for _ in range(500)]
    assert min(scores) == 0.0
    assert scores.count(1.0) > 300


def test_small_boards_of_connect_four_are_drawn() -> None:
    assert PerfectAgent(games.make("connect_four", rows=4, columns=4)).value == 0.0


def test_three_in_a_row_is_won_by_the_first_player() -> None:
    game = games.make("connect_four", rows=3, columns=5, connect=3)
    agent = PerfectAgent(game)
    assert agent.value == 1.0
    middle = games.replay(game, [2])
    assert agent.analyse(middle).values.max() == -1.0


def test_a_game_with_too_many_positions_is_refused() -> None:
    with pytest.raises(
        InvalidRequest, match=r"too many positions to be played perfectly: more than 5000 of them.*alpha_beta:DEPTH"
    ):
        PerfectAgent(games.make("connect_four"), max_positions=5000)


def test_the_memory_grows_as_far_as_it_may() -> None:
    assert PerfectAgent(GAME, max_positions=64 * 1024).value == 0.0
    with pytest.raises(InvalidRequest):
        PerfectAgent(GAME, max_positions=100)
