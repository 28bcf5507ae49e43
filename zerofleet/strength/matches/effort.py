"""What moves cost: how many a player chose, the nodes it looked at, and the time it took."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Effort"]


@dataclass(frozen=True, slots=True)
class Effort:
    """The cost of some moves of one player; efforts add up. Moves of the opening cost nobody anything."""

    moves: int = 0
    nodes: int = 0
    """As agents count them (`Choice.nodes`); of a model, visits of its search."""
    time_s: float = 0.0
    """Of an agent, from question to answer. Of a model, whose games are searched side by side, its share of the time of all
    steps: what the move took of the machine, not how long one would have waited for it."""

    def __add__(self, other: Effort) -> Effort:
        return Effort(self.moves + other.moves, self.nodes + other.nodes, self.time_s + other.time_s)

    @property
    def nodes_per_move(self) -> float:
        """Mean nodes of a move; 0 without moves."""
        return self.nodes / self.moves if self.moves else 0.0

    @property
    def ms_per_move(self) -> float:
        """Mean milliseconds of a move; 0 without moves."""
        return 1000.0 * self.time_s / self.moves if self.moves else 0.0
