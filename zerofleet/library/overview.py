"""Overview of a run: the figures of the terminal page as values, from the live services or from the files of the run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
from rich.text import Text

from zerofleet.contracts.manifests import Champion
from zerofleet.contracts.promotions import Candidate, Rung
from zerofleet.library.values import Value
from zerofleet.supervisor.figures import figures
from zerofleet.supervisor.lines import row
from zerofleet.supervisor.panels import LOOK, WRONG, Figure
from zerofleet.supervisor.readings import Match, Readings, ServiceReading

__all__ = [
    "CANDIDATES_SHOWN",
    "EVENTS_SHOWN",
    "Event",
    "LadderRow",
    "LiveMatch",
    "Numbers",
    "Overview",
    "Panel",
    "ServiceRow",
    "describe",
    "recorded_readings",
]

EVENTS_SHOWN = 12
CANDIDATES_SHOWN = 12
TREND_POINTS = 60
Numbers = dict[str, float | int | None]
_TONES = {LOOK: "attention", WRONG: "error"}


class FigureRow(Value):
    """Figure with its unit or remark."""

    label: str
    value: str
    note: str
    tone: str
    """Meaning of the note's colour: empty, `attention` or `error`."""


class Panel(Value):
    """Figures of one subject."""

    title: str
    figures: tuple[FigureRow, ...]


class CandidateRow(Value):
    """Version that was submitted, with its match."""

    version: int
    status: str
    is_champion: bool
    wins: int | None
    """Games won by the candidate; None before its match."""
    draws: int | None
    losses: int | None
    share: float | None
    """Share of the points in [0, 1]; None before the first complete pair of games."""
    share_low: float | None
    """Lower end of its 95 % interval."""
    share_high: float | None
    """Upper end of its 95 % interval."""
    llr: float | None
    llr_low: float | None
    """Bound at which the version fails; None without a match that goes on, or without a sequential test."""
    llr_high: float | None
    """Bound at which it passes."""
    age_s: float | None
    """Seconds since its promotion, or since its export where it was never promoted; None where the time is unknown."""
    reason: str


class LiveMatch(Value):
    """Gate match in progress, from the candidate's point of view."""

    version: int
    wins: int
    draws: int
    losses: int
    llr: float
    llr_low: float
    llr_high: float
    share: float | None
    """Share of the points in [0, 1] over complete pairs; None before the first one."""
    share_low: float | None
    """Lower end of its 95 % interval."""
    share_high: float | None
    """Upper end of its 95 % interval."""


class LadderRow(Value):
    """Player of the ladder."""

    name: str
    elo: float | None
    """None while the rating is not anchored."""
    elo_low: float | None
    elo_high: float | None
    games: int
    is_champion: bool


class ServiceRow(Value):
    """Service process."""

    name: str
    state: str
    for_s: float
    """Seconds since the start of the process."""
    restarts: int
    memory_bytes: int
    compiling: str
    """Progress of the compilation in the process, such as `34 functions in 12 of about 20 s`; empty without one."""
    device: str
    """Device of one of several inference servers; empty for other services."""
    share: float | None
    """Its share of the positions evaluated over the last half minute, in [0, 1]; None for unknown."""


class Event(Value):
    """Event of the run."""

    at: datetime
    text: str


class Overview(Value):
    """State of a run at one time."""

    is_live: bool
    """Whether the figures are those of the services; else they are those of the newest rows of the files."""
    at: datetime | None
    """Time of the figures; None for a run without any."""
    elapsed_s: float
    champion: int | None
    champion_for_s: float | None
    warning: str
    phase: str
    """Phase of the warm start; empty without one."""
    panels: tuple[Panel, ...]
    match: LiveMatch | None
    candidates: tuple[CandidateRow, ...]
    """Newest first."""
    ladder: tuple[LadderRow, ...]
    """Strongest first."""
    services: tuple[ServiceRow, ...]
    events: tuple[Event, ...]
    """Newest first."""
    figures: Numbers
    """Numbers by name, as in a line of the run's history (`metrics/run.jsonl`): unrounded, None where one is unknown."""


def describe(
    now: Readings,
    *,
    at: datetime | None,
    is_live: bool,
    events: Sequence[Event],
    since: Mapping[int, datetime] | None = None,
    numbers: Numbers | None = None,
) -> Overview:
    """Return the overview of a reading.

    Args:
        now: The reading.
        at: Its time.
        is_live: Whether the figures are those of the services.
        events: Events of the run, in any order.
        since: Times of the promotion or export of versions.
        numbers: The `figures`; by default those of the reading.
    """
    match = now.match
    return Overview(
        is_live=is_live,
        at=at,
        elapsed_s=now.elapsed_s,
        champion=None if now.champion is None else now.champion.version,
        champion_for_s=now.champion_age_s if is_live and math.isfinite(now.champion_age_s) else None,
        warning=now.disk_warning,
        phase=now.phase,
        panels=tuple(Panel(title=title, figures=tuple(map(_figure, rows))) for title, rows in figures(now)),
        match=None if match is None else LiveMatch(**match._asdict()),
        candidates=tuple(_candidate_rows(now, at, since or {})),
        ladder=tuple(_ladder_row(rung, now) for rung in sorted(now.ladder, key=_strength)),
        services=tuple(map(_service_row, now.services)),
        events=tuple(sorted(events, key=lambda event: event.at, reverse=True)[:EVENTS_SHOWN]),
        figures=row(now) if numbers is None else numbers,
    )


def recorded_readings(
    metrics: Mapping[str, np.ndarray],
    champion: Champion | None,
    candidates: tuple[Candidate, ...],
    ladder: tuple[Rung, ...],
    match: Match | None = None,
) -> tuple[Readings, datetime | None]:
    """Return the readings of the newest rows of a run's metrics with the gate's record, and their time; None without one.

    A cluster has rows of the trainer alone, and other trainers go on when the supervisor's rows end: what the trainer states is
    taken from its newest row where that is the newest one. Counts that no row states are unknown.
    """
    last, trained = _newest(metrics, "run"), _newest(metrics, "trainer")
    losses = {name: value for name, value in last.items() if name.startswith("loss_")}
    recorded_s = last.get("time_s", math.nan)
    times = [row["time_s"] for row in (last, trained) if math.isfinite(row.get("time_s", math.nan))]
    if trained and trained.get("time_s", math.nan) >= max(times, default=math.inf):
        last |= {ours: trained[theirs] for ours, theirs in _OF_TRAINER.items() if math.isfinite(trained.get(theirs, math.nan))}
        losses |= {name: value for name, value in trained.items() if name.startswith("loss_") and math.isfinite(value)}
    trend, began = metrics["trainer.loss_total"], metrics["trainer.time_s"][:1]
    numbers = {name: last.get(name, math.nan) for name in _RATES}
    counts = {name: _whole(last.get(name, math.nan)) for name in _COUNTS}
    since_s = max(times, default=0.0) - (recorded_s if math.isfinite(recorded_s) else min([*began, *times], default=0.0))
    elapsed_s = since_s + last.get("elapsed_s", 0.0)
    readings = Readings(
        elapsed_s=elapsed_s if math.isfinite(elapsed_s) else 0.0,
        losses={name.removeprefix("loss_"): value for name, value in losses.items()},
        loss_trend=tuple(trend[np.isfinite(trend)][-TREND_POINTS:].tolist()),
        lag=_whole(last.get("stream_lag", 0.0)),
        champion=champion,
        candidates=candidates,
        ladder=ladder,
        match=match,
        unknown=frozenset(
            {
                "games_active",
                *(name for name in _COUNTS if not math.isfinite(last.get(name, math.nan))),
                *(() if "stream_lag" in last else ("lag",)),
            }
        ),
        **numbers,  # type: ignore[arg-type]
        **counts,  # type: ignore[arg-type]
    )
    return readings, datetime.fromtimestamp(max(times), UTC) if times else None


def _newest(metrics: Mapping[str, np.ndarray], group: str) -> dict[str, float]:
    """Return the last row of a group by name; empty without a row."""
    found = {name: column for name, column in metrics.items() if name.startswith(f"{group}.") and len(column)}
    return {name.removeprefix(f"{group}."): float(column[-1]) for name, column in found.items()}


_OF_TRAINER = {
    "games_stored": "games_ever",
    "step": "step",
    "window": "window_samples",
    "samples": "samples_ever",
    "reuse": "reuse",
    "learning_rate": "learning_rate",
}
"""Names of the trainer's figures in its own rows, by those of the run's."""
_RATES = (
    "games_per_hour",
    "evaluations_per_s",
    "mean_batch",
    "device_busy",
    "cache_share",
    "latency_s",
    "steps_per_s",
    "reuse",
    "learning_rate",
)
_COUNTS = ("games", "games_stored", "moves", "step", "window", "samples", "rejected")


def _figure(row: Figure) -> FigureRow:
    if isinstance(row.note, Text):
        return FigureRow(label=row.label, value=row.value, note=row.note.plain, tone=_TONES.get(str(row.note.style), ""))
    return FigureRow(label=row.label, value=row.value, note=row.note, tone="")


def _candidate_rows(now: Readings, at: datetime | None, since: Mapping[int, datetime]) -> list[CandidateRow]:
    rows = []
    for one in reversed(now.candidates[-CANDIDATES_SHOWN:]):
        live = now.match if now.match is not None and now.match.version == one.version else None
        played, began = live or one.match, since.get(one.version)
        has_bounds = live is not None and live.llr_high > live.llr_low
        rows.append(
            CandidateRow(
                version=one.version,
                status=one.status.value,
                is_champion=now.champion is not None and one.version == now.champion.version,
                wins=None if played is None else played.wins,
                draws=None if played is None else played.draws,
                losses=None if played is None else played.losses,
                share=None if played is None else played.share,
                share_low=None if played is None else played.share_low,
                share_high=None if played is None else played.share_high,
                llr=live.llr if live else one.match.log_likelihood_ratio if one.match else None,
                llr_low=live.llr_low if live and has_bounds else None,
                llr_high=live.llr_high if live and has_bounds else None,
                age_s=None if at is None or began is None else max(0.0, (at - began).total_seconds()),
                reason=one.reason,
            )
        )
    return rows


def _service_row(service: ServiceReading) -> ServiceRow:
    return ServiceRow(
        name=service.name,
        state=service.state.value,
        for_s=service.for_s,
        restarts=service.restarts,
        memory_bytes=service.memory_bytes,
        compiling="" if service.compiling is None else service.compiling.progress,
        device=service.device,
        share=service.share if math.isfinite(service.share) else None,
    )


def _strength(rung: Rung) -> tuple[bool, float]:
    """Return the place of a rung in the list: those that are not anchored come last."""
    return not rung.anchored, -rung.elo


def _ladder_row(rung: Rung, now: Readings) -> LadderRow:
    elo, low, high = (rung.elo, rung.elo_low, rung.elo_high) if rung.anchored else (None, None, None)
    return LadderRow(name=rung.name, elo=elo, elo_low=low, elo_high=high, games=rung.games, is_champion=now.is_champion(rung))


def _whole(value: float) -> int:
    return int(value) if math.isfinite(value) else 0
