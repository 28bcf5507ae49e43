"""How random games of Abalone go, and what no move may do."""

from __future__ import annotations

import numpy as np
import pytest

import games
from games import core
from games.abalone import Abalone
from games.compiled import compiled
from games.kit.randomness import uniform_int
from zerofleet.agents.simple.greedy import keep_best


@compiled
def random_games(game: Abalone, count: int, seed: int, state: np.ndarray, tally: np.ndarray) -> None:
    """Play random games.

    Args:
        game: The rules.
        count: How many games.
        seed: Decides the moves.
        state: uint64 [3], scratch.
        tally: int64 [18]; 0 .. 14: games by the absolute difference in captures; then plies, legal moves, positions
            that break an invariant.
    """
    random = np.array([seed], dtype=np.uint64)
    listed = np.empty(234, dtype=np.int16)
    before = np.empty(3, dtype=np.uint64)
    for _ in range(count):
        core.reset(game, state, 0)
        while not core.is_over(game, state):
            before[:] = state
            legal = core.legal_actions(game, state, listed)
            core.play(game, state, listed[uniform_int(random, legal)])
            tally[15] += 1
            tally[16] += legal
            tally[17] += broken(before, state)
        tally[abs(marbles(state[0]) - marbles(state[1]))] += 1


@compiled
def marbles(cells: np.uint64) -> int:
    found = 0
    while cells:
        cells &= cells - np.uint64(1)
        found += 1
    return found


@compiled
def broken(before: np.ndarray, after: np.ndarray) -> bool:
    """Whether a move lost a marble of the mover or more than one of the other, put two on a cell or one off the board."""
    mover = int(before[2] & np.uint64(1))
    lost = marbles(before[1 - mover]) - marbles(after[1 - mover])
    if marbles(after[mover]) != marbles(before[mover]) or not 0 <= lost <= 1:
        return True
    return bool(after[0] & after[1]) or bool((after[0] | after[1]) >> np.uint64(61))


@pytest.mark.slow
def test_random_games_under_the_cap_match_the_documented_statistics() -> None:
    game, count = Abalone(), 6_000
    tally = np.zeros(18, dtype=np.int64)
    random_games(game, count, 9, games.new_state(game), tally)
    assert tally[17] == 0
    assert tally[15] == 200 * count
    assert tally[16] / tally[15] == pytest.approx(68.1, abs=0.3)
    assert tally[:4] / count == pytest.approx((0.542, 0.382, 0.068, 0.008), abs=0.02)
    assert tally[6:15].sum() == 0


@pytest.mark.slow
def test_random_games_without_a_cap_take_fifteen_hundred_plies() -> None:
    game, count = Abalone(ply_cap=1_000_000), 1_000
    tally = np.zeros(18, dtype=np.int64)
    random_games(game, count, 9, games.new_state(game), tally)
    assert tally[17] == 0
    assert tally[15] / count == pytest.approx(1_510, abs=60)
    assert tally[16] / tally[15] == pytest.approx(55.5, abs=0.3)


@compiled
def greedy_games(game: Abalone, count: int, greedy: np.ndarray, state: np.ndarray, tally: np.ndarray) -> None:
    """Play games of seed 9 in which the players named in `greedy` (bool [2]) choose by `move_value`, others at random.

    Tally (int64 [4]): wins by captures of player 0, of player 1, other games, plies.
    """
    random = np.array([9], dtype=np.uint64)
    listed = np.empty(234, dtype=np.int16)
    scores = np.empty(2, dtype=np.float32)
    for _ in range(count):
        core.reset(game, state, 0)
        while not core.is_over(game, state):
            legal = core.legal_actions(game, state, listed)
            if greedy[core.to_move(game, state)]:
                legal = keep_best(game, state, listed, legal)
            core.play(game, state, listed[uniform_int(random, legal)])
            tally[3] += 1
        core.scores(game, state, scores)
        tally[0 if scores[0] == 1 else 1 if scores[1] == 1 else 2] += 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("greedy", "shares", "plies"),
    [((True, False), (1, 0, 0), 54), ((False, True), (0, 1, 0), 54), ((True, True), (0.449, 0.335, 0.217), 131)],
)
def test_games_of_greedy_players_match_the_documented_statistics(
    greedy: tuple[bool, bool], shares: tuple[float, ...], plies: float
) -> None:
    game, count = Abalone(), 500
    tally = np.zeros(4, dtype=np.int64)
    greedy_games(game, count, np.array(greedy), games.new_state(game), tally)
    assert tally[:3] / count == pytest.approx(shares, abs=0.06)
    assert tally[3] / count == pytest.approx(plies, abs=6)
