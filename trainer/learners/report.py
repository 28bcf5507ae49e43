"""Report of a step of a learner of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ValueReport"]


@dataclass(frozen=True, slots=True)
class ValueReport:
    """Outcome of a step; see `trainer.learners.contract.TakingStep`."""

    samples: int
    learning_rate: float
    squared_error: float
    """Mean of the squared errors."""
    gradient_norm: float
    """Largest norm of a gradient; for a rule without the gradient of a loss the largest absolute error, which bounds its
    updates."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """Measures on held-out games (`trainer.learners.outcome.measures`), after a step that measures."""
    skipped: bool = False

    @property
    def losses(self) -> dict[str, float]:
        """The mean squared error, as total and as loss of the value, and the measures."""
        return {"total": self.squared_error, "value": self.squared_error, **self.measures}
