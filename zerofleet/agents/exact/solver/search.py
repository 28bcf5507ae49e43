"""Null-window search of the Connect Four solver.

The score of a win is the number of the winner's remaining stones, including the winning one: a win with the next stone, with
n cells empty, scores (n + 1) // 2, so that earlier wins score higher; a loss scores the negative, a draw 0. On 6 x 7 the
score of the empty board is 1: the first player wins with its last stone.

A search tests whether the score exceeds a bound (a null window) and returns a bound at least as tight. It skips moves that
lose at once, plays forced replies only, and orders the others by the number of threats they create, centre columns first.
All this is from Pascal Pons, "Solving Connect 4: how to build a perfect AI" (2015-2019); positions are keyed after John
Tromp's Fhourstones. The search is a loop over frames, one per ply, instead of a recursion, so that it can stop after any
number of nodes and resume.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from games.compiled import lean
from games.kit.bits import count_bits
from zerofleet.agents.exact.solver.cells import Board, mirrored, open_wins, playable
from zerofleet.agents.exact.solver.table import UNKNOWN, fetch, look_up, note, scrambled

__all__ = ["NODES", "VALUE", "Outlook", "Room", "begin", "outlook", "room_for", "run"]

_ONE = np.uint64(1)
_BYTE = np.uint64(8)
_LOW_BYTE, _LEAST_MASK = np.uint64(0xFF), np.uint64(0x7F)
_ZERO_SCORE = 64  # offset of stored bounds: a score is between -32 and 32, since a board has fewer than 64 cells

MINE, TAKEN, THREATS = 0, 1, 2  # words of a frame
BOUND, BEST, NEXT, COUNT, BEGAN = 0, 1, 2, 3, 4  # numbers of a frame
PLY, FIRST, VALUE, ENTERING, NODES = 0, 1, 2, 3, 4  # numbers of the walk
MIRROR_PLIES = 8
"""Depth from the root within which mirror images are merged; deeper, the test costs more than it saves."""

_NOTHING = -128  # less than every score


class Room(NamedTuple):
    """State of a search. Plies count from the empty board; one frame for each, and one more."""

    words: np.ndarray  # uint64 [plies + 1, 3]
    numbers: np.ndarray  # int64 [plies + 1, 5]
    moves: np.ndarray  # uint64 [plies + 1, columns], cells to play, best first
    threats: np.ndarray  # uint64 [plies + 1, columns], winning cells of the mover after each
    weights: np.ndarray  # int64 [columns], for sorting
    order: np.ndarray  # uint64 [columns], columns from the centre outwards
    walk: np.ndarray  # int64 [5]


def room_for(board: Board) -> Room:
    """Allocate the state of searches on a board."""
    frames, columns = board.rows * board.columns + 1, board.columns
    middle_first = sorted(range(columns), key=lambda column: (abs(2 * column - columns + 1), column))
    column = (1 << board.rows) - 1
    return Room(
        words=np.zeros((frames, 3), dtype=np.uint64),
        numbers=np.zeros((frames, 5), dtype=np.int64),
        moves=np.zeros((frames, columns), dtype=np.uint64),
        threats=np.zeros((frames, columns), dtype=np.uint64),
        weights=np.zeros(columns, dtype=np.int64),
        order=np.array([column << (place * (board.rows + 1)) for place in middle_first], dtype=np.uint64),
        walk=np.zeros(5, dtype=np.int64),
    )


class Outlook(NamedTuple):
    """Static properties of a position."""

    code: np.uint64  # unique up to mirror images
    wins: np.uint64  # cells where the mover wins at once
    threats: np.uint64  # cells where the opponent would win, playable or not


@lean
def outlook(board: Board, mine: np.uint64, taken: np.uint64) -> Outlook:
    """Return the outlook of a position, given the stones of the player to move and all stones."""
    wins = open_wins(board, mine, taken) & playable(board, taken)
    code = min(_code(board, mine, taken), _code(board, mirrored(board, mine), mirrored(board, taken)))
    return Outlook(code, wins, open_wins(board, mine ^ taken, taken))


def begin(room: Room, position: tuple[int, int, int], bound: int) -> None:
    """Start a search whether the score of a position exceeds `bound` for the player to move, who must have no winning move.

    A position consists of the mover's stones, all stones and the threats of its `outlook`.
    """
    ply = position[1].bit_count()
    room.words[ply] = position
    room.numbers[ply, BOUND] = bound
    room.walk[:] = (ply, ply, 0, 1, 0)


@lean
def run(board: Board, room: Room, table: np.ndarray, most_nodes: int) -> bool:
    """Continue a search to its end or `most_nodes` nodes; return whether it is done, with the result in walk[VALUE].

    The result is an upper bound of the score if it does not exceed the tested bound, else a lower bound.
    """
    shift = np.uint64(64 - int(count_bits(np.uint64(table.size - 1))))
    walk = room.walk
    while walk[NODES] < most_nodes:
        ply = walk[PLY]
        if walk[ENTERING] and _enter(board, room, table, ply, shift):
            _descend(room, ply)
            continue
        if ply == walk[FIRST]:
            return True
        walk[PLY] = ply - 1
        walk[VALUE] = -walk[VALUE]
        walk[ENTERING] = 0
        if not _is_settled(board, room, table, ply - 1, shift):
            _descend(room, ply - 1)
    return False


@lean
def _descend(room: Room, ply: int) -> None:
    """Play the next move of a frame."""
    place = room.numbers[ply, NEXT]
    room.numbers[ply, NEXT] = place + 1
    mine, taken = room.words[ply, MINE], room.words[ply, TAKEN]
    room.words[ply + 1, MINE] = mine ^ taken
    room.words[ply + 1, TAKEN] = taken | room.moves[ply, place]
    room.words[ply + 1, THREATS] = room.threats[ply, place]
    room.numbers[ply + 1, BOUND] = -room.numbers[ply, BOUND] - 1  # integer scores: less than -b is at most -b - 1
    room.walk[PLY] = ply + 1
    room.walk[ENTERING] = 1


@lean
def _is_settled(board: Board, room: Room, table: np.ndarray, ply: int, shift: np.uint64) -> bool:
    """Back up the value of a move; return whether the frame is complete, with its value in walk[VALUE] and the table."""
    numbers = room.numbers[ply]
    value = room.walk[VALUE]
    numbers[BEST] = max(numbers[BEST], value)
    exceeds = value > numbers[BOUND]
    if not exceeds and numbers[NEXT] < numbers[COUNT]:
        return False
    best = numbers[BEST]
    room.walk[VALUE] = best
    left = board.rows * board.columns - ply
    least, most = -(left // 2), (left + 1) // 2
    product = _product(board, room, ply)
    word = look_up(table, product, shift)
    if word != UNKNOWN:
        least, most = _least(word), _most(word)
    if exceeds:
        least = max(least, best)
    else:
        most = min(most, best)
    bounds = (np.uint64(least + _ZERO_SCORE) << _BYTE) | np.uint64(most + _ZERO_SCORE)
    note(table, product, shift, bounds, np.uint64(room.walk[NODES] - numbers[BEGAN]))
    return True


@lean
def _enter(board: Board, room: Room, table: np.ndarray, ply: int, shift: np.uint64) -> bool:
    """Visit the position of a frame; return whether its moves need a search, else its value is in walk[VALUE]."""
    walk = room.walk
    walk[NODES] += 1
    left = board.rows * board.columns - ply
    taken, threats = room.words[ply, TAKEN], room.words[ply, THREATS]
    moves = _moves(playable(board, taken), threats)
    if not moves:
        walk[VALUE] = -(left // 2)
        return False
    if left <= 2:
        walk[VALUE] = 0
        return False
    least, most = -((left - 2) // 2), (left - 1) // 2  # no win with the next stone
    word = look_up(table, _product(board, room, ply), shift)
    if word != UNKNOWN:
        least, most = max(least, _least(word)), min(most, _most(word))
    bound = room.numbers[ply, BOUND]
    if least > bound:
        walk[VALUE] = least
        return False
    if most <= bound:
        walk[VALUE] = most
        return False
    _sort(board, room, table, ply, moves, shift)
    return True


@lean
def _moves(cells: np.uint64, threats: np.uint64) -> np.uint64:
    """Return the playable cells that do not lose at once: forced replies if any, never a cell below a threat."""
    forced = cells & threats
    if forced:
        if forced & (forced - _ONE):
            return np.uint64(0)  # two immediate wins cannot both be blocked
        cells = forced
    return cells & ~(threats >> _ONE)


@lean
def _sort(board: Board, room: Room, table: np.ndarray, ply: int, moves: np.uint64, shift: np.uint64) -> None:
    """Write the moves of a frame in descending order of the mover's winning cells after each."""
    mine, taken = room.words[ply, MINE], room.words[ply, TAKEN]
    cells, threats, weights = room.moves[ply], room.threats[ply], room.weights
    count = 0
    for i in range(board.columns):
        move = moves & room.order[i]
        if move:
            wins = open_wins(board, mine | move, taken | move)
            weight = count_bits(wins)
            fetch(table, scrambled(_code(board, mine ^ taken, taken | move)), shift)
            place = count
            while place > 0 and weights[place - 1] < weight:
                weights[place] = weights[place - 1]
                cells[place] = cells[place - 1]
                threats[place] = threats[place - 1]
                place -= 1
            weights[place], cells[place], threats[place] = weight, move, wins
            count += 1
    numbers = room.numbers[ply]
    numbers[BEST], numbers[NEXT], numbers[COUNT], numbers[BEGAN] = _NOTHING, 0, count, room.walk[NODES]


@lean
def _product(board: Board, room: Room, ply: int) -> np.uint64:
    """Return the table product of a frame's position."""
    mine, taken = room.words[ply, MINE], room.words[ply, TAKEN]
    code = _code(board, mine, taken)
    if ply < room.walk[FIRST] + MIRROR_PLIES:
        code = min(code, _code(board, mirrored(board, mine), mirrored(board, taken)))
    return scrambled(code)


@lean
def _code(board: Board, mine: np.uint64, taken: np.uint64) -> np.uint64:
    """Return a unique code: the mover's stones, plus one bit at the lowest empty cell of each column."""
    return mine + taken + board.bottoms


@lean
def _least(word: np.uint64) -> int:
    return int((word >> _BYTE) & _LEAST_MASK) - _ZERO_SCORE


@lean
def _most(word: np.uint64) -> int:
    return int(word & _LOW_BYTE) - _ZERO_SCORE
