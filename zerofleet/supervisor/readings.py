"""Readings: state of a run as numbers, from the services' /metrics and the gatekeeper.

Screen, plain lines, history and summary depend only on `Readings`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from zerofleet.contracts.promotions import Candidate, Champion, Rung
from zerofleet.service.compilation_note import Compilation
from zerofleet.supervisor.child import ChildState
from zerofleet.supervisor.diagnostics import Diagnostics
from zerofleet.supervisor.words import size

__all__ = ["LEAST_FREE_BYTES", "Match", "Readings", "ServiceReading"]

LEAST_FREE_BYTES = 200 << 20
"""Free space below which no run starts, as it would fail before its first promotion, and a running one warns."""


class ServiceReading(NamedTuple):
    """State of a child process."""

    name: str
    state: ChildState
    for_s: float
    """Seconds since the start of the current process."""
    restarts: int
    memory_bytes: int
    cores: float = math.nan
    """Processor cores used over the last half minute; NaN for unknown."""
    compiling: Compilation | None = None
    """Compilation in progress; None without one."""
    device: str = ""
    """Device of one of several inference servers; empty for other services."""
    share: float = math.nan
    """Its share of the positions evaluated over the last half minute, in [0, 1]; NaN for unknown."""


class Match(NamedTuple):
    """Gate match in progress, from the candidate's point of view."""

    version: int
    wins: int
    draws: int
    losses: int
    llr: float
    llr_low: float
    llr_high: float
    share: float | None = None
    """Share of the points in [0, 1] over complete pairs of games, each to the nearest quarter; None before the first one.

    The report of a decided match has the exact share, of places and of parts of a point as well.
    """
    share_low: float | None = None
    """Lower end of its 95 % interval."""
    share_high: float | None = None
    """Upper end of it."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Snapshot of a run. Rates are over the last half minute; NaN for unknown values."""

    elapsed_s: float = 0.0
    left_s: float | None = None

    games: int = 0
    """Games finished since the supervisor started."""
    games_stored: int = 0
    """Games in the trainer's store, including earlier sessions."""
    games_per_hour: float = math.nan
    moves: int = 0
    games_active: int = 0
    waiting_games: int = 0
    """Finished games in the workers, waiting for the stream."""

    evaluations_per_s: float = math.nan
    mean_batch: float = math.nan
    device_busy: float = math.nan
    """Share of time in which the device is busy, in [0, 1]; of several devices the mean."""
    cache_share: float = math.nan
    """Share of cache hits in the workers' evaluations, in [0, 1]."""
    latency_s: float = math.nan
    """Mean latency of the workers' requests."""

    losses: Mapping[str, float] = field(default_factory=dict)
    loss_trend: tuple[float, ...] = ()
    step: int = 0
    steps_per_s: float = math.nan
    window: int = 0
    samples: int = 0
    """Number of samples ever stored."""
    reuse: float = math.nan
    learning_rate: float = math.nan
    skipped_steps: int = 0
    learner_busy: float = math.nan
    """Share of time in which the trainer takes steps, in [0, 1]."""

    warm_start_games: int = 0
    """Number of agent games before the first champion; 0 for none."""

    lag: int = 0
    pending: int = 0
    dead: int = 0
    rejected: int = 0

    champion: Champion | None = None
    champion_age_s: float = math.nan
    newest_version: int = 0
    """Newest version that the trainer has exported; 0 before the first, and while the trainer starts."""
    candidates: tuple[Candidate, ...] = ()
    """Oldest first."""
    match: Match | None = None
    promoted_for_s: Mapping[int, float] = field(default_factory=dict)
    """Seconds since the promotion of candidates, by version, as far as they are known."""
    ladder: tuple[Rung, ...] = ()
    """Strongest first."""

    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    """Diagnostics of self-play and gate."""

    services: tuple[ServiceReading, ...] = ()

    devices: frozenset[str] = frozenset()
    """Devices of inference as far as they are known: `cpu`, `cuda:0`."""

    disk_free_bytes: int | None = None
    """Free space on the disk of the run; None if unknown."""

    unknown: frozenset[str] = frozenset()
    """Names of the counts above that no service and no file has stated; they are 0."""

    def known(self, count: str) -> int | None:
        """Return a count by its name, None where it is unknown."""
        number: int = getattr(self, count)
        return None if count in self.unknown else number

    @property
    def disk_warning(self) -> str:
        """Warning of a disk that is full or nearly so, without which candidates and games cannot be stored; else empty."""
        if self.disk_free_bytes is None or self.disk_free_bytes >= LEAST_FREE_BYTES:
            return ""
        return f"disk: {size(self.disk_free_bytes)} free, free some: games and networks may not be stored"

    @property
    def phase(self) -> str:
        """Phase of the warm start as text; empty after the first champion, and without a warm start."""
        if not self.warm_start_games or self.champion is not None or self.candidates:
            return ""
        if self.games_stored < self.warm_start_games:
            return f"warm start: {self.games_stored:,} of {self.warm_start_games:,} agent games"
        return "warm start: learning from the agent games"

    @property
    def rated_rung(self) -> Rung | None:
        """Rung of the champion or, before it is anchored, of the newest anchored version.

        Without an anchored version: the champion's all the same, None if it has none. In mode `watch` the ladder rates
        confirmed champions, and a version on trial usually plays.
        """
        if self.champion is None:
            return None
        known = {int(rung.name.removeprefix("model:")): rung for rung in self.ladder if rung.name.startswith("model:")}
        anchored = [version for version, rung in known.items() if rung.anchored]
        version = self.champion.version
        return known.get(version if version in anchored or not anchored else max(anchored))

    def is_champion(self, rung: Rung) -> bool:
        """Return whether a rung is the champion's."""
        return self.champion is not None and rung.name == f"model:{self.champion.version}"
