"""Root of a search: one compiled iteration over its moves, and the sequence of iterations."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from games import core
from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from games.compiled import lean
from games.core import State
from games.kit.bits import lowest_bit
from zerofleet.agents.by_game.rhombus.generation import fill
from zerofleet.agents.by_game.rhombus.listing import action_of, best_first, list_moves, rank
from zerofleet.agents.by_game.rhombus.search import INFINITE, PV, UNKNOWN, child_window, leaf_score, play_child, search
from zerofleet.agents.by_game.rhombus.table import NO_MOVE, key_of
from zerofleet.agents.by_game.rhombus.work import CHANNELS, MINIMAX, Work, cell_of, wide

__all__ = ["Found", "run", "set_frame"]

_ONE = np.uint64(1)
_PLIES = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Found:
    """Result of a search."""

    actions: np.ndarray  # int64 [n]: the best moves, ascending; only the first one found unless `all_ties` is set
    score: int
    """Score for the player to move."""
    depth: int
    """Searched depth in plies."""
    nodes: int
    """Number of visited positions, including shallower searches."""


def run(game: ChineseCheckersRhombus, state: State, work: Work, depths: Iterable[int], *, time_s: float | None = None) -> Found:
    """Search to each of `depths`, at least one, and return the result of the last completed depth.

    Args:
        game: The rules.
        state: A position that is not over; not modified.
        work: Buffers and settings; `control.limit` is the node limit after the first depth. Earlier searches in the same
            buffers do not affect the result.
        depths: Plies, ascending; the first is always completed if it is 1.
        time_s: Time limit, if any.
    """
    control, deepest = work.control[0], work.stack.shape[0] - 1
    control.nodes, control.stopped, control.count = 1, 0, 0
    control.stamp += 1
    control.by_ply = int(state[0]) % (_PLIES + 1) + deepest >= game.ply_cap
    work.history[:] = 0
    work.stack[0] = state
    timer = threading.Timer(time_s, _stop, [work]) if time_s is not None else None
    if timer is not None:
        timer.daemon = True
        timer.start()
    found = None
    try:
        for depth in depths:
            _search_root(game, work, depth)
            if control.stopped and found is not None:
                break
            values = work.values[: control.count]
            best = [action_of(int(packed)) for packed in work.moves[0, : control.count][values == control.best]]
            found = Found(np.sort(best), int(control.best), depth, int(control.nodes))
    finally:
        if timer is not None:
            timer.cancel()
            timer.join()  # a late stop would end the next search in these buffers
    if found is None:
        raise ValueError("no depth to search")
    return found


def _stop(work: Work) -> None:
    work.control[0].stopped = 1


@lean
def _search_root(game: ChineseCheckersRhombus, work: Work, depth: int) -> None:
    """Search every move of the root: `values` gets the scores, exact for the best and upper bounds below it for the others.

    The first call lists the moves; later calls order them by their previous values.
    """
    settings, control, frame, moves = work.settings[0], work.control[0], work.frames[0], work.moves[0]
    root = wide(0)
    if control.count == 0:
        set_frame(work, wide(core.to_move(game, work.stack[0])))
        side = frame.side
        control.count = rank(work, root, side, list_moves(work, root, side), wide(NO_MOVE))
        if settings.algorithm != MINIMAX:
            for i in range(control.count):
                best_first(moves, i, control.count)
    else:
        _sort_by_values(work, control.count)
        for i in range(work.history.shape[1]):
            work.history[0, i] >>= 1
            work.history[1, i] >>= 1
    frame.depth = depth
    if settings.generation == CHANNELS:
        fill(work, root, 1 - frame.side)
    best = wide(-INFINITE)
    for i in range(control.count):
        play_child(game, work, root, moves[i])
        work.frames[1].expected = PV if i == 0 else PV + 1
        floor = best - settings.all_ties if i > 0 else wide(-INFINITE)
        score = -leaf_score(game, work, root + 1)
        if score == -UNKNOWN:
            low, high = child_window(settings.algorithm, i, floor, wide(INFINITE))
            score = -search(game, work, root + 1, -high, -low)
            if high < INFINITE and score > floor:
                work.frames[1].depth, work.frames[1].expected = depth - 1, PV
                score = -search(game, work, root + 1, wide(-INFINITE), -floor)
        if control.stopped and depth > 1:
            return
        work.values[i] = score if score > floor else score - 1
        best = max(best, score if score > floor else best)
    control.best = best


@lean
def set_frame(work: Work, side: int) -> None:
    """Write the frame of the position in `stack[0]`."""
    frame, state = work.frames[0], work.stack[0]
    frame.score = 0
    for player in range(2):
        slot = 0
        for parity in range(2):
            word = state[1 + 2 * player + parity]
            while word:
                cell = cell_of(lowest_bit(word), parity)
                word &= word - _ONE
                frame.cells[player, slot] = cell
                frame.score += work.worth[player, cell] * (1 - 2 * player)
                slot += 1
        frame.known[player] = 0
    frame.side = side
    frame.key = key_of(frame.cells, side)
    frame.expected = PV


@lean
def _sort_by_values(work: Work, count: int) -> None:
    """Sort the moves of the root by value, best first (stable)."""
    moves, values = work.moves[0], work.values
    for i in range(1, count):
        move, value, j = moves[i], values[i], i
        while j > 0 and values[j - 1] < value:
            moves[j], values[j] = moves[j - 1], values[j - 1]
            j -= 1
        moves[j], values[j] = move, value
