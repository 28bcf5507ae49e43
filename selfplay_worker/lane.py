"""Lane: one block of games and the coroutine that drives it.

A worker has several lanes: while one waits for the network, another searches. The search runs in a thread that releases
the GIL, so the event loop stays free for gRPC, the champion and the probes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from selfplay_worker.champion import AdoptedModel
from selfplay_worker.evaluation import PatientEvaluator
from selfplay_worker.game_register import GameRegister, Ticket
from selfplay_worker.openings import random_opening
from selfplay_worker.publisher import Publisher
from selfplay_worker.resignation import ResignationCalibration
from selfplay_worker.stopping import Stop
from selfplay_worker.traces import BlockTraces
from zerofleet.search import Leaves, SearchBlock, SearchCounters
from zerofleet.telemetry import metrics

__all__ = ["Crew", "Lane"]

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Crew:
    """Objects shared by the lanes of a worker."""

    adopted: AdoptedModel
    evaluator: PatientEvaluator
    register: GameRegister
    publisher: Publisher
    resignation: ResignationCalibration
    stop: Stop
    thread: Executor
    """Executor of the search; one thread uses one core."""
    staleness: Literal["finish", "switch", "drop"]
    opening_plies: int
    """Largest number of random plies at the start of a game."""


class Lane:
    """Plays the games of one block."""

    def __init__(self, block: SearchBlock, crew: Crew) -> None:
        self._block = block
        self._crew = crew
        self._games: dict[int, Ticket] = {}  # by slot
        self._traces = BlockTraces()
        self._version = 0  # the adopted version this lane has acted on
        self._counted = SearchCounters(0, 0, 0)
        self._cached = metrics.EVALUATIONS.labels(source="cache")

    async def run(self) -> None:
        """Play until stopped, then abandon unfinished games. Raises errors of the evaluator that it does not retry.

        Cancellation: finished games are with the publisher, unfinished ones are dropped.
        """
        stop = self._crew.stop
        while not stop.now:
            async with stop.interruptible():
                await self._crew.publisher.room()
            self._follow_champion()
            if not stop.no_new_games:
                self._fill()
            elif not self._games:
                break
            await self._step()
            self._collect()
        for slot in list(self._games):
            self._give_up(slot, "drain")

    async def _step(self) -> None:
        """Search until leaves wait, evaluate them, absorb the evaluation. After an interruption the leaves still wait."""
        leaves: Leaves = await self._in_thread(self._block.advance)
        self._count()
        if not len(leaves.batch):
            return
        answered = None
        async with self._crew.stop.interruptible():
            with self._traces.request(len(leaves.batch)):
                answered = await self._crew.evaluator.evaluate(leaves)
        if answered is not None:
            found, gone = answered
            await self._in_thread(self._block.absorb, found.policy, found.value, found.extra_heads)
            if gone:
                self._abandon_older("version_gone")

    async def _in_thread(self, work: Callable[..., Result], *arguments: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._crew.thread, work, *arguments)

    def _follow_champion(self) -> None:
        """Apply the staleness setting to running games when the champion has changed."""
        adopted = self._crew.adopted.version
        if adopted == self._version:
            return
        self._version = adopted
        if self._crew.staleness == "drop":
            self._abandon_older("stale")
        elif self._crew.staleness == "switch":
            for slot in self._games:
                self._block.set_versions(slot, [adopted] * self._seats)

    def _abandon_older(self, reason: str) -> None:
        """Abandon every game that began with a version other than the adopted one."""
        for slot, ticket in list(self._games.items()):
            if ticket.version != self._crew.adopted.version:
                self._block.abandon(slot)
                self._give_up(slot, reason)

    def _give_up(self, slot: int, reason: str) -> None:
        self._traces.end(slot)
        self._crew.register.abandon(self._games.pop(slot), reason)

    def _fill(self) -> None:
        """Begin a game in every idle slot."""
        for slot in self._block.idle():
            ticket = self._crew.register.begin(self._version)
            opening = random_opening(self._block.game, seed=ticket.seed, most_plies=self._crew.opening_plies)
            self._block.begin(slot, seed=ticket.seed, versions=[self._version] * self._seats, opening=opening)
            self._games[slot] = ticket
            self._traces.begin(slot, ticket)

    def _collect(self) -> None:
        """Hand finished games to the publisher; update the resignation threshold."""
        finished = self._block.finished()
        for slot in finished:
            played = self._block.take(slot)
            self._traces.end(slot)
            self._crew.publisher.hand_over(self._crew.register.finish(self._games.pop(slot), played))
        if finished and self._crew.resignation.enabled:
            self._block.set_resign_threshold(self._crew.resignation.threshold())

    def _count(self) -> None:
        now = self._block.counters
        metrics.SELFPLAY_MOVES.inc(now.moves - self._counted.moves)
        self._cached.inc(now.cache_hits - self._counted.cache_hits)
        self._counted = now

    @property
    def _seats(self) -> int:
        return self._block.game.spec().num_players
