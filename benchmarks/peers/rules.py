"""Connect Four, 7 columns by 6 rows, in plain Python: the referee between the product's rules and those of a peer.

    board = Board([3, 3, 2])
    board.legal(), board.over, board.winner

Actions are columns from the left, 0 to 6. The module needs the standard library and NumPy alone, since the peers run in
environments without the product's dependencies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["CELLS", "COLUMNS", "ROWS", "Board", "Seen", "check_agreement", "random_games"]

COLUMNS, ROWS, LINE = 7, 6, 4
CELLS = COLUMNS * ROWS
DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))
CHECKED_GAMES = 100


@dataclass(frozen=True, slots=True)
class Seen:
    """Legal actions and winner of a position by some set of rules."""

    legal: tuple[int, ...]
    """Legal actions in ascending order; none when the game is over."""
    winner: int | None
    """Player who won, 0 for the first to move; None in an unfinished or drawn game."""


class Board:
    """Position of a game."""

    def __init__(self, moves: Iterable[int] = ()) -> None:
        """Play `moves` from the empty board; raises `ValueError` at an illegal one."""
        self._columns: list[list[int]] = [[] for _ in range(COLUMNS)]  # stones from below, by player
        self.ply = 0
        self.winner: int | None = None
        for move in moves:
            self.play(move)

    @property
    def over(self) -> bool:
        """Whether the game is won or the board full."""
        return self.winner is not None or self.ply == CELLS

    def legal(self) -> tuple[int, ...]:
        """Return the legal actions in ascending order."""
        return () if self.over else tuple(column for column in range(COLUMNS) if len(self._columns[column]) < ROWS)

    def seen(self) -> Seen:
        """Return the legal actions and the winner."""
        return Seen(self.legal(), self.winner)

    def play(self, column: int) -> None:
        """Drop a stone of the player to move; raises `ValueError` if the column is full or the game over."""
        if column not in self.legal():
            raise ValueError(f"column {column} is not one of the legal {self.legal()}")
        mover = self.ply % 2
        self._columns[column].append(mover)
        self.ply += 1
        if any(self._stones_in_line(column, across, up) >= LINE for across, up in DIRECTIONS):
            self.winner = mover

    def _stones_in_line(self, column: int, across: int, up: int) -> int:
        """Return the length of the line through the top stone of a column."""
        row = len(self._columns[column]) - 1
        mover = self._columns[column][row]

        def run(sign: int) -> int:
            length = 1
            while self._stone(column + sign * length * across, row + sign * length * up) == mover:
                length += 1
            return length - 1

        return 1 + run(1) + run(-1)

    def _stone(self, column: int, row: int) -> int | None:
        inside = 0 <= column < COLUMNS and 0 <= row < len(self._columns[column])
        return self._columns[column][row] if inside else None


def random_games(count: int, *, seed: int) -> Iterator[list[int]]:
    """Yield the moves of `count` finished games of uniformly random moves; deterministic in the arguments."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        board, moves = Board(), list[int]()
        while not board.over:
            moves.append(int(rng.choice(board.legal())))
            board.play(moves[-1])
        yield moves


def check_agreement(name: str, look: Callable[[Sequence[int]], Seen], *, games: int = CHECKED_GAMES, seed: int = 1) -> None:
    """Compare legal actions, ends and winners at every ply of random games.

    Args:
        name: Name of the other rules, for the message.
        look: Returns legal actions and winner after some moves by the other rules.
        games: Number of random games.
        seed: Seed of the games.

    Raises:
        RuntimeError: The rules differ.
    """
    for moves in random_games(games, seed=seed):
        for ply in range(len(moves) + 1):
            expected, found = Board(moves[:ply]).seen(), look(moves[:ply])
            if found != expected:
                raise RuntimeError(f"rules of {name} differ after {moves[:ply]}: {found}, want {expected}")
