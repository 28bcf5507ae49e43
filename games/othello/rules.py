"""Othello: flank discs of the other player to flip them; the player with more discs at the end wins.

Columns are named by letters, rows by numbers from the top, as in Othello notation. Actions number the cells row by row
from the top left; the last action is the pass. The start, X to move:

      a b c d e f g h
    1 . . . . . . . .
    2 . . . . . . . .
    3 . . . * . . . .      X may take d3, c4, f5 or e6
    4 . . * O X . . .
    5 . . . X O * . .
    6 . . . . * . . .
    7 . . . . . . . .
    8 . . . . . . . .

State (uint64 [3]): discs of player 0 (X), discs of player 1 (O), the cells the player to move may take, as words of
`games.othello.bitboard`. The central cells are never empty, so two of their bits are free in the third word:
d4 is set if player 1 is to move, e4 if the game is over. A player to move without a cell to take must pass.

Planes (3 x size x size), the top row first: my discs, the other player's discs, cells I could take if it were my turn.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from games import core, notation
from games.compiled import compiled
from games.core import GameSpec, State, register, rule
from games.errors import IllegalMove, InvalidParameters
from games.kit.bits import count_bits, lowest_bit
from games.kit.cells import Cell
from games.kit.randomness import mix64
from games.kit.squares import square_symmetries
from games.othello import bitboard, drawing

__all__ = ["Othello", "position_of"]

_CLICKED = 20.0  # radius of a cell for clicks, in pixels of the picture
_SIZES = (4, 6, 8)
_BOARDS = np.array([0, 0, 0, 0, 0x00003C3C3C3C0000, 0, 0x007E7E7E7E7E7E00, 0, 0xFFFFFFFFFFFFFFFF], dtype=np.uint64)
"""Cells of the board, by its size."""
_CORNERS = np.array([0, 0, 0, 0, 0x0000240000240000, 0, 0x0042000000004200, 0, 0x8100000000000081], dtype=np.uint64)
"""Corners of the board, by its size."""
_POSITIONS_OF_4 = 62_789  # counted: all that play can reach on 4 x 4
_CORNER_WORTH = 8  # in cells to take: a disc in a corner is never flipped
_MOST_TAKEABLE = 46  # cells, by the bound on legal moves
_ONE = np.uint64(1)
_BYTE = np.uint64(255)
_SECOND = _ONE << np.uint64(27)  # d4
_OVER = _ONE << np.uint64(28)  # e4
_WHERE_SECOND = np.uint64(27)
_CELLS = ~(_SECOND | _OVER)
_START = (_ONE << np.uint64(28) | _ONE << np.uint64(35), _ONE << np.uint64(27) | _ONE << np.uint64(36))


@register("othello")
class Othello(NamedTuple):
    """Othello on 4 x 4, 6 x 6 or 8 x 8 cells."""

    size: int = 8
    margin: bool = False

    def spec(self) -> GameSpec:
        """See `games.core.Game`."""
        if self.size not in _SIZES:
            raise InvalidParameters(f"othello: size={self.size} is out of range; it must be 4, 6 or 8")
        return _spec(self)

    @property
    def max_positions(self) -> int:
        """Upper bound on the number of positions."""
        return _POSITIONS_OF_4 if self.size == _SIZES[0] else 2 * 3 ** (self.size * self.size)

    def action_name(self, state: State, action: int) -> str:
        """Return the notation: a cell such as `d3`, or `pass`."""
        if action == self.size * self.size:
            return "pass"
        return f"{notation.column_name(action % self.size)}{action // self.size + 1}"

    def parse_action(self, state: State, text: str) -> int:
        """Parse `d3` or `pass`; raises `IllegalMove` with the reason and the legal moves."""
        legal = notation.legal_names(self, state)
        wanted = text.strip().lower()
        if wanted in legal:
            return legal[wanted]
        if not legal:
            raise IllegalMove(f"{text.strip()!r} is not a legal move here: the game is over")
        raise IllegalMove(f"{text.strip()!r} is not a legal move here{self._why_not(state, wanted)}; legal: {' '.join(legal)}")

    def _why_not(self, state: State, wanted: str) -> str:
        """Return the reason why a move is illegal in this position, or nothing if it is never legal."""
        cells = {self.action_name(state, action): action for action in range(self.size * self.size)}
        if wanted == "pass":
            return " (passing is legal only if no disc can be flipped)"
        if wanted not in cells:
            return ""
        if self.marks(state)[cells[wanted]] != ".":
            return f" ({wanted} is occupied)"
        return f" (a disc on {wanted} flips no disc)"

    def marks(self, state: State) -> str:
        """Return the cells in the order of their actions: `X` for player 0, `O` for player 1, `.` for empty ones."""
        first, second = int(state[0]), int(state[1])
        places = [_place(self.size, action) for action in range(self.size * self.size)]
        return "".join("X" if first >> place & 1 else "O" if second >> place & 1 else "." for place in places)

    def caption(self, state: State) -> str:
        """Return the disc counts and the player to move, such as `X 2, O 2, X to move`."""
        marks = self.marks(state)
        counts = f"X {marks.count('X')}, O {marks.count('O')}"
        if core.is_over(self, state):
            return f"{counts}, over"
        must = "to move" if int(state[2] & _CELLS) else "must pass"
        return f"{counts}, {'XO'[core.to_move(self, state)]} {must}"

    def draw(self, state: State) -> str:
        """See `games.core.Game`."""
        return drawing.text(self.marks(state), self.size, self.caption(state))

    def player_marks(self) -> str:
        """Return the marks of the players in text drawings, by seat."""
        return "XO"

    def draw_svg(self, state: State) -> str:
        """Return the position as SVG; dots mark the cells the player to move may take."""
        takeable = set(notation.legal_names(self, state).values())
        return drawing.picture(self.marks(state), self.size, takeable, self.caption(state))

    def cells(self, state: State) -> tuple[Cell, ...]:
        """Return the cells of the picture, for clicks."""
        every = range(self.size * self.size)
        return tuple(Cell(self.action_name(state, cell), *drawing.centre(cell, self.size), _CLICKED) for cell in every)

    def action_path(self, state: State, action: int) -> tuple[str, ...]:
        """Return the cell to click for an action; a pass has none."""
        return () if action == self.size * self.size else (self.action_name(state, action),)


@functools.lru_cache(maxsize=16)
def _spec(game: Othello) -> GameSpec:
    cells = game.size * game.size
    return GameSpec(
        name="othello",
        rules_version=1,
        num_players=2,
        num_actions=cells + 1,
        max_legal=_most_moves(cells),
        state_dtype=np.dtype(np.uint64),
        state_size=3,
        planes=(3, game.size, game.size),
        max_plies=2 * (cells - 4) - 1,  # a cell is taken before and after every pass
        symmetries=square_symmetries(game.size, other_actions=1),  # half of them swap the colours of the start
    )


def _most_moves(cells: int) -> int:
    """Return a bound on the number of legal moves, from the numbers of discs.

    Each move ends a line that starts at a disc of mine: at most 8 per disc. Each is adjacent to a flanked disc of the other
    player, and on a line through that disc only one side can be empty while the other leads to mine: at most 4 per disc.
    """
    return max(min(cells - mine - other, 8 * mine, 4 * other) for mine in range(1, cells) for other in range(1, cells - mine))


@compiled
def _place(size: int, action: int) -> int:
    """Return the bit index of the cell that an action takes."""
    rim = (8 - size) >> 1
    return 8 * (action // size + rim) + action % size + rim


@compiled
def _player(state: State) -> int:
    return int(np.int64((state[2] >> _WHERE_SECOND) & _ONE))


def position_of(game: Othello, marks: str, player: int) -> State:
    """Return the position with these marks, as `Othello.marks` has them, and this player to move; it may be over."""
    state = np.zeros(game.spec().state_size, dtype=np.uint64)
    for action, mark in enumerate(marks):
        if mark != ".":
            state["XO".index(mark)] |= _ONE << np.uint64(_place(game.size, action))
    state[2] = _coming(game, state[player], state[1 - player], player)
    return state


@compiled
def _coming(game: Othello, mine: np.uint64, other: np.uint64, player: int) -> np.uint64:
    """Return the third word of a position in which `player` is to move, with the discs `mine`."""
    board = _BOARDS[game.size]
    following: np.uint64 = bitboard.moves(mine, other, board)
    if not following and not bitboard.moves(other, mine, board):
        following = _OVER
    if player == 1:
        following |= _SECOND
    return following


@rule(Othello)
def reset(game: Othello, state: State, seed: int) -> None:
    """Set up the four discs in the middle."""
    state[0] = _START[0]
    state[1] = _START[1]
    state[2] = bitboard.moves(state[0], state[1], _BOARDS[game.size])


@rule(Othello)
def to_move(game: Othello, state: State) -> int:
    """Return the player to move: players alternate, passes included, and player 0 begins."""
    return _player(state)


@rule(Othello)
def legal_actions(game: Othello, state: State, out: np.ndarray) -> int:
    """List the cells that flank a disc; only the pass if there are none and the game is not over."""
    if state[2] & _OVER:
        return 0
    left = state[2] & _CELLS
    if not left:
        out[0] = game.size * game.size
        return 1
    rim = (8 - game.size) >> 1
    listed = 0
    while left:
        place = lowest_bit(left)
        out[listed] = place if rim == 0 else ((place >> 3) - rim) * game.size + (place & 7) - rim
        listed += 1
        left &= left - _ONE
    return listed


@rule(Othello)
def play(game: Othello, state: State, action: int) -> None:
    """Take the cell and flip the flanked discs, or pass; then compute the moves of the next player."""
    player = _player(state)
    mine, other = state[player], state[1 - player]
    if action < game.size * game.size:
        cell = _ONE << np.uint64(_place(game.size, action))
        flips = bitboard.turned(mine, other, cell)
        mine ^= flips | cell
        other ^= flips
        state[player], state[1 - player] = mine, other
    state[2] = _coming(game, other, mine, 1 - player)


@rule(Othello)
def is_over(game: Othello, state: State) -> bool:
    """Return whether neither player has a cell to take."""
    return (state[2] & _OVER) != 0  # type: ignore[no-any-return]


@rule(Othello)
def scores(game: Othello, state: State, out: np.ndarray) -> None:
    """Score 1 for more discs, -1 for fewer, 0 for a tie; with `margin`, the difference as a share of the cells."""
    difference = count_bits(state[0]) - count_bits(state[1])
    score = difference / (game.size * game.size) if game.margin else float((difference > 0) - (difference < 0))
    out[0] = score
    out[1] = -score


@rule(Othello)
def encode(game: Othello, state: State, viewer: int, out: np.ndarray) -> None:
    """Encode my discs, the other player's, and the cells I could take if it were my turn."""
    out[:] = 0
    mine, other = state[viewer], state[1 - viewer]
    cells = game.size * game.size
    _encode_cells(game.size, mine, 0, out)
    _encode_cells(game.size, other, cells, out)
    _encode_cells(game.size, bitboard.moves(mine, other, _BOARDS[game.size]), 2 * cells, out)


@compiled
def _encode_cells(size: int, word: np.uint64, start: int, out: np.ndarray) -> None:
    """Set the bits of a word's cells in the plane at bit `start`, row by row; a row is at most a byte."""
    rim = (8 - size) >> 1
    full = (_ONE << np.uint64(size)) - _ONE
    for y in range(size):
        row = (word >> np.uint64(8 * (y + rim) + rim)) & full
        bit = start + y * size
        row <<= np.uint64(bit & 7)
        out[bit >> 3] |= np.uint8(row & _BYTE)
        if row > _BYTE:
            out[(bit >> 3) + 1] |= np.uint8(row >> np.uint64(8))


@rule(Othello)
def key(game: Othello, state: State) -> np.uint64:
    """Return a hash of the discs of both players and the player to move; the rest follows."""
    return mix64(mix64(state[0] ^ (state[2] & _SECOND)) + state[1])


@rule(Othello)
def move_value(game: Othello, state: State, action: int) -> float:
    """Return the number of discs flipped."""
    if action == game.size * game.size:
        return 0.0
    player = _player(state)
    cell = _ONE << np.uint64(_place(game.size, action))
    return float(count_bits(bitboard.turned(state[player], state[1 - player], cell)))


@rule(Othello)
def estimate(game: Othello, state: State, out: np.ndarray) -> None:
    """Score the lead in cells to take and discs in corners, as a share of its maximum."""
    board, corners = _BOARDS[game.size], _CORNERS[game.size]
    first, second = state[0], state[1]
    lead = count_bits(bitboard.moves(first, second, board)) - count_bits(bitboard.moves(second, first, board))
    lead += _CORNER_WORTH * (count_bits(first & corners) - count_bits(second & corners))
    out[0] = lead / (_MOST_TAKEABLE + 4 * _CORNER_WORTH + 1)
    out[1] = -out[0]
