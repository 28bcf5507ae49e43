"""Observer: polls every service of a run and combines the results."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import psutil

from zerofleet.contracts.promotions import Candidate, CandidateStatus, Champion, Rung
from zerofleet.errors import ZerofleetError
from zerofleet.rpc.gatekeeper_client import GatekeeperClient
from zerofleet.rpc.security.credentials import METRICS_TOKEN_VARIABLE, client_token
from zerofleet.service.compilation_note import Compilation
from zerofleet.strength.ratings.intervals import share_interval
from zerofleet.supervisor.child import ChildState
from zerofleet.supervisor.counters import Meter, Totals
from zerofleet.supervisor.diagnostics import DiagnosticsMeter
from zerofleet.supervisor.pages import MetricsPage, read_page
from zerofleet.supervisor.processor_time import ProcessorTime
from zerofleet.supervisor.readings import Match, Readings, ServiceReading
from zerofleet.supervisor.servers import ServerMeter, is_server

__all__ = ["Observer", "Watched", "is_passed_over"]

TREND_EVERY_S = 5.0
TREND_POINTS = 60
TELL_AFTER_REFUSALS = 10  # looks in succession
SILENT_AFTER_MISSES = 2  # looks in succession; `zerofleet status` takes two

_GAMES = "zerofleet_games_finished_total"
_MOVES = "zerofleet_selfplay_moves_total"
_EVALUATIONS = "zerofleet_evaluations_total"
_POSITIONS = "zerofleet_inference_positions_total"
_BATCH = "zerofleet_inference_batch_size"
_BUSY = "zerofleet_inference_device_busy_seconds_total"
_LATENCY = "zerofleet_eval_latency_seconds"
_STEPS = "zerofleet_train_steps_total"
_TRAINING = "zerofleet_train_busy_seconds_total"
_RATED = (
    *(_GAMES, _POSITIONS, f"{_BATCH}_sum", f"{_BATCH}_count", _BUSY),
    *(f"{_LATENCY}_sum", f"{_LATENCY}_count", _STEPS, _TRAINING),
)


class Watched(Protocol):
    """Service that the observer reads: a `Child` of this process, or `zerofleet.supervisor.attached.AttachedService`."""

    @property
    def name(self) -> str:
        """Name of the service: `trainer`, `worker-0`."""
        ...

    @property
    def state(self) -> ChildState:
        """State of the service."""
        ...

    @property
    def metrics_port(self) -> int:
        """Port of /metrics; 0 while it is not ready."""
        ...

    @property
    def pid(self) -> int | None:
        """Process id, None while there is no process."""
        ...

    @property
    def since_s(self) -> float:
        """Start of the current process, on the monotonic clock."""
        ...

    @property
    def restarts(self) -> int:
        """Number of restarts."""
        ...

    @property
    def compiling(self) -> Compilation | None:
        """Compilation in progress; None without one."""
        ...

    def look(self) -> None:
        """Update the state."""
        ...


class Observer:
    """Source of `Readings`. Values of an unresponsive service keep their last state."""

    def __init__(
        self,
        children: Sequence[Watched],
        gatekeeper: GatekeeperClient,
        model: str,
        say: Callable[[str], None],
        *,
        warm_start_games: int = 0,
        directory: Path | None = None,
        began_at_s: float | None = None,
    ) -> None:
        """Create it; `say` reports each verdict, `warm_start_games` is the length of the warm start.

        `directory` is that of the run, for the free space of its disk; `began_at_s` its start, seconds since 1970, by default
        now.
        """
        self._directory = directory
        self._children = children
        self._gatekeeper = gatekeeper
        self._model = model
        self._say = say
        self._warm_start_games = warm_start_games
        self._metrics_token = client_token(variable=METRICS_TOKEN_VARIABLE)  # inherited by the services
        self._totals = Totals()
        self._meter = Meter()
        self._servers = ServerMeter()
        self._processor_time: dict[str, ProcessorTime] = {}
        self._diagnostics = DiagnosticsMeter()
        self._pages: dict[str, MetricsPage] = {}
        self._misses: Counter[str] = Counter()  # looks in succession that a service has not answered
        self._trend: deque[float] = deque(maxlen=TREND_POINTS)
        self._trend_at_s = 0.0
        self._known: dict[int, Candidate] = {}
        self._unread: dict[int, Candidate] = {}  # changed, and not announced yet
        self._cursor = ""
        self._refusals = 0
        self._candidates: list[Candidate] = []
        self._champion: Champion | None = None
        self._promoted_at_s: dict[int, float] = {}
        # Numbers of groups of the last match, and the share of their points with its interval.
        self._interval: tuple[tuple[tuple[str, float], ...], tuple[float, float, float]] = ((), (0.5, 0.0, 1.0))
        self._ladder: list[Rung] = []
        self._announced: set[tuple[int, CandidateStatus]] | None = None
        self._began_s = time.monotonic() - (0.0 if began_at_s is None else time.time() - began_at_s)
        self._is_attached = began_at_s is not None

    async def look(self, left_s: float | None) -> Readings:
        """Poll every service once. Cancellation: nothing is lost."""
        now_s = time.monotonic()
        for child in self._children:
            child.look()
            self._processor_time.setdefault(child.name, ProcessorTime()).take(now_s, child.pid)
        await self._read_pages()
        await self._ask_gatekeeper()
        self._meter.take(now_s, {name: self._totals.of(name) for name in _RATED})
        self._servers.take(now_s, self._pages)
        self._follow_trend(now_s)
        return self._readings(now_s, left_s)

    async def _read_pages(self) -> None:
        ready = [child for child in self._children if child.metrics_port]
        answers = await asyncio.gather(*(read_page(child.metrics_port, self._metrics_token) for child in ready))
        for child, (page, has_answered) in zip(ready, answers, strict=True):
            self._misses[child.name] = 0 if has_answered else self._misses[child.name] + 1
            if page is not None:
                self._pages[child.name] = page
                self._totals.take(child.name, page)

    async def _ask_gatekeeper(self) -> None:
        if not any(child.name == "gatekeeper" and child.state is ChildState.READY for child in self._children):
            return
        try:
            fresh = await self._read_changes()
            self._ladder = await self._gatekeeper.ladder(self._model)
        except ZerofleetError as error:  # one failure may be a restart
            self._refusals += 1
            if self._refusals == TELL_AFTER_REFUSALS:
                self._say(f"the gatekeeper's list of candidates is out of date: {error}")
            return
        self._refusals = 0
        self._announce_decisions(fresh)

    async def _read_changes(self) -> list[Candidate]:
        """Update candidates and champion; return the candidates that changed. Cancellation: what was read is kept."""
        has_more = True
        while has_more:
            changes = await self._gatekeeper.changes(self._model, self._cursor)
            changed = [c for c in changes.candidates if self._known.get(c.version) != c]
            self._known |= {candidate.version: candidate for candidate in changed}
            self._unread |= {candidate.version: candidate for candidate in changed}
            self._champion, self._cursor, has_more = changes.champion, changes.cursor, changes.has_more
            if self._champion is not None:
                self._promoted_at_s[self._champion.version] = self._champion.promoted_at_ms / 1000
        if self._unread:
            self._candidates = [self._known[version] for version in sorted(self._known)]
        fresh, self._unread = list(self._unread.values()), {}
        return fresh

    def _announce_decisions(self, fresh: Sequence[Candidate]) -> None:
        decided = {(c.version, c.status): c for c in fresh if c.status.settled and not is_passed_over(c)}
        if self._announced is None:  # verdicts of earlier sessions, and those before it was attached, are not news
            self._announced = set(decided) if self._is_attached or len(decided) > 1 else set()
        for verdict in sorted(decided.keys() - self._announced):
            self._announced.add(verdict)
            self._say(_verdict(decided[verdict]))

    def _follow_trend(self, now_s: float) -> None:
        loss = self._page("trainer").value("zerofleet_train_loss", head="total")
        if loss is not None and now_s - self._trend_at_s >= TREND_EVERY_S:
            self._trend.append(loss)
            self._trend_at_s = now_s

    def _page(self, service: str) -> MetricsPage:
        return self._pages.get(service, _EMPTY)

    def _worker_pages(self) -> list[MetricsPage]:
        return [page for service, page in self._pages.items() if service.startswith("worker-")]

    def _workers(self, name: str, **labels: str) -> float:
        return sum(page.total(name, **labels) for page in self._worker_pages())

    def _present(self, gauge: str) -> float:
        """Return the sum of a gauge over the workers that are there: an ended one has no game in play."""
        there = [child.name for child in self._children if child.metrics_port and child.name.startswith("worker-")]
        return sum(self._page(name).total(gauge) for name in there)

    def _unknown(self) -> frozenset[str]:
        """Return the counts of services that were never read since this process was attached to the run.

        Those of a run that this process started are 0 until then.
        """
        if not self._is_attached:
            return frozenset()
        of_workers = () if self._worker_pages() else ("games", "moves", "games_active")
        of_trainer = (
            () if "trainer" in self._pages else ("games_stored", "step", "window", "samples", "reuse", "learning_rate", "lag")
        )
        return frozenset((*of_workers, *of_trainer))

    def _readings(self, now_s: float, left_s: float | None) -> Readings:
        trainer, totals, meter = self._page("trainer"), self._totals, self._meter
        network, cached = self._workers(_EVALUATIONS, source="network"), self._workers(_EVALUATIONS, source="cache")
        return Readings(
            elapsed_s=now_s - self._began_s,
            left_s=left_s,
            games=round(totals.of(_GAMES)),
            games_stored=round(trainer.total("zerofleet_replay_games_ever")),
            games_per_hour=meter.per_second(_GAMES) * 3600,
            moves=round(totals.of(_MOVES)),
            games_active=round(self._present("zerofleet_games_active")),
            waiting_games=round(self._present("zerofleet_publish_queue_games")),
            evaluations_per_s=meter.per_second(_POSITIONS),
            mean_batch=meter.ratio(f"{_BATCH}_sum", f"{_BATCH}_count"),
            device_busy=meter.per_second(_BUSY) / max(1, sum(is_server(child.name) for child in self._children)),
            cache_share=cached / (network + cached) if network + cached else float("nan"),
            latency_s=meter.ratio(f"{_LATENCY}_sum", f"{_LATENCY}_count"),
            losses=trainer.by("zerofleet_train_loss", "head"),
            loss_trend=tuple(self._trend),
            step=round(trainer.total("zerofleet_train_step")),
            steps_per_s=meter.per_second(_STEPS),
            window=round(trainer.total("zerofleet_replay_samples")),
            samples=round(trainer.total("zerofleet_replay_samples_ever")),
            reuse=trainer.value("zerofleet_samples_reused_ratio") or 0.0,
            learning_rate=trainer.value("zerofleet_train_learning_rate") or 0.0,
            skipped_steps=round(trainer.total("zerofleet_train_skipped_steps_total")),
            learner_busy=meter.per_second(_TRAINING),
            warm_start_games=self._warm_start_games,
            lag=round(trainer.total("zerofleet_stream_lag_entries")),
            pending=round(trainer.total("zerofleet_stream_pending_entries")),
            dead=round(trainer.total("zerofleet_stream_dead_entries")),
            rejected=round(totals.of("zerofleet_records_rejected_total")),
            champion=self._champion,
            champion_age_s=time.time() - self._champion.promoted_at_ms / 1000 if self._champion else float("nan"),
            newest_version=round(trainer.total("zerofleet_candidate_version")),
            candidates=tuple(self._shown()),
            match=self._match(),
            promoted_for_s=self._promoted_for_s(),
            ladder=tuple(self._ladder),
            diagnostics=self._diagnostics.take(now_s, totals, self._worker_pages()),
            services=tuple(self._service(child, now_s) for child in self._children),
            devices=self._servers.devices,
            disk_free_bytes=self._disk_free_bytes(),
            unknown=self._unknown(),
        )

    def _service(self, child: Watched, now_s: float) -> ServiceReading:
        cores = self._processor_time[child.name].cores
        for_s, memory_bytes = now_s - child.since_s, _memory(child.pid)
        is_silent = child.state is ChildState.READY and self._misses[child.name] >= SILENT_AFTER_MISSES
        return ServiceReading(
            name=child.name,
            state=ChildState.SILENT if is_silent else child.state,
            for_s=for_s,
            restarts=child.restarts,
            memory_bytes=memory_bytes,
            cores=cores,
            compiling=child.compiling,
            device=self._servers.device(child.name),
            share=self._servers.share(child.name),
        )

    def _disk_free_bytes(self) -> int | None:
        try:
            return None if self._directory is None else shutil.disk_usage(self._directory).free
        except OSError:
            return None

    def _shown(self) -> list[Candidate]:
        """Return the candidates without those passed over, except the champion and the one that is being measured."""
        measured = round(self._page("gatekeeper").total("zerofleet_gate_candidate_version"))
        kept = {measured, self._champion.version if self._champion else 0}
        return [c for c in self._candidates if c.version in kept or not is_passed_over(c)]

    def _promoted_for_s(self) -> dict[int, float]:
        known = {one.version: self._promoted_at_s.get(one.version) for one in self._shown()}
        return {version: time.time() - at_s for version, at_s in known.items() if at_s is not None}

    def _match(self) -> Match | None:
        page = self._page("gatekeeper")
        version = round(page.total("zerofleet_gate_candidate_version"))
        if not version or not any(c.version == version and c.status in _IN_A_MATCH for c in self._candidates):
            return None
        wins, draws, losses = (round(page.total("zerofleet_gate_match_games", result=r)) for r in ("win", "draw", "loss"))
        bounds = page.by("zerofleet_gate_llr_bound", "side").values()
        share, share_low, share_high = self._points(page.by("zerofleet_gate_match_groups", "share"))
        return Match(
            version=version,
            wins=wins,
            draws=draws,
            losses=losses,
            llr=page.total("zerofleet_gate_llr"),
            llr_low=min(bounds, default=0.0),
            llr_high=max(bounds, default=0.0),
            share=share,
            share_low=share_low,
            share_high=share_high,
        )

    def _points(self, groups: Mapping[str, float]) -> tuple[float, float, float] | tuple[None, None, None]:
        """Return the share of the points with its interval, for the numbers of groups by share; None without a group."""
        if not any(groups.values()):
            return None, None, None
        counted = tuple(sorted(groups.items()))
        if self._interval[0] != counted:  # it takes milliseconds, and a match changes less often than it is read
            scores = np.repeat([float(part) for part, _ in counted], [round(number) for _, number in counted])
            self._interval = (counted, (float(scores.mean()), *share_interval(scores)))
        return self._interval[1]


_EMPTY = MetricsPage("")
_IN_A_MATCH = (CandidateStatus.PLAYING, CandidateStatus.TRIAL)


def _memory(pid: int | None) -> int:
    """Return the resident memory of a process in bytes, 0 if it is gone or cannot be read."""
    try:
        return int(psutil.Process(pid).memory_info().rss) if pid is not None else 0
    except (psutil.Error, OSError):  # the latter: too many open files
        return 0


def is_passed_over(candidate: Candidate) -> bool:
    """Return whether a candidate was promoted at once and not measured: several a minute in mode `watch`, and no news."""
    return candidate.status is CandidateStatus.TRIAL or (
        candidate.status is CandidateStatus.UNPROVEN and candidate.match is None
    )


def _verdict(candidate: Candidate) -> str:
    """Return a line with a candidate's verdict; the gatekeeper's reason includes the score of its match."""
    against = f" against {candidate.match.champion_version}" if candidate.match is not None else ""
    return f"candidate {candidate.version} {candidate.status.value}{against}: {candidate.reason}"
