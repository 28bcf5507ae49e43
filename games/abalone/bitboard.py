"""Abalone on 61-bit words: move generation, and the effect of a move on the marbles.

The cells are numbered modulo 61, so that a step in a given direction adds the same constant to every number: E 1, NW 13,
NE 14, and their opposites the negatives. This works because copies of the hexagon tile the plane with period 61 in each
direction. Rotating a word by that many bits moves all marbles at once; those that left the board wrap around to the far side
and are masked out.

                47 48 49 50 51
              33 34 35 36 37 38
            19 20 21 22 23 24 25
           5  6  7  8  9 10 11 12
        52 53 54 55 56 57 58 59 60         row by row upwards, the bits of rows A to E ascend, and so do those of
          39 40 41 42 43 44 45 46          rows F to I: taking the lowest bit of each half repeatedly visits the
            26 27 28 29 30 31 32           cells in the order A1, A2, .. I9
              13 14 15 16 17 18
                 0  1  2  3  4

Moves are looked up in tables: `table` 0 holds all 1,452 moves, `table` 1 the 1,272 that stay on the board.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from games.abalone import board
from games.compiled import compiled
from games.core import State
from games.kit.bits import count_bits, lowest_bit

__all__ = ["CELLS", "behind", "bit_of", "can_move", "legal", "moved", "nearness", "neighbours", "owners", "word"]

Four: TypeAlias = tuple[np.uint64, np.uint64, np.uint64, np.uint64]
Six: TypeAlias = tuple[np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, np.uint64]

_BITS = 61
_NW_STEP = 13
_RAY = 6
"""Number of cells that a step in line touches at most: three marbles, two pushed ones, and their target."""
_SLOTS = 30
"""Number of moves that belong to a cell: six steps in line, and four steps sideways for each of three lines and two lengths."""


def bit_of(cell: board.Cell) -> int:
    """Return the bit index of a cell."""
    return (_NW_STEP * cell[0] + cell[1]) % _BITS


def word(cells: str) -> int:
    """Return the word of the cells named in `cells`, such as `A1 A2`."""
    named = {board.cell_name(cell): 1 << bit_of(cell) for cell in board.CELLS}
    return sum(named[name] for name in cells.split())


def owners(state: State) -> dict[board.Cell, int]:
    """Return the owner of the marble on each occupied cell."""
    words = int(state[0]), int(state[1])
    return {cell: player for cell in board.CELLS for player in (0, 1) if words[player] >> bit_of(cell) & 1}


def _word_of(cells: list[board.Cell]) -> int:
    return sum(1 << bit_of(cell) for cell in cells if board.on_board(cell))


def _words(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


_STEPS = [bit_of(delta) for delta in board.DIRECTIONS.values()]
_BACK_LEFT, _BACK_RIGHT = _words([_BITS - step for step in _STEPS]), _words(_STEPS)
"""Bits to shift a word left and right, so that all cells step against a direction."""
_INNER = _words([_word_of([c for c in board.CELLS if board.on_board(board.neighbour(c, d))]) for d in board.DIRECTIONS])
"""Cells that have a neighbour in each direction."""
CELLS = np.uint64(2**_BITS - 1)
_HALVES = _words([_word_of([c for c in board.CELLS if c[0] <= 4]), _word_of([c for c in board.CELLS if c[0] > 4])])
_CENTRE_RINGS = _words([_word_of([c for c in board.CELLS if max(map(abs, board.cube(c))) <= ring]) for ring in range(4)])
"""Cells at most 0, 1, 2 and 3 steps from the centre."""
_ONE = np.uint64(1)
_NE, _E, _SE, _SW, _W, _NW = range(6)


def _rays() -> np.ndarray:
    """Return uint64 [61 * 6, 6]: for each cell (by bit) and direction, one word per cell in line, 0 off the board."""
    rays = np.zeros((_BITS * len(_STEPS), _RAY), dtype=np.uint64)
    for cell in board.CELLS:
        for d, direction in enumerate(board.DIRECTIONS):
            at = cell
            for k in range(_RAY):
                rays[bit_of(cell) * len(_STEPS) + d, k] = _word_of([at])
                at = board.neighbour(at, direction)
    return rays


_RAYS = _rays()
_SIDEWAYS = len(_RAYS)
_FLIPS = _words(
    [
        _word_of(list(move.line)) ^ _word_of([board.neighbour(cell, move.direction) for cell in move.line])
        for move in board.moves(1452)
        if move.is_sideways
    ]
)
"""Changed bits of the mover's marbles in each sideways move, by its number among such moves."""


def _effects() -> np.ndarray:
    """Return int16 [2, 1452]: index used by `moved` for each move: a row of `_RAYS`, or from `_SIDEWAYS` on, of `_FLIPS`."""
    every = board.moves(1452)
    flips = {move: i for i, move in enumerate(move for move in every if move.is_sideways)}
    effects = np.zeros((len(board.NUMBERS_OF_MOVES), len(every)), dtype=np.int16)
    for table, number in enumerate(board.NUMBERS_OF_MOVES):
        for action, move in enumerate(board.moves(number)):
            ray = bit_of(move.line[0]) * len(_STEPS) + list(board.DIRECTIONS).index(move.direction)
            effects[table, action] = _SIDEWAYS + flips[move] if move.is_sideways else ray
    return effects


def _numbers() -> np.ndarray:
    """Return int16 [2, 61, 30]: the number of each move of a cell (by bit), -1 for nonexistent ones."""
    numbers = np.full((len(board.NUMBERS_OF_MOVES), _BITS, _SLOTS), -1, dtype=np.int16)
    for table, number in enumerate(board.NUMBERS_OF_MOVES):
        known = {move: action for action, move in enumerate(board.moves(number))}
        for cell in board.CELLS:
            for slot, move in enumerate(board.moves_of(cell)):
                numbers[table, bit_of(cell), slot] = known.get(move, -1)
    return numbers


_EFFECTS = _effects()
_NUMBERS = _numbers()


@compiled
def behind(cells: np.uint64, direction: int) -> np.uint64:
    """Return the cells whose neighbour in a direction (0 to 5, as in `games.abalone.board.DIRECTIONS`) is one of `cells`."""
    turned = (cells << _BACK_LEFT[direction]) | (cells >> _BACK_RIGHT[direction])
    return turned & _INNER[direction]  # type: ignore[no-any-return]


@compiled
def _steps(mine: np.uint64, other: np.uint64, direction: int) -> tuple[np.uint64, np.uint64]:
    """Return the rear marbles of my lines that can move in a direction, and my marbles with an empty cell ahead."""
    empty = behind(CELLS & ~(mine | other), direction)
    free = mine & empty
    weak = behind(other & (empty | ~_INNER[direction]), direction)  # ahead of these cells one marble can be pushed,
    strong = behind(other & weak, direction)  # and ahead of these two
    pair = mine & behind(free | (mine & weak), direction)
    strong_pair = mine & behind(mine & strong, direction)
    three = mine & behind(pair | strong_pair, direction)
    return free | pair | three, free


@compiled
def legal(mine: np.uint64, other: np.uint64, table: int, out: np.ndarray) -> int:
    """Write the legal moves of the owner of `mine`, ascending, and return their number."""
    ne, free_ne = _steps(mine, other, _NE)
    e, free_e = _steps(mine, other, _E)
    se, free_se = _steps(mine, other, _SE)
    sw, free_sw = _steps(mine, other, _SW)
    w, free_w = _steps(mine, other, _W)
    nw, free_nw = _steps(mine, other, _NW)
    pairs_ne, threes_ne = _sideways((free_e, free_se, free_w, free_nw), _NE)
    pairs_e, threes_e = _sideways((free_ne, free_se, free_sw, free_nw), _E)
    pairs_nw, threes_nw = _sideways((free_ne, free_e, free_sw, free_w), _NW)
    listed = 0
    for half in range(2):
        left = mine & _HALVES[half]
        while left:
            bit = lowest_bit(left)
            at = np.uint64(bit)
            slots = ((ne >> at) & _ONE) | ((e >> at) & _ONE) << np.uint64(9)
            slots |= _four(pairs_ne, at) << np.uint64(1) | _four(threes_ne, at) << np.uint64(5)
            slots |= _four(pairs_e, at) << np.uint64(10) | _four(threes_e, at) << np.uint64(14)
            slots |= _four((se, sw, w, nw), at) << np.uint64(18)
            slots |= _four(pairs_nw, at) << np.uint64(22) | _four(threes_nw, at) << np.uint64(26)
            while slots:
                out[listed] = _NUMBERS[table, bit, lowest_bit(slots)]
                listed += 1
                slots &= slots - _ONE
            left &= left - _ONE
    return listed


@compiled
def _sideways(free: Four, ahead: int) -> tuple[Four, Four]:
    """Return the lower ends of pairs and of triples, along `ahead`, that can step in each of four directions."""
    a, b, c, d = free
    pairs = (a & behind(a, ahead), b & behind(b, ahead), c & behind(c, ahead), d & behind(d, ahead))
    a, b, c, d = (
        a & behind(pairs[0], ahead),
        b & behind(pairs[1], ahead),
        c & behind(pairs[2], ahead),
        d & behind(pairs[3], ahead),
    )
    return pairs, (a, b, c, d)


@compiled
def _four(words: Four, at: np.uint64) -> np.uint64:
    """Return the bits `at` of four words, side by side."""
    low = ((words[0] >> at) & _ONE) | ((words[1] >> at) & _ONE) << np.uint64(1)
    return low | ((words[2] >> at) & _ONE) << np.uint64(2) | ((words[3] >> at) & _ONE) << np.uint64(3)


@compiled
def can_move(mine: np.uint64, other: np.uint64) -> bool:
    """Return whether the owner of `mine` has a legal move; the first loop nearly always decides."""
    empty = CELLS & ~(mine | other)
    for direction in range(6):
        if mine & behind(empty, direction):
            return True
    pushes = np.uint64(0)
    for direction in range(6):
        pushes |= _steps(mine, other, direction)[0]
    return bool(pushes)


@compiled
def moved(mine: np.uint64, other: np.uint64, table: int, action: int) -> tuple[np.uint64, np.uint64]:
    """Return my marbles and the other player's after a legal move of mine, which may capture one of theirs."""
    effect = _EFFECTS[table, action]
    if effect >= _SIDEWAYS:
        return mine ^ _FLIPS[effect - _SIDEWAYS], other
    ahead = 1
    while mine & _RAYS[effect, ahead]:
        ahead += 1
    front = _RAYS[effect, ahead]
    if other & front:
        ahead += 1
        while other & _RAYS[effect, ahead]:
            ahead += 1
        other ^= front | _RAYS[effect, ahead]  # 0 if that is off the board
    return mine ^ (_RAYS[effect, 0] | front), other


@compiled
def nearness(marbles: np.uint64) -> int:
    """Return the sum over marbles of 4 minus the distance to the centre in steps."""
    return (
        count_bits(marbles & _CENTRE_RINGS[0])
        + count_bits(marbles & _CENTRE_RINGS[1])
        + count_bits(marbles & _CENTRE_RINGS[2])
        + count_bits(marbles & _CENTRE_RINGS[3])
    )


@compiled
def neighbours(marbles: np.uint64) -> int:
    """Return the sum over marbles of neighbours among them; each adjacent pair counts twice."""
    ne, e, nw = behind(marbles, _NE), behind(marbles, _E), behind(marbles, _NW)
    return 2 * (count_bits(marbles & ne) + count_bits(marbles & e) + count_bits(marbles & nw))
