"""Games that the tests of this folder need: a slow Connect Four to compare with, and one that can break every law."""

from __future__ import annotations

import pytest

from games.connect_four import ConnectFour


class NaiveConnectFour:
    """Connect Four on a list of columns, written to be obviously right."""

    def __init__(self, game: ConnectFour) -> None:
        self.game = game
        self.columns: list[list[int]] = [[] for _ in range(game.columns)]
        self.winner: int | None = None
        self.plies = 0

    def legal(self) -> list[int]:
        if self.over():
            return []
        return [x for x, stack in enumerate(self.columns) if len(stack) < self.game.rows]

    def over(self) -> bool:
        return self.winner is not None or self.plies == self.game.rows * self.game.columns

    def play(self, column: int) -> None:
        self.columns[column].append(self.plies % 2)
        if self._has_line(self.plies % 2):
            self.winner = self.plies % 2
        self.plies += 1

    def at(self, x: int, y: int) -> int | None:
        inside = 0 <= x < self.game.columns and 0 <= y < len(self.columns[x])
        return self.columns[x][y] if inside else None

    def _has_line(self, player: int) -> bool:
        for x in range(self.game.columns):
            for y in range(self.game.rows):
                for dx, dy in ((1, 0), (0, 1), (1, 1), (1, -1)):
                    if all(self.at(x + k * dx, y + k * dy) == player for k in range(self.game.connect)):
                        return True
        return False

    def planes(self, viewer: int) -> list[list[list[int]]]:
        def plane(wanted: int) -> list[list[int]]:
            return [[int(self.at(x, y) == wanted) for x in range(self.game.columns)] for y in reversed(range(self.game.rows))]

        seat = [[int(viewer == 0)] * self.game.columns for _ in range(self.game.rows)]
        return [plane(viewer), plane(1 - viewer), seat]


@pytest.fixture
def naive() -> type[NaiveConnectFour]:
    return NaiveConnectFour
