"""Curves of a run: its diagnostics over the time that it has been running, across restarts.

The rows of the supervisor hold counts since its start. A row of an earlier elapsed time than the row before it begins a new
session, whose counts begin at 0; the time between sessions is left out. Shares over a period are quotients of sums, so every
game, move and evaluation weighs the same.

    curves = run_curves(read_metrics(paths.metrics), points=20)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from zerofleet.errors import InvalidRequest

__all__ = ["CURVES", "Curve", "Curves", "growth", "run_curves"]

_GAMES = ("ended_result", "ended_cut", "ended_resigned", "ended_soft_resigned")
_EVALUATIONS = ("selfplay_evaluations", "match_evaluations", "ladder_evaluations")


@dataclass(frozen=True, slots=True)
class _Figure:
    """Figure of a period: the mean of a column, or the quotient of the growth of columns."""

    label: str
    unit: str
    parts: tuple[str, ...]
    """Columns of the numerator, or one column with a state."""
    whole: tuple[str, ...] = ()
    """Columns of the denominator; empty for a state."""


_FIGURES = {
    "resigned_share": _Figure("resigned games", "%", ("ended_resigned", "ended_soft_resigned"), _GAMES),
    "soft_resigned_share": _Figure("soft resigned games", "%", ("ended_soft_resigned",), _GAMES),
    "cut_share": _Figure("cut games", "%", ("ended_cut",), _GAMES),
    "overlooked_share": _Figure("wins in one overlooked", "%", ("wins_overlooked",), ("wins_taken", "wins_overlooked")),
    "target_entropy": _Figure("target entropy", "nat", ("target_entropy",)),
    "distinct_openings": _Figure("distinct openings", "%", ("distinct_openings",)),
    "new_positions": _Figure("new positions", "%", ("new_positions",)),
    "evaluations_per_sample": _Figure("evaluations per sample", "", _EVALUATIONS, ("selfplay_samples",)),
    "gate_share": _Figure("evaluations of the gate", "%", ("match_evaluations",), _EVALUATIONS),
    "network_age_s": _Figure("age of the playing network", "s", ("network_age_s",)),
    "adoption_s": _Figure("export to adoption", "s", ("adoption_total_s",), ("adoptions",)),
}
CURVES = tuple(_FIGURES)
"""Names of the curves."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Figure over time."""

    name: str
    """Name of `CURVES`."""
    label: str
    unit: str
    """`%` for a share in [0, 1], `nat`, `s`, or empty."""
    values: tuple[float, ...]
    """Value of each period; nan where it is unknown."""


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves of one run."""

    hours: tuple[float, ...]
    """End of each period, in hours of running."""
    curves: tuple[Curve, ...]
    """One for each of `CURVES`, in that order."""


def run_curves(metrics: Mapping[str, np.ndarray], *, points: int) -> Curves:
    """Return the curves over `points` periods of equal length, from the columns `run.*` of `read_metrics`.

    Raises `InvalidRequest` if no row has diagnostics: the run has just begun, or releases without diagnostics made it.
    """
    rows = {name: metrics[f"run.{name}"] for name in _columns()}
    if not np.isfinite(rows["ended_result"]).any():
        raise InvalidRequest(
            "the history of the run has no diagnostics: it has not written a row yet, or an earlier release wrote all of them; "
            "continue the run with this release"
        )
    elapsed_s = metrics["run.elapsed_s"]
    begins = np.concatenate(([True], np.diff(elapsed_s) < 0.0))
    clock_s = np.cumsum(growth(elapsed_s, begins))
    length_s = max(clock_s[-1] / points, np.finfo(float).tiny)
    period = np.minimum((clock_s / length_s).astype(np.int64), points - 1)
    curves = [
        Curve(name, figure.label, figure.unit, _values(figure, rows, begins, period, points))
        for name, figure in _FIGURES.items()
    ]
    return Curves(tuple((length_s * np.arange(1, points + 1) / 3600.0).tolist()), tuple(curves))


def _values(
    figure: _Figure, rows: Mapping[str, np.ndarray], begins: np.ndarray, period: np.ndarray, points: int
) -> tuple[float, ...]:
    if figure.whole:
        above, below = (
            np.bincount(period, sum(growth(rows[name], begins) for name in names), minlength=points)
            for names in (figure.parts, figure.whole)
        )
    else:
        (state,) = (rows[name] for name in figure.parts)
        above = np.bincount(period, np.nan_to_num(state, nan=0.0), minlength=points)
        below = np.bincount(period, np.isfinite(state).astype(np.float64), minlength=points)
    return tuple(np.divide(above, below, out=np.full(points, np.nan), where=below > 0.0).tolist())


def growth(counts: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Return the increase of a count since the last row that has it, or since 0 where a session begins; 0 where unknown."""
    rows = np.flatnonzero(np.isfinite(counts))
    known, session = counts[rows], np.cumsum(begins)[rows]  # sessions are counted from 1
    before = np.where(np.diff(session, prepend=0) == 0, np.concatenate(([0.0], known))[:-1], 0.0)
    grown = np.zeros(len(counts))
    grown[rows] = np.where(known >= before, known - before, known)
    return grown


def _columns() -> set[str]:
    return {name for figure in _FIGURES.values() for name in (*figure.parts, *figure.whole)}
