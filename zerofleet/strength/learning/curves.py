"""Curves of learning over several seeds, and the comparison of two of them.

At each judgement the mean over seeds has Student's 95 % interval: seeds are the independent observations, positions are common
to all of them. A single seed has the interval of its judge, which covers positions or openings and not the luck of training.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zerofleet.strength.ratings.intervals import Z_95, difference_interval

__all__ = ["Difference", "Point", "compare", "curve", "t_interval"]

_T_95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""97.5 % quantiles of Student's t with 1 to 30 degrees of freedom (any table)."""


@dataclass(frozen=True, slots=True)
class Point:
    """A measure at one judgement, over all seeds that reached it."""

    at: float
    """Budget spent, in its unit: the planned place of the judgement."""
    name: str
    mean: float
    low: float
    high: float
    seeds: int
    interval: str
    """`seeds`: Student's interval over seeds; `judge`: that of the judge, of a single seed."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference between the last common judgements of two results: the first minus the second."""

    at: float
    name: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    interval: str
    """`paired`: over equal seeds; `seeds`: two sets of seeds (Welch); `judge`: a single seed on a side, from the intervals of
    the two points of `curve`."""


def t_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return Student's 95 % interval of the mean of two or more values."""
    half = _quantile(len(values) - 1) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    mean = float(np.mean(values))
    return mean - half, mean + half


def curve(seeds: Sequence[Mapping[str, Any]]) -> list[Point]:
    """Return the points of a result's seeds, as stored in JSON; by place, then in the judge's order of measures."""
    points = []
    places = sorted({float(judgement["planned"]) for seed in seeds for judgement in seed["judgements"]})
    for at in places:
        reached = [judgement for seed in seeds for judgement in seed["judgements"] if judgement["planned"] == at]
        for place, first in enumerate(reached[0]["measures"]):
            points.append(_point(at, first["name"], [judgement["measures"][place] for judgement in reached]))
    return points


def _point(at: float, name: str, measures: Sequence[Mapping[str, Any]]) -> Point:
    """Return the point of one measure of one or more seeds."""
    values = [float(measure["value"]) for measure in measures]
    alone = len(values) == 1
    low, high = (measures[0]["low"], measures[0]["high"]) if alone else t_interval(values)
    return Point(at, name, float(np.mean(values)), low, high, len(values), "judge" if alone else "seeds")


def compare(first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]) -> list[Difference]:
    """Return the differences of two results at the last place that both have, for each measure of both."""
    places = set.intersection(
        *({judgement["planned"] for seed in seeds for judgement in seed["judgements"]} for seeds in (first, second))
    )
    if not places:
        return []
    at = max(places)
    ours, theirs = _at(first, at), _at(second, at)
    found = []
    for name in next(iter(ours.values())):
        a = {seed: measures[name] for seed, measures in ours.items()}
        b = {seed: measures[name] for seed, measures in theirs.items() if name in measures}
        if b:
            found.append(_difference(at, name, a, b))
    return found


def _at(seeds: Sequence[Mapping[str, Any]], at: float) -> dict[int, dict[str, Mapping[str, Any]]]:
    """Return the measures at a place by name, by seed."""
    return {
        seed["seed"]: {measure["name"]: measure for measure in judgement["measures"]}
        for seed in seeds
        for judgement in seed["judgements"]
        if judgement["planned"] == at
    }


def _difference(at: float, name: str, a: Mapping[int, Mapping[str, Any]], b: Mapping[int, Mapping[str, Any]]) -> Difference:
    ours, theirs = ([float(one["value"]) for one in side.values()] for side in (a, b))
    if a.keys() == b.keys() and len(a) > 1:
        pairs = [float(a[seed]["value"]) - float(b[seed]["value"]) for seed in a]
        (low, high), kind = t_interval(pairs), "paired"
    elif min(len(a), len(b)) > 1:
        (low, high), kind = _welch(ours, theirs), "seeds"
    else:
        (low, high), kind = (
            difference_interval(*(_interval_of(_point(at, name, list(side.values()))) for side in (a, b))),
            "judge",
        )
    mine, other = float(np.mean(ours)), float(np.mean(theirs))
    return Difference(at, name, mine, other, mine - other, low, high, kind)


def _welch(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the difference of two means with unequal variances (Welch 1947)."""
    errors = [float(np.var(side, ddof=1)) / len(side) for side in (first, second)]
    total = sum(errors)
    difference = float(np.mean(first) - np.mean(second))
    if total == 0.0:
        return difference, difference
    freedom = total**2 / sum(error**2 / (len(side) - 1) for error, side in zip(errors, (first, second), strict=True))
    half = _quantile(max(1, math.floor(freedom))) * math.sqrt(total)
    return difference - half, difference + half


def _interval_of(point: Point) -> tuple[float, float, float]:
    return point.mean, point.low, point.high


def _quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t."""
    if freedom <= len(_T_95):
        return _T_95[freedom - 1]
    first, second = (Z_95**3 + Z_95) / 4.0, (5.0 * Z_95**5 + 16.0 * Z_95**3 + 3.0 * Z_95) / 96.0
    return Z_95 + first / freedom + second / freedom**2  # Cornish-Fisher, correct to three digits from here on
