"""Naive reference search: dictionaries and lists, depth-first move generation, minimax without pruning.

Baseline for the compiled search: equal value at equal depth, and the speed-up. It reimplements the rules for the default
parameters of the game, and shares with the compiled search only the values of the cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from games.core import State
from zerofleet.agents.by_game.rhombus.evaluation import WIN, cell_values

__all__ = ["PlainPosition", "plain_score", "read_plain"]

Cell = tuple[int, int]
Move = tuple[Cell, Cell]

_DIRECTIONS = ((1, 0), (0, 1), (1, -1), (-1, 0), (0, -1), (-1, 1))
_CAP = ChineseCheckersRhombus().ply_cap
_HOMES = (
    [(row, column) for row in range(9) for column in range(9) if row + column <= 3],
    [(row, column) for row in range(9) for column in range(9) if row + column >= 13],
)


@dataclass(frozen=True)
class PlainPosition:
    """Owner of each occupied cell, player to move, and plies played."""

    owners: dict[Cell, int]
    mover: int
    plies: int

    def moves(self) -> list[Move]:
        """Return all legal moves."""
        found = []
        for start, owner in self.owners.items():
            if owner == self.mover:
                steps = [(start[0] + down, start[1] + right) for down, right in _DIRECTIONS]
                targets = [cell for cell in steps if self._is_free(cell)]
                self._hop(start, targets, [start])
                found += [(start, target) for target in targets]
        return found

    def after(self, move: Move) -> PlainPosition:
        """Return the position after a move."""
        start, target = move
        owners = {cell: owner for cell, owner in self.owners.items() if cell != start}
        owners[target] = self.mover
        return PlainPosition(owners, 1 - self.mover, self.plies + 1)

    def result(self) -> float | None:
        """Return the score of the player to move if the game is over, else None."""
        for player in (1 - self.mover, self.mover):
            inside = [self.owners.get(cell) for cell in _HOMES[1 - player]]
            if None not in inside and player in inside:
                return 1.0 if player == self.mover else -1.0
        if not self.moves():
            return -1.0
        if self.plies >= _CAP:
            lead = sum(row + column if owner == 0 else row + column - 16 for (row, column), owner in self.owners.items())
            return (lead if self.mover == 0 else -lead) / 120
        return None

    def value(self) -> int:
        """Return the sum of the cell values for the player to move."""
        worth = cell_values().worth
        score = 0
        for (row, column), owner in self.owners.items():
            value = int(worth[owner][9 * row + column])
            score += value if owner == self.mover else -value
        return score

    def _is_free(self, cell: Cell) -> bool:
        return 0 <= cell[0] < 9 and 0 <= cell[1] < 9 and cell not in self.owners

    def _hop(self, cell: Cell, targets: list[Cell], seen: list[Cell]) -> None:
        """Append the targets of hops from a cell, depth first."""
        for down, right in _DIRECTIONS:
            there = (cell[0] + 2 * down, cell[1] + 2 * right)
            if (cell[0] + down, cell[1] + right) in self.owners and self._is_free(there) and there not in seen:
                seen.append(there)
                targets.append(there)
                self._hop(there, targets, seen)


def read_plain(state: State) -> PlainPosition:
    """Convert a state of the compiled rules."""
    marks = ChineseCheckersRhombus().marks(np.asarray(state))
    owners = {divmod(cell, 9): "XO".index(mark) for cell, mark in enumerate(marks) if mark != "."}
    plies = int(state[0]) & 0xFFFFFFFF
    return PlainPosition(owners, plies % 2, plies)


def plain_score(position: PlainPosition, depth: int, ply: int = 0) -> tuple[int, int]:
    """Return the score of a position for the player to move, searched `depth` plies deep, and the number of nodes."""
    result = position.result()
    if result is not None:
        if abs(result) == 1.0:
            return (WIN - ply if result > 0 else ply - WIN), 1
        return round(result * 120) * cell_values().level, 1
    if depth == 0:
        return position.value(), 1
    best, nodes = -WIN, 1
    for move in position.moves():
        score, below = plain_score(position.after(move), depth - 1, ply + 1)
        best = max(best, -score)
        nodes += below
    return best, nodes
