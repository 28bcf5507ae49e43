"""Diagnostics of a run: figures that show whether self-play became narrow or overlooks wins, and what the gate costs.

Counts are those since the supervisor started, restarts of a service included. Shares and means of the latest games are those of
the workers, averaged over workers with a finished game; `RECENT_S` is the period of every other share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from zerofleet.contracts.endings import ENDINGS
from zerofleet.supervisor.counters import Meter, Totals
from zerofleet.supervisor.pages import MetricsPage

__all__ = ["ENDINGS", "RECENT_S", "TREND_POINTS", "Diagnostics", "DiagnosticsMeter", "Trend"]

RECENT_S = 300.0
TREND_EVERY_S = 10.0
TREND_POINTS = 24

_ENDED = "zerofleet_games_ended_total"
_WINS = "zerofleet_wins_in_one_total"
_SAMPLES = "zerofleet_selfplay_samples_total"
_EVALUATIONS = "zerofleet_evaluations_total"
_GATE = "zerofleet_gate_evaluations_total"
_ADOPTION = "zerofleet_export_to_adoption_seconds"
_LATEST = {
    "resigned_share": "zerofleet_resigned_games_ratio",
    "target_entropy": "zerofleet_target_entropy_nats",
    "distinct_openings": "zerofleet_distinct_openings_ratio",
    "new_positions": "zerofleet_new_positions_ratio",
}
_FOLLOWED = (*_LATEST, "overlooked_share", "evaluations_per_sample", "match_share", "network_age_s")


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """Diagnostics at one time; NaN for unknown values."""

    endings: Mapping[str, int] = field(default_factory=dict)
    """Finished games by ending, of `ENDINGS`."""
    resigned_share: float = math.nan
    """Share of the latest 1,000 games of a worker that were resigned, softly or not."""
    wins_taken: int = 0
    """Moves of self-play that won at once."""
    wins_overlooked: int = 0
    """Moves of self-play that did not win where another one would have won at once."""
    overlooked_share: float = math.nan
    """Share of the recent wins in one that were overlooked."""
    target_entropy: float = math.nan
    """Mean entropy of the policy targets of the latest games, in nats."""
    highest_entropy: float = math.nan
    """Highest value of `target_entropy` since the start."""
    distinct_openings: float = math.nan
    """Different lines of the first 8 plies per game, of the latest 1,000 games of a worker."""
    new_positions: float = math.nan
    """Share of the latest 50,000 positions of a worker that were new among them."""
    samples: int = 0
    """Policy targets with the full weight."""
    selfplay_evaluations: int = 0
    """Positions that the network evaluated for self-play."""
    match_evaluations: int = 0
    """Positions that the network evaluated for matches and measurements of candidates."""
    ladder_evaluations: int = 0
    """Positions that the network evaluated for the ladder of champions."""
    evaluations_per_sample: float = math.nan
    """Recent evaluations of self-play and gatekeeper for each sample."""
    match_share: float = math.nan
    """Share of those evaluations that were spent on matches and measurements."""
    network_age_s: float = math.nan
    """Time since the export of the playing network; of several workers the longest."""
    adoptions: int = 0
    """New champions that a worker adopted, counted for each worker."""
    adoption_total_s: float = 0.0
    """Sum of the times from their export to their adoption."""
    trends: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Values of figures since the start, by field, oldest first; at most `TREND_POINTS` each."""

    @property
    def games(self) -> int:
        """Number of finished games."""
        return sum(self.endings.values())

    @property
    def evaluations(self) -> int:
        """Evaluations of self-play and gatekeeper."""
        return self.selfplay_evaluations + self.match_evaluations + self.ladder_evaluations

    @property
    def adoption_s(self) -> float:
        """Mean time from export to adoption."""
        return self.adoption_total_s / self.adoptions if self.adoptions else math.nan


class Trend:
    """Values of a figure from the start to now, at equal distances that double whenever there are too many."""

    def __init__(self, points: int = TREND_POINTS, every_s: float = TREND_EVERY_S) -> None:
        self._points = points
        self._every_s = every_s
        self._kept: list[tuple[float, float]] = []

    def add(self, at_s: float, value: float) -> None:
        """Add a value if one is due; NaN is left out."""
        if math.isnan(value) or (self._kept and at_s < self._kept[-1][0] + self._every_s):
            return
        self._kept.append((at_s, value))
        if len(self._kept) > self._points:
            del self._kept[1::2]
            self._every_s *= 2

    @property
    def values(self) -> tuple[float, ...]:
        """Values, oldest first."""
        return tuple(value for _, value in self._kept)


class DiagnosticsMeter:
    """Source of `Diagnostics`, from the counters of all services and the pages of the workers."""

    def __init__(self) -> None:
        self._recent = Meter(RECENT_S)
        self._highest_entropy = math.nan
        self._trends = {name: Trend() for name in _FOLLOWED}

    def take(self, at_s: float, totals: Totals, workers: Sequence[MetricsPage]) -> Diagnostics:
        """Return the diagnostics at a time; `totals` include the pages of the workers."""
        matches, ladder = (totals.of(_GATE, purpose=purpose) for purpose in ("match", "ladder"))
        every = totals.of(_EVALUATIONS, source="network")
        wins = {outcome: totals.of(_WINS, outcome=outcome) for outcome in ("taken", "overlooked")}
        samples = totals.of(_SAMPLES, weight="full")
        counts = {"matches": matches, "evaluations": every, "samples": samples, "wins": sum(wins.values()), **wins}
        self._recent.take(at_s, counts)
        playing = [page for page in workers if page.total(_ENDED)]
        latest = {name: _mean([page.value(metric) for page in playing]) for name, metric in _LATEST.items()}
        self._highest_entropy = max(self._highest_entropy, latest["target_entropy"], key=_or_lowest)
        ages = [page.total("zerofleet_playing_network_age_seconds") for page in workers if _has_network(page)]
        shares = {
            **latest,
            "overlooked_share": self._recent.ratio("overlooked", "wins"),
            "evaluations_per_sample": self._recent.ratio("evaluations", "samples"),
            "match_share": self._recent.ratio("matches", "evaluations"),
            "network_age_s": max(ages, default=math.nan),
        }
        for name, trend in self._trends.items():
            trend.add(at_s, shares[name])
        return Diagnostics(
            endings={ending: round(totals.of(_ENDED, ending=ending)) for ending in ENDINGS},
            wins_taken=round(wins["taken"]),
            wins_overlooked=round(wins["overlooked"]),
            highest_entropy=self._highest_entropy,
            samples=round(samples),
            selfplay_evaluations=round(every - matches - ladder),
            match_evaluations=round(matches),
            ladder_evaluations=round(ladder),
            adoptions=round(totals.of(f"{_ADOPTION}_count")),
            adoption_total_s=totals.of(f"{_ADOPTION}_sum"),
            trends={name: trend.values for name, trend in self._trends.items()},
            **shares,
        )


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else math.nan


def _or_lowest(value: float) -> float:
    return -math.inf if math.isnan(value) else value


def _has_network(page: MetricsPage) -> bool:
    return page.total("zerofleet_adopted_version") > 0
