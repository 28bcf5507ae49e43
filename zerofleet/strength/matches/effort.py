"""Cost of a player's moves: number of moves, nodes searched, time and processor time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

__all__ = ["Effort"]

_Count = Annotated[int, Field(ge=0, le=(1 << 63) - 1)]
_Duration = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Effort:
    """Cost of some moves of one player; efforts add up. Opening moves cost nothing. The bounds hold for one in a file."""

    moves: _Count = 0
    nodes: _Count = 0
    """As counted by agents (`Choice.nodes`); for a model, visits of its search."""
    time_s: _Duration = 0.0
    """For an agent, time of its choice, without its wait for a thread. For a model, whose games are searched concurrently, its
    share of the time of all steps: machine time of the move, not latency."""

    cpu_s: _Duration = 0.0
    """Processor time of an agent's thread; 0 for a model."""

    def __add__(self, other: Effort) -> Effort:
        return Effort(self.moves + other.moves, self.nodes + other.nodes, self.time_s + other.time_s, self.cpu_s + other.cpu_s)

    @property
    def nodes_per_move(self) -> float:
        """Mean nodes per move; 0 without moves."""
        return self.nodes / self.moves if self.moves else 0.0

    @property
    def ms_per_move(self) -> float:
        """Mean milliseconds per move; 0 without moves."""
        return 1000.0 * self.time_s / self.moves if self.moves else 0.0

    @property
    def cpu_ms_per_move(self) -> float:
        """Mean milliseconds of processor time per move of an agent; 0 without moves."""
        return 1000.0 * self.cpu_s / self.moves if self.moves else 0.0
