"""Minimax, alpha-beta and NegaScout on the rhombus, compiled: one function with switches.

Scores are integers for the player to move: the evaluation at the horizon, or a win minus the plies before it (`evaluation`).
The rules of the game decide whether and how a game has ended. A calm position (`_is_calm`) cannot end with the next move; at
the last ply of a search over cell values its moves are then scored by their gains without being played.

NegaScout searches the first move with the full window and the others with a null window, to prove them worse; the rare
exception is searched again (Reinefeld 1983). The bound of a table entry follows from the window of its search.

Fail-high reductions (Feldmann 1997): where a cutoff is expected and the position is already `margin` above the bound, the
depth is reduced by one ply. Expected node types: the first child of a PV node is a PV node, its others are CUT nodes; the
children of a CUT node are ALL nodes, and those of an ALL node CUT nodes.
"""

from __future__ import annotations

import numpy as np

from games import core
from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from games.chinese_checkers.rhombus.board import BOARD, CELLS, HOMES, LEVELS_TO_GO, STEPS
from games.compiled import lean
from games.kit.bits import count_bits, lowest_bit
from games.positions import copy_state
from zerofleet.agents.by_game.rhombus.channels import inherit_channels
from zerofleet.agents.by_game.rhombus.evaluation import WIN
from zerofleet.agents.by_game.rhombus.features import linear_score
from zerofleet.agents.by_game.rhombus.generation import fill
from zerofleet.agents.by_game.rhombus.listing import action_of, best_first, gain_of, list_moves, rank, slot_of, target_words
from zerofleet.agents.by_game.rhombus.table import (
    AT_LEAST,
    AT_MOST,
    EXACT,
    NO_MOVE,
    TURN,
    ZOBRIST,
    ply_key,
    probe,
    score_of,
    store,
)
from zerofleet.agents.by_game.rhombus.work import CHANNELS, MINIMAX, NEGASCOUT, Work, cell_of, wide

__all__ = ["INFINITE", "PV", "UNKNOWN", "child_window", "leaf_score", "play_child", "search"]

INFINITE = 2 * WIN
"""Bound above every score."""
UNKNOWN = 2 * INFINITE
"""No score: the position needs a search."""

PV, CUT, ALL = range(3)

_LAST_ACTION = CELLS * CELLS - 1
_ONE = np.uint64(1)
_PLIES = np.uint64(0xFFFFFFFF)
_NOTHING = -WIN - 1  # far below any sum of values
_LEAST_REDUCED = 2  # plies left, minimum for a reduction


@lean
def play_child(game: ChineseCheckersRhombus, work: Work, ply: int, packed: int) -> None:
    """Play a move of the position on `ply`: write the position and frame of the next ply."""
    parent, child = work.frames[ply], work.frames[ply + 1]
    side = parent.side
    action, slot = action_of(packed), slot_of(packed)
    copy_state(work.stack[ply], work.stack[ply + 1])
    core.play(game, work.stack[ply + 1], action)
    target = action % CELLS if side == 0 else (_LAST_ACTION - action) % CELLS
    start = parent.cells[side, slot]
    for owner in range(2):
        for other in range(parent.cells.shape[1]):
            child.cells[owner, other] = parent.cells[owner, other]
        child.known[owner] = 0
    child.cells[side, slot] = target
    gain = work.worth[side, target] - work.worth[side, start]
    child.score = parent.score + (gain if side == 0 else -gain)
    child.key = parent.key ^ ZOBRIST[side, start] ^ ZOBRIST[side, target] ^ TURN
    child.side = 1 - side
    child.depth = parent.depth - 1
    work.control[0].nodes += 1
    if work.settings[0].generation == CHANNELS:
        inherit_channels(parent, child, side, slot, work.settings[0].moves)


@lean
def search(game: ChineseCheckersRhombus, work: Work, ply: int, alpha: int, beta: int) -> int:
    """Return the score of the position on `ply`, which is not over: exact within the window, else a bound.

    Args:
        game: The rules.
        work: Buffers; `frames[ply].depth` is the depth in plies, at least 1. The score is invalid if `control.stopped` is
            set on return.
        ply: Distance from the root.
        alpha: Lower bound of the window, for the player to move.
        beta: Upper bound of the window.
    """
    settings, control, frame, child = work.settings[0], work.control[0], work.frames[ply], work.frames[ply + 1]
    known = _without_search(game, work, ply, alpha, beta)
    if known != UNKNOWN:
        return known
    count = _open(work, ply)
    best, best_move = wide(-INFINITE), wide(0)
    for i in range(count):
        packed = _play_next(game, work, ply, i, count)
        score = -leaf_score(game, work, ply + 1)
        if score == -UNKNOWN:
            depth, floor = child.depth, max(alpha, best)
            low, high = child_window(settings.algorithm, i, floor, beta)
            score = -search(game, work, ply + 1, -high, -low)
            if high < beta and floor < score < beta:
                child.depth, child.expected = depth, PV
                score = -search(game, work, ply + 1, -beta, -floor)
        if control.stopped:
            return 0
        if score > best:
            best, best_move = score, packed
        if best >= beta and settings.algorithm != MINIMAX:
            if settings.history:
                work.history[frame.side, action_of(best_move)] += 1 << (frame.depth + settings.exponent)
            break
    if settings.table and frame.depth > 1:
        bound = AT_MOST if best <= alpha else AT_LEAST if best >= beta else EXACT
        store(work.table, _table_key(work, ply), control.stamp, (best, bound, frame.depth, action_of(best_move)), ply)
    return best


@lean
def _without_search(game: ChineseCheckersRhombus, work: Work, ply: int, alpha: int, beta: int) -> int:
    """Return a score that needs no deeper search, or UNKNOWN with the move to search first in `frames[ply].refutation`."""
    settings, control, frame = work.settings[0], work.control[0], work.frames[ply]
    if control.stopped or control.nodes >= control.limit:
        control.stopped = 1
        return 0
    if settings.reductions and _may_reduce(work, ply, alpha, beta):
        frame.depth -= 1
    frame.refutation = NO_MOVE
    if frame.depth == 1:
        if settings.linear or not _is_calm(game, frame.cells, work.stack[ply], frame.side):
            return UNKNOWN
        return _last_ply(work, ply, frame.side, beta)
    index = probe(work.table, _table_key(work, ply), control.stamp) if settings.table else -1
    if index >= 0:
        entry = work.table[index]
        frame.refutation = entry.move
        if entry.depth == frame.depth or (entry.depth > frame.depth and not settings.exact):
            score = score_of(entry, ply)
            if (
                entry.bound == EXACT
                or (entry.bound == AT_LEAST and score >= beta)
                or (entry.bound == AT_MOST and score <= alpha)
            ):
                return score
    return UNKNOWN


@lean
def _table_key(work: Work, ply: int) -> np.uint64:
    """Return the table key of a position; near the ply cap it depends on the ply."""
    key = work.frames[ply].key
    return key ^ ply_key(ply) if work.control[0].by_ply else key  # type: ignore[no-any-return]


@lean
def _open(work: Work, ply: int) -> int:
    """List and rank the moves of a position and return the number to search."""
    frame = work.frames[ply]
    count = rank(work, ply, frame.side, list_moves(work, ply, frame.side), frame.refutation)
    if work.settings[0].generation == CHANNELS and frame.depth > 1:
        fill(work, ply, 1 - frame.side)  # once for all children
    return count


@lean
def _play_next(game: ChineseCheckersRhombus, work: Work, ply: int, index: int, count: int) -> int:
    """Play the best of the moves `index` .. `count` - 1 and return it."""
    moves = work.moves[ply]
    if work.settings[0].algorithm != MINIMAX:
        best_first(moves, index, count)
    play_child(game, work, ply, moves[index])
    kind = work.frames[ply].expected
    work.frames[ply + 1].expected = PV if kind == PV and index == 0 else ALL if kind == CUT else CUT
    return moves[index]  # type: ignore[no-any-return]


@lean
def child_window(algorithm: int, index: int, alpha: int, beta: int) -> tuple[int, int]:
    """Return the first search window of a child, for the player who moves to it."""
    if algorithm == MINIMAX:
        return wide(-INFINITE), wide(INFINITE)
    if algorithm == NEGASCOUT and index > 0 and alpha + 1 < beta:
        return alpha, alpha + 1
    return alpha, beta


@lean
def leaf_score(game: ChineseCheckersRhombus, work: Work, ply: int) -> int:
    """Return the score of a terminal position or one at the horizon, for the player to move, else UNKNOWN."""
    if core.is_over(game, work.stack[ply]):
        return _final_score(game, work, ply)
    return _horizon_score(work, ply) if work.frames[ply].depth == 0 else wide(UNKNOWN)


@lean
def _last_ply(work: Work, ply: int, side: int, beta: int) -> int:
    """Return the best score after one move, or the first of at least `beta`; no move may end the game."""
    control, frame = work.control[0], work.frames[ply]
    best = wide(-INFINITE)
    fill(work, ply, side)
    here = frame.score if side == 0 else -frame.score
    cuts = work.settings[0].algorithm != MINIMAX
    for slot in range(frame.cells.shape[1]):
        start = frame.cells[side, slot]
        even, odd = target_words(work, ply, side, slot)
        control.nodes += count_bits(even) + count_bits(odd)
        score = here + _best_worth(even, odd, work.worth[side]) - work.worth[side, start]
        if score > best:
            best = score
            if cuts and best >= beta:
                return best  # type: ignore[no-any-return]
    if best <= _NOTHING:  # all moves go backwards, which the settings exclude
        count = list_moves(work, ply, side)
        control.nodes += count
        for i in range(count):
            best = max(best, here + gain_of(work.moves[ply, i]))
    return best


@lean
def _best_worth(even: np.uint64, odd: np.uint64, worth: np.ndarray) -> int:
    """Return the largest value of a cell in these two words, -INFINITE if there is none."""
    best = wide(-INFINITE)
    while even:
        best = max(best, worth[cell_of(lowest_bit(even), 0)])
        even &= even - _ONE
    while odd:
        best = max(best, worth[cell_of(lowest_bit(odd), 1)])
        odd &= odd - _ONE
    return best


@lean
def _final_score(game: ChineseCheckersRhombus, work: Work, ply: int) -> int:
    """Return the score of a terminal position for the player who would be to move."""
    state = work.stack[ply]
    core.scores(game, state, work.scores)
    score = work.scores[work.frames[ply].side]
    if abs(score) == 1.0:
        return WIN - ply if score > 0 else ply - WIN
    return round(score * LEVELS_TO_GO) * work.settings[0].level  # type: ignore[no-any-return]


@lean
def _horizon_score(work: Work, ply: int) -> int:
    """Return the evaluation of the position for the player to move."""
    score = linear_score(work, ply) if work.settings[0].linear else work.frames[ply].score
    return score if work.frames[ply].side == 0 else -score


@lean
def _may_reduce(work: Work, ply: int, alpha: int, beta: int) -> bool:
    """Return whether a cutoff is expected here and made likely by a large lead."""
    frame = work.frames[ply]
    if frame.expected != CUT or frame.depth < _LEAST_REDUCED or beta - alpha != 1:
        return False
    lead = frame.score if frame.side == 0 else -frame.score
    return lead >= beta + work.settings[0].margin  # type: ignore[no-any-return]


@lean
def _is_calm(game: ChineseCheckersRhombus, cells: np.ndarray, state: np.ndarray, side: int) -> bool:
    """Return whether no move of `side`, the player to move, can end the game. `cells`: int64 [2, 10], cells of the pieces."""
    if game.repetitions or np.int64(state[0] & _PLIES) + 1 >= game.ply_cap:
        return False
    for home in range(2):
        holes = count_bits(HOMES[home, 0] & ~(state[1] | state[3])) + count_bits(HOMES[home, 1] & ~(state[2] | state[4]))
        if holes < 2:
            guest = 1 - home  # the player whose goal it is
            inside = (HOMES[home, 0] & state[1 + 2 * guest]) | (HOMES[home, 1] & state[2 + 2 * guest])
            if inside or (holes == 1 and side == guest):
                return False
    return _can_step_twice(cells, state, 1 - side)


@lean
def _can_step_twice(cells: np.ndarray, state: np.ndarray, side: int) -> bool:
    """Return whether a player has two cells to step to, so that one opposing move cannot take both."""
    free = (BOARD[0] & ~(state[1] | state[3]), BOARD[1] & ~(state[2] | state[4]))
    even, odd = np.uint64(0), np.uint64(0)
    for slot in range(cells.shape[1]):
        cell = cells[side, slot]
        even |= STEPS[cell, 0] & free[0]
        odd |= STEPS[cell, 1] & free[1]
        if count_bits(even) + count_bits(odd) > 1:
            return True
    return False
