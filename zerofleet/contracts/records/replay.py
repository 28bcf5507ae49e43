"""Compiled replay: checks every move of a record against the rules, every searched move against its position.

Axes: n moves, M searched moves, N listed actions of all searched moves, K pooled ones, S state entries, P players, L maximum
legal actions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from games import core
from games.compiled import compiled
from zerofleet.contracts.played import EXPLORATORY, FULL_SEARCH, REDUCED, TARGET_UNIT, WOULD_RESIGN

__all__ = ["Claims", "Replayed", "replay"]

MAX_VISITS = (1 << 31) - 1  # total of one searched move; sums stay within int32
KNOWN_FLAGS = FULL_SEARCH | WOULD_RESIGN | REDUCED | EXPLORATORY
VALUE_SLACK = 1e-4  # a mean of float32 values may leave [-1, 1] by rounding


# Faults: the first result of `replay`. The second is the ply or the searched row of the fault.
NO_FAULT = 0
AFTER_END = 1  # a move after the end of the game
ILLEGAL_MOVE = 2
UNFINISHED = 3  # not over after the last move, without resignation
OVER_WHEN_RESIGNED = 4
ROW_ORDER = 5  # plies of searched moves do not ascend or are out of range
ROW_ACTIONS = 6  # listed actions do not ascend, or one is illegal
ROW_VISITS = 7  # more than MAX_VISITS
ROW_NO_VISITS = 8
ROW_TARGET = 9  # does not sum to 1
ROW_VALUE = 10  # nan or outside [-1, 1]
ROW_VERSION = 11  # not positive on a model's seat, or not 0 on an agent's
ROW_SEAT = 12  # searched on a seat without model or agent
ROW_FLAGS = 13  # unknown bits
ROW_BEHAVIOUR = 14  # no probability
ROW_POOL = 15  # an action illegal or repeated, the move played missing, or scores that ascend, are nan or outside [-1, 1]


class Claims(NamedTuple):
    """Contents of a record as arrays, unverified."""

    seed: Any  # int64
    moves: np.ndarray  # int64 [n]
    resigned: bool
    seat_versions: np.ndarray  # int64 [P]
    seat_has_agent: np.ndarray  # bool [P]; True where a named agent played
    ply: np.ndarray  # int64 [M]
    model_version: np.ndarray  # int64 [M]
    flags: np.ndarray  # int64 [M]
    start: np.ndarray  # int64 [M + 1]; row m lists entries start[m] .. start[m + 1] - 1
    actions: np.ndarray  # int64 [N]
    visits: np.ndarray  # int64 [N]
    target: np.ndarray  # int64 [N]
    has_target: np.ndarray  # bool [M]; where False, the target is the normalised visits
    root_value: np.ndarray  # float32 [M, P]
    behaviour: np.ndarray  # float32 [M]
    pool_start: np.ndarray  # int64 [M + 1]; row m lists entries pool_start[m] .. pool_start[m + 1] - 1 of the two below
    pool: np.ndarray  # int64 [K]
    pool_scores: np.ndarray  # float32 [K]


class Replayed(NamedTuple):
    """Result of replaying with the rules; filled by `replay`."""

    states: np.ndarray  # spec.state_dtype [n + 1, S]; row i is the position before move i
    movers: np.ndarray  # int8 [n + 1]; player to move, -1 where the game is over
    scores: np.ndarray  # float32 [P], set when the game is over
    policy: np.ndarray  # float32 [N], sums to 1 over each row
    legal: np.ndarray  # int16 [L], workspace


@compiled
def replay(game: Any, claims: Claims, out: Replayed) -> tuple[int, int]:
    """Play the moves, check the searched rows, fill `out`; return the first fault and its index."""
    plies = len(claims.moves)
    rows = len(claims.ply)
    row = 0
    core.reset(game, out.states[0], claims.seed)
    for i in range(plies):
        state = out.states[i]
        if core.is_over(game, state):
            return AFTER_END, i
        out.movers[i] = core.to_move(game, state)
        count = core.legal_actions(game, state, out.legal)
        if not _listed(out.legal, count, claims.moves[i]):
            return ILLEGAL_MOVE, i
        if row < rows and claims.ply[row] == i:
            fault = _check_row(claims, out, row, count)
            if fault:
                return fault, row
            row += 1
        out.states[i + 1] = state
        core.play(game, out.states[i + 1], claims.moves[i])
    if row < rows:  # an unreached row: out of range, repeated or not ascending
        return ROW_ORDER, row
    last = out.states[plies]
    over = core.is_over(game, last)
    if over:
        out.movers[plies] = -1
        core.scores(game, last, out.scores)
    else:
        out.movers[plies] = core.to_move(game, last)
    if over and claims.resigned:
        return OVER_WHEN_RESIGNED, plies
    if not over and not claims.resigned:
        return UNFINISHED, plies
    return NO_FAULT, 0


@compiled
def _listed(legal: np.ndarray, count: int, action: int) -> bool:
    """Return whether `action` is among the first `count` entries of the ascending list `legal`."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if legal[middle] < action:
            low = middle + 1
        else:
            high = middle
    return low < count and legal[low] == action


@compiled
def _check_row(claims: Claims, out: Replayed, row: int, count: int) -> int:
    """Check one searched move in its position, whose `count` legal actions are in `out.legal`."""
    seat = out.movers[claims.ply[row]]
    if claims.model_version[row] < 0 or (claims.model_version[row] == 0) != claims.seat_has_agent[seat]:
        return ROW_VERSION
    if claims.seat_versions[seat] == 0 and not claims.seat_has_agent[seat]:
        return ROW_SEAT
    if claims.flags[row] & ~KNOWN_FLAGS:
        return ROW_FLAGS
    if not _within_unit(claims.root_value[row]):
        return ROW_VALUE
    if not 0.0 <= claims.behaviour[row] <= 1.0:  # NaN fails
        return ROW_BEHAVIOUR
    if not _is_pool(claims, out, row, count):
        return ROW_POOL
    return _check_policy(claims, out, row, count)


@compiled
def _check_policy(claims: Claims, out: Replayed, row: int, count: int) -> int:
    """Check the visits and targets of one searched move; write its policy."""
    first, end = claims.start[row], claims.start[row + 1]
    visits = 0
    target = 0
    previous = -1
    for j in range(first, end):
        if claims.actions[j] <= previous or not _listed(out.legal, count, claims.actions[j]):
            return ROW_ACTIONS
        previous = claims.actions[j]
        visits += claims.visits[j]
        target += claims.target[j]
        if visits > MAX_VISITS:
            return ROW_VISITS
    if visits == 0 and not claims.has_target[row]:
        return ROW_NO_VISITS
    # Rounding k entries to units changes the sum by at most k / 2 units.
    if claims.has_target[row] and abs(target - TARGET_UNIT) > max(1, (end - first) // 2):
        return ROW_TARGET
    for j in range(first, end):
        if claims.has_target[row]:
            out.policy[j] = claims.target[j] / target
        else:
            out.policy[j] = claims.visits[j] / visits
    return NO_FAULT


@compiled
def _is_pool(claims: Claims, out: Replayed, row: int, count: int) -> bool:
    """Return whether the pool of a searched move is empty, or one from which the move was played."""
    first, end = claims.pool_start[row], claims.pool_start[row + 1]
    is_played = first == end
    if not _within_unit(claims.pool_scores[first:end]):
        return False
    for j in range(first, end):
        action = claims.pool[j]
        is_played |= action == claims.moves[claims.ply[row]]
        if not _listed(out.legal, count, action) or (j > first and claims.pool_scores[j] > claims.pool_scores[j - 1]):
            return False
        for k in range(first, j):
            if claims.pool[k] == action:
                return False
    return is_played  # type: ignore[no-any-return]


@compiled
def _within_unit(values: np.ndarray) -> bool:
    """Return whether all values are in [-1, 1]; False for NaN."""
    for value in values:  # noqa: SIM110  (numba has no generator in `all`)
        if not abs(value) <= 1.0 + VALUE_SLACK:
            return False
    return True
