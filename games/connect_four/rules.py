"""Connect Four: drop stones into columns; `connect` stones in a row, a column or a diagonal win.

Actions are columns, numbered from the left; moves are written with the row the stone falls to, counted from the bottom:

    6 | . . . . . . . |
    5 | . . . . . . . |
    4 | . . . . . . . |
    3 | . . . . . . . |
    2 | . . . O . . . |      after d1, d2
    1 | . . . X . . . |
        a b c d e f g

State (uint64): a status word, then the stones, in one of two forms. `games.connect_four.bitboard` serves boards with
(rows + 1) * columns <= 64, `games.connect_four.columns` all others. Status: bits 0 to 31 count the plies, bits 32 and
33 hold the result (0 playing, 1 player 0 won, 2 player 1 won, 3 drawn), which `play` sets once.

Planes (3 x rows x columns), the top row first: my stones, the other player's stones, all ones if I am player 0. The parameter
`encoding` selects others (`games.connect_four.encodings`).
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from games import notation
from games.compiled import compiled
from games.connect_four import bitboard, drawing, encodings
from games.connect_four import columns as by_column
from games.core import GameSpec, State, Symmetry, register, rule
from games.errors import IllegalMove
from games.kit.bits import set_range
from games.kit.cells import Cell
from games.parameters import require_choice

__all__ = ["ConnectFour"]

_MAX_COLUMNS = 512
_ONE = np.uint64(1)
_RESULT = np.uint64(32)
_DRAWN = np.uint64(3) << _RESULT
_PLIES = np.uint64(0xFFFFFFFF)


@register("connect_four", choices={"encoding": encodings.ENCODINGS})
class ConnectFour(NamedTuple):
    """Connect Four with any number of rows and columns and any length of line."""

    rows: int = 6
    columns: int = 7
    connect: int = 4
    encoding: int = 0

    def spec(self) -> GameSpec:
        """See `games.core.Game`."""
        return _spec(self)

    def action_name(self, state: State, action: int) -> str:
        """See `games.core.Game`."""
        return f"{notation.column_name(action)}{self._height(state, action) + 1}"

    def parse_action(self, state: State, text: str) -> int:
        """Parse `d1`, or `d` alone since the row follows from the position; raises `IllegalMove`."""
        legal = notation.legal_names(self, state)
        wanted = text.strip().lower()
        for name, action in legal.items():
            if wanted in (name, name.rstrip("0123456789")):
                return action
        if not legal:
            raise IllegalMove(f"{text.strip()!r} is not a legal move here: the game is over")
        raise IllegalMove(f"{text.strip()!r} is not a legal move here{self._why_not(state, wanted)}; legal: {' '.join(legal)}")

    def _why_not(self, state: State, wanted: str) -> str:
        """Return the reason why a move is illegal, or nothing if it names no column of the board."""
        letters = wanted.rstrip("0123456789")
        names = [notation.column_name(column) for column in range(self.columns)]
        if letters not in names:
            return ""
        height = self._height(state, names.index(letters))
        if height == self.rows:
            return f" (column {letters} is full)"
        return f" (the next stone in column {letters} falls to {letters}{height + 1})"

    def draw(self, state: State) -> str:
        """See `games.core.Game`."""
        return drawing.text(self.stacks(state), self.rows)

    def player_marks(self) -> str:
        """Return the marks of the players in text drawings, by seat."""
        return "XO"

    def draw_svg(self, state: State) -> str:
        """Return the position as SVG."""
        return drawing.picture(self.stacks(state), self.rows)

    def cells(self, state: State) -> tuple[Cell, ...]:
        """Return the cells where a stone can land, for clicks."""
        return drawing.landing_cells(self.stacks(state), self.rows)

    def action_path(self, state: State, action: int) -> tuple[str, ...]:
        """Return the cell to click for an action."""
        return (self.action_name(state, action),)

    def stone_cells(self) -> tuple[Cell, ...]:
        """Return every cell of the board: each move places one stone of the mover, which stays."""
        return drawing.board_cells(self.columns, self.rows)

    def stacks(self, state: State) -> list[str]:
        """Return the stones of every column, from the left."""
        return [self.column(state, column) for column in range(self.columns)]

    def column(self, state: State, column: int) -> str:
        """Return the stones of a column from the bottom, `X` for player 0 and `O` for player 1, such as `XXO`."""
        if _fits_bitboard(self):
            shift = column * (self.rows + 1)
            first, second = int(state[1]) >> shift, int(state[2]) >> shift
        else:
            first, second = int(state[1 + column]), int(state[1 + column]) >> by_column.MAX_ROWS
        marks = ["X" if first >> row & 1 else "O" if second >> row & 1 else "" for row in range(self.rows)]
        return "".join(marks)

    def _height(self, state: State, column: int) -> int:
        """Return the number of stones of a column, without the time that `column` takes."""
        if _fits_bitboard(self):
            stones = (int(state[1]) | int(state[2])) >> column * (self.rows + 1)
        else:
            stones = int(state[1 + column]) | int(state[1 + column]) >> by_column.MAX_ROWS
        return (stones & (1 << self.rows) - 1).bit_count()


@functools.lru_cache(maxsize=64)
def _spec(game: ConnectFour) -> GameSpec:
    rows, columns, connect, encoding = game
    notation.require_range("connect_four", "rows", rows, 2, by_column.MAX_ROWS)
    notation.require_range("connect_four", "columns", columns, 2, _MAX_COLUMNS)
    notation.require_range("connect_four", "connect", connect, 2, max(rows, columns))
    require_choice("connect_four", "encoding", encoding, encodings.ENCODINGS)
    mirror = Symmetry(
        name="mirror",
        cells=np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)[:, ::-1].ravel().copy(),
        actions=np.arange(columns, dtype=np.int16)[::-1].copy(),
    )
    return GameSpec(
        name="connect_four",
        rules_version=1,
        num_players=2,
        num_actions=columns,
        max_legal=columns,
        state_dtype=np.dtype(np.uint64),
        state_size=3 if _fits_bitboard(game) else 1 + columns,
        planes=(encodings.num_planes(encoding), rows, columns),
        max_plies=rows * columns,
        symmetries=(mirror,),
        reading=encodings.reading(encoding),
        other_view=encodings.other_view(encoding),
    )


@compiled
def _fits_bitboard(game: ConnectFour) -> bool:
    return (game.rows + 1) * game.columns <= 64


@rule(ConnectFour)
def reset(game: ConnectFour, state: State, seed: int) -> None:
    """Clear the board."""
    state[:] = 0


@rule(ConnectFour)
def to_move(game: ConnectFour, state: State) -> int:
    """Return the player to move: players alternate, player 0 begins."""
    return int(state[0] & _ONE)


@rule(ConnectFour)
def legal_actions(game: ConnectFour, state: State, out: np.ndarray) -> int:
    """List every column that is not full, until the game is over."""
    if state[0] >> _RESULT:
        return 0
    if _fits_bitboard(game):
        return bitboard.legal(game, state, out)
    return by_column.legal(game, state, out)


@rule(ConnectFour)
def play(game: ConnectFour, state: State, action: int) -> None:
    """Drop the mover's stone, and store the result if the game ends."""
    player = int(state[0] & _ONE)
    won = bitboard.play(game, state, action, player) if _fits_bitboard(game) else by_column.play(game, state, action, player)
    status = state[0] + _ONE
    if won:
        status |= np.uint64(1 + player) << _RESULT
    elif status == np.uint64(game.rows * game.columns):
        status |= _DRAWN
    state[0] = status


@rule(ConnectFour)
def is_over(game: ConnectFour, state: State) -> bool:
    """Return whether there is a line or the board is full."""
    return (state[0] >> _RESULT) != 0  # type: ignore[no-any-return]


@rule(ConnectFour)
def scores(game: ConnectFour, state: State, out: np.ndarray) -> None:
    """Score 1 for a line, -1 for the other player, 0 each for a full board."""
    result = int(state[0] >> _RESULT)
    out[:] = 0.0
    if 1 <= result <= 2:
        out[result - 1] = 1.0
        out[2 - result] = -1.0


@rule(ConnectFour)
def encode(game: ConnectFour, state: State, viewer: int, out: np.ndarray) -> None:
    """Encode my stones, the other player's, and what `encoding` adds: by default all ones if I am player 0."""
    out[:] = 0
    if _fits_bitboard(game):
        bitboard.encode_stones(game, state, viewer, out)
    else:
        by_column.encode_stones(game, state, viewer, out)
    if game.encoding == 0:
        if viewer == 0:
            cells = game.rows * game.columns
            set_range(out, 2 * cells, 3 * cells)
        return
    if game.encoding >= 2:
        encodings.put_empty_cells(game, state, _fits_bitboard(game), out)
    if game.encoding == 3:
        encodings.put_threats(game, state, viewer, _fits_bitboard(game), out)
    encodings.put_turn(game, viewer == int(state[0] & _ONE), out)


@rule(ConnectFour)
def key(game: ConnectFour, state: State) -> np.uint64:
    """Return a hash of the stones; the player to move follows from their number."""
    return bitboard.key(game, state) if _fits_bitboard(game) else by_column.key(game, state)


@rule(ConnectFour)
def may_end(game: ConnectFour, state: State, plies: int) -> bool:
    """Test for lines but for one stone and for a nearly full board; on boards of more than 64 bits, the number of stones."""
    stones = np.int64(state[0] & _PLIES)
    if stones + plies < 2 * game.connect - 1:
        return False
    if not _fits_bitboard(game) or stones + plies >= game.rows * game.columns:
        return True
    return bitboard.may_end(game, state, int(np.int64(state[0] & _ONE)), plies)
