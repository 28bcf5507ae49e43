"""Fleet statistics of the trainer: share of games by worker, and workers whose games differ from the others'.

A worker is identified by the id in its records, which is a claim: this detects broken, misconfigured or greedy workers, not a
worker that forges the ids of others. For each worker, three traits of its last `WINDOW` games are kept:

    length    plies, in 32nds of the longest game
    outcome   the first seat won, lost, or neither
    opening   the first six moves, hashed into 64 classes

Each trait is compared with the mean over the other workers that still play, weighted equally whatever their number of games
(a chi-squared test, as fishtest compares its workers). A worker is suspect when a trait differs both beyond chance and in more
games than those of honest workers. The first games that a worker finishes are short ones, so it is not judged before its
window is full.
"""

from __future__ import annotations

import math
import time
import zlib
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
import structlog

from zerofleet.errors import RecordRejected
from zerofleet.telemetry import metrics

__all__ = ["MAX_WORKERS", "WINDOW", "Fleet", "Traits"]

WINDOW = 1_000  # games of a worker
SHARE_WINDOW = 1_000  # games of the fleet over which shares are counted
ABSENCE_S = 600.0  # a worker without a game for so long neither bounds the share of the others nor is compared with
MAX_WORKERS = 4_096  # the least recently active is evicted first
CHECK_EVERY = 50  # games of a worker between two checks of it
OTHERS = 2  # least number of workers with a full window to compare with
SIGMAS = 6.0  # of the chi-squared test
OPENING_PLIES = 6

# Classes of each trait, and the share of games (total variation) in which it may differ. A worker with many games at once may
# have finished the shortest third of them first: their lengths differ by 2/3 from those of all games, their outcomes far less.
_TRAITS = {"length": (slice(0, 32), 0.8), "outcome": (slice(32, 35), 0.4), "opening": (slice(35, 99), 0.8)}
_CLASSES = 99

Traits = tuple[int, int, int]
"""Class of a game for each trait, as indices into one histogram of all classes."""

log = structlog.get_logger()


class _Worker:
    """Window of the last games of one worker."""

    def __init__(self) -> None:
        self.games = 0
        self.seen_s = 0.0
        self.counts = np.zeros(_CLASSES, np.int32)  # games in the window by class
        self._window = np.zeros((WINDOW, len(_TRAITS)), np.uint8)

    @property
    def is_known(self) -> bool:
        """Whether its window is full."""
        return self.games >= WINDOW

    def add(self, traits: Traits) -> None:
        """Replace the oldest game by a new one."""
        place = self.games % WINDOW
        if self.is_known:
            self.counts[self._window[place]] -= 1
        self._window[place] = traits
        self.counts[self._window[place]] += 1
        self.games += 1


class Fleet:
    """Admission of games by worker. `quarantines`: refuse the games of suspects instead of only reporting them."""

    def __init__(
        self,
        *,
        max_plies: int,
        share_max: float = 1.0,
        quarantines: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`share_max`: largest share of the fleet's recent games for one worker while others play; 1 sets no bound."""
        self._max_plies = max_plies
        self._share_max = share_max
        self._quarantines = quarantines
        self._clock = clock
        self._workers: OrderedDict[str, _Worker] = OrderedDict()  # most recently active last
        self._admitted: deque[str] = deque()
        self._shares: Counter[str] = Counter()
        self.suspects: dict[str, str] = {}
        """Reason of suspicion by worker id."""

    def admit(self, worker_id: str, moves: list[int], scores: list[float]) -> None:
        """Count a valid game. Raises `RecordRejected` (`quota`, `quarantine`) when it must not be trained on."""
        self._observe(worker_id, self.traits(moves, scores))
        if self._quarantines and worker_id in self.suspects:
            raise RecordRejected("quarantine", f"worker {worker_id} is in quarantine: {self.suspects[worker_id]}")
        if self._share_max < 1.0 and self._shares[worker_id] >= self._share_max * SHARE_WINDOW and self._others_play():
            raise RecordRejected(
                "quota",
                f"worker {worker_id} sent {self._shares[worker_id]} of the last {len(self._admitted)} games, "
                f"the limit is {self._share_max:.0%}",
            )
        self._count(worker_id)

    def traits(self, moves: list[int], scores: list[float]) -> Traits:
        """Return the classes of a game."""
        length = min(31, 32 * len(moves) // self._max_plies)
        outcome = 32 if scores[0] > 0 else 34 if scores[0] < 0 else 33
        opening = zlib.crc32(np.array(moves[:OPENING_PLIES], np.int64).tobytes()) % 64
        return length, outcome, 35 + opening

    def _observe(self, worker_id: str, traits: Traits) -> None:
        worker = self._workers.pop(worker_id, None) or _Worker()
        self._workers[worker_id] = worker
        if len(self._workers) > MAX_WORKERS:
            forgotten, _ = self._workers.popitem(last=False)
            self.suspects.pop(forgotten, None)
            metrics.SUSPECT_WORKERS.set(len(self.suspects))
        worker.seen_s = self._clock()
        worker.add(traits)
        if worker.is_known and worker.games % CHECK_EVERY == 0:
            self._look_at(worker_id, worker)

    def _others_play(self) -> bool:
        """Return whether another worker than that of the last game sent one in the last `ABSENCE_S`."""
        other = next(islice(reversed(self._workers.values()), 1, None), None)
        return other is not None and not self._is_absent(other)

    def _is_absent(self, worker: _Worker) -> bool:
        return self._clock() - worker.seen_s >= ABSENCE_S

    def _count(self, worker_id: str) -> None:
        self._admitted.append(worker_id)
        self._shares[worker_id] += 1
        if len(self._admitted) > SHARE_WINDOW:
            oldest = self._admitted.popleft()
            self._shares[oldest] -= 1
            if not self._shares[oldest]:
                del self._shares[oldest]

    def _look_at(self, worker_id: str, worker: _Worker) -> None:
        """Compare a worker with the others, and log a change of its status."""
        others = [
            other.counts
            for name, other in self._workers.items()
            # Play changes as the network learns: windows of workers that left are of earlier play.
            if name != worker_id and other.is_known and name not in self.suspects and not self._is_absent(other)
        ]
        if len(others) < OTHERS:
            return
        why = next(_differences(worker.counts, np.mean(others, axis=0), len(others)), None)
        if why and worker_id not in self.suspects:
            log.error("fleet.suspect", worker=worker_id, why=why, quarantine=self._quarantines)
        if not why and worker_id in self.suspects:
            log.info("fleet.suspect_cleared", worker=worker_id)
        self.suspects.pop(worker_id, None)
        if why:
            self.suspects[worker_id] = why
        metrics.SUSPECT_WORKERS.set(len(self.suspects))


def _differences(counts: np.ndarray, expected: np.ndarray, others: int) -> Iterator[str]:
    """Yield the traits in which a worker differs from the others; both histograms are of `WINDOW` games."""
    for trait, (classes, most) in _TRAITS.items():
        own, usual = counts[classes], expected[classes]
        distance = float(np.abs(own - usual).sum()) / (2 * WINDOW)
        if distance > most and _sigmas(own, usual, others) > SIGMAS:
            yield f"{trait} of its last {WINDOW} games differs from the other workers' in {distance:.0%} of them"


def _sigmas(own: np.ndarray, usual: np.ndarray, others: int) -> float:
    """Return the chi-squared distance of two histograms in standard deviations (Wilson and Hilferty 1931)."""
    seen = (own + usual) > 0
    a, b = own[seen].astype(float), usual[seen] * others
    ratio = math.sqrt(a.sum() / b.sum())
    statistic = float((((a / ratio) - ratio * b) ** 2 / (a + b)).sum())
    freedom = max(1, int(seen.sum()) - 1)
    spread = 2 / (9 * freedom)
    return (math.cbrt(statistic / freedom) - (1 - spread)) / math.sqrt(spread)
