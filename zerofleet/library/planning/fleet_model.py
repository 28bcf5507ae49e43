"""Discrete-event simulation of a fleet: workers, servers with a queue each, stream, trainer, and a match at the gate.

The plan's arithmetic covers mean rates only. Here requests queue, games end at random and the trainer may be down for a while.
Time is simulated and randomness is seeded: the same call gives the same figures.
"""

from __future__ import annotations

import heapq

import numpy as np

from zerofleet.library.planning.costs import Costs
from zerofleet.library.planning.plan import Limits, Simulated, evaluations_per_game, searched_plies, worker_rate
from zerofleet.presets import Preset

__all__ = ["simulate"]

_SEND, _ANSWERED = 0, 1
_GATE = -1  # replaces a worker's number


class Fleet:
    """State of a simulated fleet."""

    def __init__(
        self, costs: Costs, chosen: Preset, *, gpus: int, workers: int, plies: float | None, limits: Limits, seed: int
    ) -> None:
        self._costs, self._limits = costs, limits
        self._rng = np.random.default_rng(seed)
        self._rows = chosen.selfplay.slots
        self._gate_rows = 2 * chosen.gate.max_pairs
        self._search_s = self._rows / worker_rate(costs)
        self._per_game = evaluations_per_game(costs, chosen, plies)
        self._server_free = [0.0] * gpus
        self._next_server = self._rng.integers(gpus, size=workers + 1).tolist()  # the last is the gate's
        self._core_free = [0.0] * workers
        self._events: list[tuple[float, int, int, float]] = []  # time, kind, worker, time of the request
        self.answered_at: list[float] = []
        self.waited_s: list[float] = []
        self.gate_s: list[float] = []
        self.games: list[tuple[float, int]] = []  # time, number of finished games
        for worker in range(workers):
            for start in self._rng.uniform(0, self._search_s * chosen.selfplay.lanes, chosen.selfplay.lanes):
                heapq.heappush(self._events, (float(start), _SEND, worker, 0.0))
        heapq.heappush(self._events, (0.0, _SEND, _GATE, 0.0))
        self.backlog, self._taken_until, self._published = 0.0, 0.0, 0.0
        self.most_backlog = 0.0

    def run(self, seconds: float, away: tuple[float, float]) -> None:
        """Process the events of `seconds`; the trainer is down from `away[0]` to `away[1]`."""
        while self._events and self._events[0][0] < seconds:
            now, kind, worker, sent = heapq.heappop(self._events)
            if kind == _SEND:
                self._send(now, worker)
            else:
                self._answer(now, worker, sent, away)
        self._take(seconds, away)

    def _send(self, now: float, worker: int) -> None:
        rows = self._gate_rows if worker == _GATE else self._rows
        server = self._next_server[worker] = (self._next_server[worker] + 1) % len(self._server_free)
        done = max(now, self._server_free[server]) + rows / self._costs.evaluations_per_device
        self._server_free[server] = done
        heapq.heappush(self._events, (done, _ANSWERED, worker, now))

    def _answer(self, now: float, worker: int, sent: float, away: tuple[float, float]) -> None:
        if worker == _GATE:
            self.gate_s.append(now - sent)
            heapq.heappush(self._events, (now + self._gate_rows / worker_rate(self._costs), _SEND, _GATE, 0.0))
            return
        self.answered_at.append(now)
        self.waited_s.append(now - sent)
        ended = int(self._rng.poisson(self._rows / self._per_game))
        self._take(now, away)
        self.backlog += ended
        self.most_backlog = max(self.most_backlog, self.backlog)
        self.games.append((now, ended))
        searched = max(now, self._core_free[worker]) + self._search_s * float(self._rng.uniform(0.9, 1.1))
        self._core_free[worker] = searched
        self._published = max(now, self._published) + ended / self._limits.stream_records_per_second
        ready = max(searched, self._published, self._room_at(now, away))
        heapq.heappush(self._events, (ready, _SEND, worker, 0.0))

    def _room_at(self, now: float, away: tuple[float, float]) -> float:
        """Return the time at which the stream falls below its high-water mark."""
        over = self.backlog - self._limits.high_water
        if over < 0:
            return now
        return (away[1] if away[0] <= now < away[1] else now) + over / self._costs.games_taken_per_second

    def _take(self, now: float, away: tuple[float, float]) -> None:
        """Remove the games received by the trainer up to `now`, except while it was down."""
        lost = max(0.0, min(now, away[1]) - max(self._taken_until, away[0]))
        free_s = now - self._taken_until - lost
        self.backlog = max(0.0, self.backlog - free_s * self._costs.games_taken_per_second)
        self._taken_until = now


def simulate(
    costs: Costs,
    chosen: Preset,
    *,
    gpus: int,
    workers: int,
    seconds: float = 60.0,
    trainer_away: tuple[float, float] = (0.0, 0.0),
    plies: float | None = None,
    limits: Limits,
    seed: int = 0,
) -> Simulated:
    """Simulate a fleet for `seconds` and return the results."""
    fleet = Fleet(costs, chosen, gpus=gpus, workers=workers, plies=plies, limits=limits, seed=seed)
    fleet.run(seconds, trainer_away)
    begins = seconds / 10
    length = seconds - begins
    late = [at >= begins for at in fleet.answered_at]
    waited = np.array([s for s, counts in zip(fleet.waited_s, late, strict=True) if counts] or [0.0])
    games = sum(count for at, count in fleet.games if at >= begins)
    gate_step_s = float(np.mean(fleet.gate_s)) if fleet.gate_s else None
    gate_rows = 2 * chosen.gate.max_pairs
    steps = searched_plies(costs, plies) * max(1, chosen.gate.simulations)
    return Simulated(
        seconds=seconds,
        evaluations_per_second=sum(late) * chosen.selfplay.slots / length,
        requests_per_second=sum(late) / length,
        games_per_second=games / length,
        latency_ms={f"p{q}": round(float(np.percentile(waited, q)) * 1e3, 2) for q in (50, 95, 99)},
        stream_most_games=round(fleet.most_backlog),
        stream_most_bytes=fleet.most_backlog * costs.bytes_per_record,
        stream_left_games=round(fleet.backlog),
        gate_step_ms=None if gate_step_s is None else gate_step_s * 1e3,
        gate_match_s=None if gate_step_s is None else steps * (gate_step_s + gate_rows / worker_rate(costs)),
    )
