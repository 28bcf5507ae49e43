"""Tic-tac-toe: three in a row on 3 x 3.

Cells and actions are numbered row by row from the top left, written as column letter and row from the bottom:

    3 | 0 1 2      a3 b3 c3
    2 | 3 4 5      a2 b2 c2
    1 | 6 7 8      a1 b1 c1

State (uint64 [3]): stones of player 0, stones of player 1, plies played; bit i of a stones word is cell i.
Planes (2 x 3 x 3): my stones, the other player's stones. With `encoding=one_hot` (3 x 3 x 3) also the empty cells: 27 bits, of
which 9 are ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from games import notation
from games.core import GameSpec, State, register, rule
from games.kit import svg
from games.kit.bits import set_bit
from games.kit.cells import Cell
from games.kit.randomness import mix64
from games.kit.squares import square_symmetries
from games.parameters import require_choice
from games.views import OtherView

__all__ = ["TicTacToe"]

_SIDE, _MARGIN = 60.0, 34.0  # of the picture, in pixels
_NAMES = tuple(f"{column}{row}" for row in (3, 2, 1) for column in "abc")
_LINES = np.array([0b111, 0b111000, 0b111000000, 0b1001001, 0b10010010, 0b100100100, 0b100010001, 0b1010100], dtype=np.uint64)


_SPEC = GameSpec(
    name="tic_tac_toe",
    rules_version=1,
    num_players=2,
    num_actions=9,
    max_legal=9,
    state_dtype=np.dtype(np.uint64),
    state_size=3,
    planes=(2, 3, 3),
    max_plies=9,
    symmetries=square_symmetries(3),
    other_view=OtherView(sources=(1, 0), inverted=(False, False)),
)


_ENCODINGS = ("planes", "one_hot")
_POSITIONS = 5_478  # counted
_ONE_HOT = OtherView(sources=(1, 0, 2), inverted=(False, False, False))
_SPECS = (_SPEC, replace(_SPEC, planes=(3, 3, 3), other_view=_ONE_HOT))


@register("tic_tac_toe", choices={"encoding": _ENCODINGS})
class TicTacToe(NamedTuple):
    """Tic-tac-toe; `size` is fixed."""

    size: int = 3
    encoding: int = 0

    def spec(self) -> GameSpec:
        """See `games.core.Game`."""
        notation.require_range("tic_tac_toe", "size", self.size, 3, 3)
        require_choice("tic_tac_toe", "encoding", self.encoding, _ENCODINGS)
        return _SPECS[self.encoding]

    @property
    def max_positions(self) -> int:
        """Number of positions that play can reach."""
        return _POSITIONS

    def action_name(self, state: State, action: int) -> str:
        """See `games.core.Game`."""
        return _NAMES[action]

    def parse_action(self, state: State, text: str) -> int:
        """See `games.core.Game`."""
        return notation.parse_listed(self, state, text)

    def draw(self, state: State) -> str:
        """See `games.core.Game`."""
        marks = self.marks(state)
        rows = [f"{3 - y} {' '.join(marks[3 * y : 3 * y + 3])}" for y in range(3)]
        return "\n".join([*rows, "  a b c"])

    def marks(self, state: State) -> str:
        """Return the cells in the order of their actions: `X` for player 0, `O` for player 1, `.` for empty ones."""
        first, second = int(state[0]), int(state[1])
        return "".join("X" if first >> i & 1 else "O" if second >> i & 1 else "." for i in range(9))

    def player_marks(self) -> str:
        """Return the marks of the players in text drawings, by seat."""
        return "XO"

    def draw_svg(self, state: State) -> str:
        """Return the position as SVG."""
        side, margin = _SIDE, _MARGIN
        canvas = svg.Canvas(3 * side + 2 * margin, 3 * side + 1.5 * margin)
        canvas.rectangle(margin, margin / 2, 3 * side, 3 * side, fill=svg.BOARD, corner=6.0)
        for i in range(1, 3):
            canvas.line(margin + i * side, margin / 2, margin + i * side, margin / 2 + 3 * side, width=2.0)
            canvas.line(margin, margin / 2 + i * side, margin + 3 * side, margin / 2 + i * side, width=2.0)
        for i, mark in enumerate(self.marks(state)):
            if mark != ".":
                x, y = margin + (i % 3 + 0.5) * side, margin / 2 + (i // 3 + 0.5) * side
                canvas.text(x, y, mark, size=0.7 * side, fill=svg.PLAYER_COLOURS["XO".index(mark)], bold=True)
        for i in range(3):
            canvas.text(margin + (i + 0.5) * side, 3 * side + margin, "abc"[i])
            canvas.text(margin / 2, margin / 2 + (i + 0.5) * side, str(3 - i))
        return canvas.render("Tic-tac-toe: " + " ".join(self.marks(state)[y : y + 3] for y in (0, 3, 6)))

    def cells(self, state: State) -> tuple[Cell, ...]:
        """Return the cells of the picture, for clicks."""
        return self.stone_cells()

    def stone_cells(self) -> tuple[Cell, ...]:
        """Return every cell of the board: each move places one stone of the mover, which stays."""
        places = ((_MARGIN + (i % 3 + 0.5) * _SIDE, _MARGIN / 2 + (i // 3 + 0.5) * _SIDE) for i in range(9))
        return tuple(Cell(name, x, y, 0.45 * _SIDE) for name, (x, y) in zip(_NAMES, places, strict=True))

    def action_path(self, state: State, action: int) -> tuple[str, ...]:
        """Return the cell to click for an action."""
        return (_NAMES[action],)


@rule(TicTacToe)
def reset(game: TicTacToe, state: State, seed: int) -> None:
    """Clear the board."""
    state[:] = 0


@rule(TicTacToe)
def to_move(game: TicTacToe, state: State) -> int:
    """Return the player to move: players alternate, player 0 begins."""
    return int(state[2] & np.uint64(1))


@rule(TicTacToe)
def legal_actions(game: TicTacToe, state: State, out: np.ndarray) -> int:
    """List every empty cell, until the game is over."""
    if is_over(game, state):
        return 0
    taken = state[0] | state[1]
    count = 0
    for cell in range(9):
        if not (taken >> np.uint64(cell)) & np.uint64(1):
            out[count] = cell
            count += 1
    return count


@rule(TicTacToe)
def play(game: TicTacToe, state: State, action: int) -> None:
    """Put the mover's stone on the cell."""
    state[int(state[2] & np.uint64(1))] |= np.uint64(1) << np.uint64(action)
    state[2] += np.uint64(1)


@rule(TicTacToe)
def is_over(game: TicTacToe, state: State) -> bool:
    """Return whether the last mover has three in a row, or the board is full."""
    last = state[int((state[2] + np.uint64(1)) & np.uint64(1))]
    for line in _LINES:
        if last & line == line:
            return True
    return state[2] == np.uint64(9)  # type: ignore[no-any-return]


@rule(TicTacToe)
def scores(game: TicTacToe, state: State, out: np.ndarray) -> None:
    """Score 1 for three in a row, -1 for the other player, 0 each for a draw."""
    out[:] = 0.0
    for player in range(2):
        for line in _LINES:
            if state[player] & line == line:
                out[player] = 1.0
                out[1 - player] = -1.0


@rule(TicTacToe)
def encode(game: TicTacToe, state: State, viewer: int, out: np.ndarray) -> None:
    """Encode my stones, the other player's and, with `one_hot`, the empty cells."""
    out[:] = 0
    for plane in range(2):
        stones = state[viewer ^ plane]
        for cell in range(9):
            if (stones >> np.uint64(cell)) & np.uint64(1):
                set_bit(out, plane * 9 + cell)
    if game.encoding == 1:
        taken = state[0] | state[1]
        for cell in range(9):
            if not (taken >> np.uint64(cell)) & np.uint64(1):
                set_bit(out, 18 + cell)


@rule(TicTacToe)
def key(game: TicTacToe, state: State) -> np.uint64:
    """Return a hash of both words of stones."""
    return mix64((state[0] << np.uint64(9)) | state[1])


@rule(TicTacToe)
def may_end(game: TicTacToe, state: State, plies: int) -> bool:
    """Return whether the fifth stone, the first to complete a line, is among the next ones."""
    return int(state[2]) + plies >= 5
