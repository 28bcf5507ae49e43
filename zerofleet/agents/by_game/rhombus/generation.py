"""Hop generation for the pieces of a side: four generators with the same result.

    flood      bit-parallel flood fill from each piece, like the rules
    fresh      depth-first search from each piece, cell by cell: the reference generator
    upward     each zone once: hops of all its pieces as links, from the rearmost piece; pieces then follow the links
    channels   flood fill, with results reused in later positions where a move left them valid (`channels`)

The allowed hops depend on the move set: MONO has no backward hops; NET and FULL have all, and with NET `listing` omits moves
that end behind their start. A piece stays on the board while it moves: it is in its own zone, and can only be the middle of
hops in the three others.
"""

from __future__ import annotations

import numpy as np

from games.chinese_checkers.rhombus.board import BOARD, HOPS
from games.compiled import lean
from games.kit.bits import lowest_bit
from zerofleet.agents.by_game.rhombus.cells import BY_LEVEL, HOP_OVER, HOP_TO
from zerofleet.agents.by_game.rhombus.work import FRESH, MONO, UPWARD, Work, cell_of, climbs, descends

__all__ = ["even_hops", "fill", "flood", "odd_hops", "reach"]

_ONE = np.uint64(1)
_ROW, _COLUMN, _SLANT = np.uint64(9), np.uint64(1), np.uint64(8)
_FOUR, _FIVE = np.uint64(4), np.uint64(5)
_ALL = (1 << 10) - 1  # one bit a piece


@lean
def fill(work: Work, ply: int, side: int) -> None:
    """Complete `frames[ply].jumps` of a side with the configured generator and move set."""
    settings, frame, state = work.settings[0], work.frames[ply], work.stack[ply]
    if frame.known[side] == _ALL:
        return
    taken = (state[1] | state[3], state[2] | state[4])
    if settings.generation == FRESH:
        _fill_by_walks(work, ply, side, taken)
    elif settings.generation == UPWARD:
        _fill_by_links(work, ply, side, taken)
    else:
        _fill_by_floods(work, ply, side, taken)
    frame.known[side] = _ALL


@lean
def _fill_by_floods(work: Work, ply: int, side: int, taken: tuple[np.uint64, np.uint64]) -> None:
    """Flood from each piece whose channel is not valid."""
    frame, moves = work.frames[ply], work.settings[0].moves
    even, odd = even_hops(taken), odd_hops(taken)
    ways = (climbs(moves, side), descends(moves, side))
    for slot in range(frame.cells.shape[1]):
        if not (frame.known[side] >> slot) & 1:
            frame.jumps[side, slot] = reach(frame.cells[side, slot], taken, even, odd, ways)


@lean
def reach(
    cell: int,
    taken: tuple[np.uint64, np.uint64],
    even: tuple[np.uint64, np.uint64, np.uint64],
    odd: tuple[np.uint64, np.uint64, np.uint64],
    ways: tuple[int, int],
) -> np.uint64:
    """Return the cells that a piece reaches by hops; `even` and `odd` are from `even_hops` and `odd_hops`."""
    piece = _ONE << np.uint64(cell >> 1)
    if cell & 1:
        return flood(piece, BOARD[1] & ~taken[1], odd, ways)
    return flood(piece, BOARD[0] & ~taken[0], even, ways)


@lean
def even_hops(taken: tuple[np.uint64, np.uint64]) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Return the cells of word 0 from which hops have an occupied middle, along the three axes."""
    return HOPS[0, 0] & (taken[1] >> _FOUR), HOPS[1, 0] & taken[1], HOPS[2, 0] & (taken[0] >> _FOUR)


@lean
def odd_hops(taken: tuple[np.uint64, np.uint64]) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Return the same as `even_hops`, for word 1."""
    return HOPS[0, 1] & (taken[0] >> _FIVE), HOPS[1, 1] & (taken[0] >> _ONE), HOPS[2, 1] & (taken[1] >> _FOUR)


@lean
def flood(piece: np.uint64, free: np.uint64, hops: tuple[np.uint64, np.uint64, np.uint64], ways: tuple[int, int]) -> np.uint64:
    """Return the free cells reachable by hops from a piece (one bit), all in the same word.

    Args:
        piece: Cell of the piece.
        free: Free cells of the word.
        hops: Cells of the word from which hops have an occupied middle: two rows on, two columns on, and along the level.
        ways: Whether hops may climb, and whether they may descend.
    """
    row, column, slant = hops
    reached = np.uint64(0)
    fresh = piece
    while fresh:
        landing = ((fresh & slant) << _SLANT) | ((fresh >> _SLANT) & slant)
        if ways[0]:
            landing |= ((fresh & row) << _ROW) | ((fresh & column) << _COLUMN)
        if ways[1]:
            landing |= ((fresh >> _ROW) & row) | ((fresh >> _COLUMN) & column)
        fresh = landing & free & ~reached
        reached |= fresh
    return reached


@lean
def _fill_by_walks(work: Work, ply: int, side: int, taken: tuple[np.uint64, np.uint64]) -> None:
    """Search depth first from each piece separately."""
    frame, waiting = work.frames[ply], work.waiting
    first, last = _directions(work.settings[0].moves, side)
    for slot in range(frame.cells.shape[1]):
        waiting[0] = frame.cells[side, slot]
        count, reached = 1, np.uint64(0)
        while count:
            count -= 1
            cell = waiting[count]
            for direction in range(first, last):
                there = HOP_TO[cell, direction]
                if there >= 0 and _is_taken(taken, HOP_OVER[cell, direction]) and not _is_taken(taken, there):
                    bit = _ONE << np.uint64(there >> 1)
                    if not reached & bit:
                        reached |= bit
                        waiting[count] = there
                        count += 1
        frame.jumps[side, slot] = reached


@lean
def _fill_by_links(work: Work, ply: int, side: int, taken: tuple[np.uint64, np.uint64]) -> None:
    """Link cells connected by hops, each zone once, then follow the links from every piece."""
    frame, state = work.frames[ply], work.stack[ply]
    own = (state[1 + 2 * side], state[2 + 2 * side])
    even_seen, odd_seen = np.uint64(0), np.uint64(0)
    for i in range(BY_LEVEL.shape[0]):
        level = i if side == 0 else BY_LEVEL.shape[0] - 1 - i
        even, odd = own[0] & BY_LEVEL[level, 0] & ~even_seen, own[1] & BY_LEVEL[level, 1] & ~odd_seen
        while even:
            start = cell_of(lowest_bit(even), 0)
            even_seen = _link(work, start, side, even_seen, (own[0], taken[0], taken[1]))
            even &= ~even_seen
        while odd:
            start = cell_of(lowest_bit(odd), 1)
            odd_seen = _link(work, start, side, odd_seen, (own[1], taken[0], taken[1]))
            odd &= ~odd_seen
    for slot in range(frame.cells.shape[1]):
        frame.jumps[side, slot] = _follow(work.links, frame.cells[side, slot])


@lean
def _link(work: Work, start: int, side: int, seen: np.uint64, words: tuple[np.uint64, np.uint64, np.uint64]) -> np.uint64:
    """Link all cells reachable by hops from `start`, across other pieces of the side too; return the visited cells.

    Args:
        work: Buffers; `links` gets, for each visited cell, the free cells one hop away.
        start: Cell of a piece.
        side: Its player.
        seen: Cells of its word that are already linked.
        words: The side's pieces in the word of `start`, and all occupied cells, by word.
    """
    own, taken = words[0], (words[1], words[2])
    first, last = _directions(work.settings[0].moves, side)
    links, waiting = work.links, work.waiting
    waiting[0], links[start] = start, np.uint64(0)
    seen |= _ONE << np.uint64(start >> 1)
    count = 1
    while count:
        count -= 1
        cell = waiting[count]
        for direction in range(first, last):
            there = HOP_TO[cell, direction]
            if there < 0 or not _is_taken(taken, HOP_OVER[cell, direction]):
                continue
            bit = _ONE << np.uint64(there >> 1)
            is_free = not _is_taken(taken, there)
            if is_free:
                links[cell] |= bit
            if (is_free or own & bit) and not seen & bit:
                seen |= bit
                links[there] = np.uint64(0)
                waiting[count] = there
                count += 1
    return seen


@lean
def _follow(links: np.ndarray, start: int) -> np.uint64:
    """Return the cells reachable by links from a cell."""
    reached = links[start]
    fresh = reached
    while fresh:
        cell = cell_of(lowest_bit(fresh), start & 1)
        fresh &= fresh - _ONE
        new = links[cell] & ~reached
        reached |= new
        fresh |= new
    return reached  # type: ignore[no-any-return]


@lean
def _directions(moves: int, side: int) -> tuple[int, int]:
    """Return the range of allowed hop directions."""
    if moves != MONO:
        return 0, 6
    return (0, 4) if side == 0 else (2, 6)


@lean
def _is_taken(taken: tuple[np.uint64, np.uint64], cell: int) -> bool:
    """Return whether a cell is occupied."""
    word = taken[1] if cell & 1 else taken[0]
    return (word >> np.uint64(cell >> 1)) & _ONE != 0  # type: ignore[no-any-return]
