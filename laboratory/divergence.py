"""Divergence of a training: the check of the numbers that its network gives."""

from __future__ import annotations

import numpy as np

from zerofleet.errors import Diverged

__all__ = ["require_finite"]


def require_finite(name: str, *arrays: np.ndarray, rate: str = "the learning rate") -> None:
    """Raise `Diverged` unless every number is finite. `name`: of the numbers, plural; `rate`: of the setting to lower."""
    if not all(np.isfinite(array).all() for array in arrays):
        raise Diverged(f"{name} are not finite: the weights have diverged; lower {rate}")
