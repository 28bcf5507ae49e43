"""Does memory grow? One slope over the lives of a container, with its 95 % interval.

A container that is killed starts again from nothing, so its samples fall into lives. Each life has a level of its own, all
share one slope; the first `warm_up_s` of each life are left out. Neighbouring samples are alike, so they count for less
than their number: the interval is widened by their correlation as for an autoregressive process of first order.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

MIN_LIFE_SAMPLES = 6
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Sample:
    """Memory of a container at one moment: what its processes hold, without files the kernel keeps at hand."""

    service: str
    life: str  # container and the moment it was started
    at_s: float  # since the soak began
    age_s: float  # since this life began
    mib: float


@dataclass(frozen=True, slots=True)
class Slope:
    """MiB a minute, and between which bounds it lies in 19 of 20 cases."""

    mib_per_min: float
    low: float
    high: float
    samples: int
    lives: int


def slope(samples: Sequence[Sample], *, warm_up_s: float) -> Slope | None:
    """Return the common slope of the lives in `samples`; None when no life is long enough to say."""
    lives: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.age_s >= warm_up_s:
            lives[sample.life].append(sample)
    used = [life for life in lives.values() if len(life) >= MIN_LIFE_SAMPLES]
    if not used:
        return None
    minutes = [np.array([s.at_s for s in life]) / 60 for life in used]
    levels = [np.array([s.mib for s in life]) for life in used]
    x = [m - m.mean() for m in minutes]
    y = [v - v.mean() for v in levels]
    xx = sum(float(a @ a) for a in x)
    found = sum(float(a @ b) for a, b in zip(x, y, strict=True)) / xx
    residuals = [b - found * a for a, b in zip(x, y, strict=True)]
    half = _half_width(residuals, xx)
    return Slope(found, found - half, found + half, sum(map(len, used)), len(used))


def _half_width(residuals: list[np.ndarray], xx: float) -> float:
    """Return half the width of the slope's interval."""
    count = sum(map(len, residuals))
    free = count - len(residuals) - 1
    squares = sum(float(r @ r) for r in residuals)
    if squares == 0 or free < 1:
        return 0.0 if squares == 0 else math.inf
    likeness = min(0.99, max(0.0, sum(float(r[1:] @ r[:-1]) for r in residuals) / squares))
    inflation = (1 + likeness) / (1 - likeness)
    error = math.sqrt(squares / free / xx * inflation)
    free_in_effect = max(1.0, count / inflation - len(residuals) - 1)
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, free_in_effect)) * error
