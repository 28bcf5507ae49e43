"""Lane: one block of games and the coroutine that drives it.

A worker has several lanes: while one waits for the network, another searches. The search runs in a thread that releases
the GIL, so the event loop stays free for gRPC, the champion and the probes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np

from selfplay_worker.champion import AdoptedModel
from selfplay_worker.evaluation import PatientEvaluator
from selfplay_worker.exploration import ExplorationSchedule
from selfplay_worker.game_register import FinishedGame, GameRegister, Ticket
from selfplay_worker.openings import Draft, Openings
from selfplay_worker.resignation import ResignationCalibration
from selfplay_worker.spectators import Spectators
from selfplay_worker.stopping import Stop
from selfplay_worker.traces import BlockTraces
from zerofleet.evaluators.base import LeafBatch
from zerofleet.search import Leaves, SearchBlock, SearchCounters
from zerofleet.search.afterstates.block import AfterstateBlock
from zerofleet.telemetry import metrics

__all__ = ["Block", "Crew", "Lane", "Outlet"]

Result = TypeVar("Result")
Block: TypeAlias = SearchBlock | AfterstateBlock
"""Games of a lane, with or without a tree."""


class Outlet(Protocol):
    """Destination of finished games; a worker's is the publisher."""

    def hand_over(self, game: FinishedGame) -> None:
        """Take a finished game, without waiting."""
        ...

    async def room(self) -> None:
        """Wait until lanes may play on; awaited before each step. Cancellation: no effect."""
        ...


@dataclass(frozen=True, slots=True)
class Crew:
    """Objects shared by the lanes of a worker."""

    adopted: AdoptedModel
    evaluator: PatientEvaluator
    register: GameRegister
    publisher: Outlet
    resignation: ResignationCalibration
    stop: Stop
    thread: Executor
    """Executor of the search; one thread uses one core."""
    staleness: Literal["finish", "switch", "drop"]
    openings: Openings
    exploration: ExplorationSchedule
    spectators: Spectators
    sync: bool = False
    """Whether the one game of the one lane and its version alternate."""


class Lane:
    """Plays the games of one block."""

    def __init__(self, block: Block, crew: Crew) -> None:
        self._block = block
        self._crew = crew
        self._games: dict[int, Ticket] = {}  # by slot
        self._versions: dict[int, set[int]] = {}  # by slot: those the game began with or was switched to
        self._boards = crew.spectators.reserve(len(block))
        self._traces = BlockTraces()
        self._version = 0  # the adopted version this lane has acted on
        self._last_played = 0  # version of the last finished game
        self._counted = SearchCounters(0, 0, 0)
        self._unabsorbed: tuple[np.ndarray, np.ndarray, list[np.ndarray]] | None = None
        self._cached = metrics.EVALUATIONS.labels(source="cache")

    @property
    def is_playing(self) -> bool:
        """Whether a game is in progress."""
        return bool(self._games)

    async def run(self) -> None:
        """Play until stopped, then abandon unfinished games. Raises errors of the evaluator that it does not retry.

        Cancellation: finished games are with the publisher, unfinished ones are dropped.
        """
        stop = self._crew.stop
        while not stop.now:
            async with stop.interruptible():
                await self._crew.publisher.room()
                if self._crew.sync and not self._games and not stop.no_new_games:
                    await self._crew.adopted.newer_than(self._last_played)
                await self._follow_champion()
            drafts = {} if stop.no_new_games else self._fill()
            if not self._games:
                break
            await self._step(drafts)
            self._collect()
        for slot in list(self._games):
            self._give_up(slot, "drain")

    async def _step(self, drafts: Mapping[int, Draft]) -> None:
        """Search until leaves wait, and evaluate them; the next step absorbs that. After an interruption the leaves still wait.

        `drafts`: openings of idle slots that need an evaluation, which shares the request of the leaves; then their games
        begin.
        """
        leaves = await self._in_thread(self._advance)
        self._count()
        self._collect()  # a game that has ended needs none of these evaluations, which may be a while in coming
        wanted = _joined(leaves, list(drafts.values()), self._version)
        if not len(wanted.batch):
            return
        answered = None
        async with self._crew.stop.interruptible():
            with self._traces.request(len(wanted.batch)):
                answered = await self._crew.evaluator.evaluate(wanted)
        if answered is not None:
            found, gone = answered
            searched = len(leaves.batch)
            if searched:
                heads = [head[:searched] for head in found.extra_heads]
                self._unabsorbed = found.policy[:searched], found.value[:searched], heads
                if not isinstance(self._block, SearchBlock):  # without a tree, an evaluation plays a move in every slot
                    await self._in_thread(self._absorb)
            self._begin_drafted(drafts, found.value[searched:])
            if gone:
                await self._abandon(gone, "version_gone")
                if isinstance(self._block, SearchBlock):  # after a rollback to it a version may be served again
                    self._block.forget(list(gone))

    def _advance(self) -> Leaves:
        """Absorb the last evaluation and search on: one visit of the search thread for each block of leaves."""
        if self._unabsorbed is not None and isinstance(self._block, SearchBlock):
            evaluation, self._unabsorbed = self._unabsorbed, None
            return self._block.search_on(*evaluation)
        self._absorb()
        return self._block.advance()

    def _absorb(self) -> None:
        """Absorb the last evaluation, unless that is done."""
        if self._unabsorbed is not None:
            evaluation, self._unabsorbed = self._unabsorbed, None
            self._block.absorb(*evaluation)

    async def _in_thread(self, work: Callable[..., Result], *arguments: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._crew.thread, work, *arguments)

    async def _follow_champion(self) -> None:
        """Apply the staleness setting to running games, and the schedule of exploration, when the champion has changed."""
        adopted = self._crew.adopted.version
        if adopted == self._version:
            return
        if isinstance(self._block, AfterstateBlock) and not self._crew.exploration.is_constant:
            self._block.set_exploration(await self._crew.exploration.share_of(adopted))
        self._version = adopted
        if self._crew.staleness == "drop":
            await self._abandon({ticket.version for ticket in self._games.values()} - {adopted}, "stale")
        elif self._crew.staleness == "switch":
            for slot in self._games:
                self._block.set_versions(slot, [adopted] * self._seats)
                self._versions[slot].add(adopted)

    async def _abandon(self, versions: Collection[int], reason: str) -> None:
        """Abandon every game that was searched with one of `versions`. Cancellation: as `run`."""
        await self._in_thread(self._absorb)  # games are abandoned while no leaves wait
        for slot in list(self._games):
            if not self._versions[slot].isdisjoint(versions):
                self._block.abandon(slot)
                self._give_up(slot, reason)

    def _give_up(self, slot: int, reason: str) -> None:
        self._traces.end(slot)
        del self._versions[slot]
        self._crew.register.abandon(self._games.pop(slot), reason)

    def _fill(self) -> dict[int, Draft]:
        """Begin a game in every idle slot; return the openings that need an evaluation first, by slot."""
        drafts: dict[int, Draft] = {}
        for slot in self._block.idle():
            ticket = self._crew.register.begin(self._version)
            self._games[slot] = ticket
            self._versions[slot] = {self._version}
            self._traces.begin(slot, ticket)
            draft = self._crew.openings.draft(ticket.seed)
            metrics.OPENINGS.labels(kind=draft.kind).inc()
            if draft.leaves is None:
                self._begin(slot, draft.opening())
            else:
                drafts[slot] = draft
        return drafts

    def _begin_drafted(self, drafts: Mapping[int, Draft], values: np.ndarray) -> None:
        """Begin the games whose openings were evaluated; `values` float32 [B, P] holds their leaves in order."""
        for slot, draft in drafts.items():
            count = len(draft.lines)
            self._begin(slot, draft.opening(values[:count]))
            values = values[count:]

    def _begin(self, slot: int, opening: Sequence[int]) -> None:
        seed = self._games[slot].seed
        self._block.begin(slot, seed=seed, versions=[self._version] * self._seats, opening=opening)

    def _collect(self) -> None:
        """Hand finished games to the publisher, and shown ones to spectators; update the resignation threshold."""
        finished = self._block.finished()
        is_watched = self._crew.spectators.is_watched
        if is_watched:
            self._crew.spectators.note(self._boards, self._block, self._games)
        for slot in finished:
            played = self._block.take(slot)
            if is_watched and slot < len(self._boards):
                self._crew.spectators.end(self._boards[slot], played.scores)
            self._traces.end(slot)
            self._crew.openings.remember(played)
            ticket = self._games.pop(slot)
            del self._versions[slot]
            self._last_played = ticket.version
            self._crew.publisher.hand_over(self._crew.register.finish(ticket, played))
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


def _joined(leaves: Leaves, drafts: Sequence[Draft], version: int) -> Leaves:
    """Return the leaves of a search followed by those of drafts, which `version` evaluates."""
    batches = [draft.leaves for draft in drafts if draft.leaves is not None]
    if not batches:
        return leaves
    states = np.concatenate([leaves.batch.states, *(batch.states for batch in batches)])
    legal = np.concatenate([leaves.batch.legal, *(batch.legal for batch in batches)])
    added = np.full(len(states) - len(leaves.batch), version, dtype=leaves.versions.dtype)
    batch = LeafBatch(states, legal, leaves.batch.extra_heads, leaves.batch.head_width)
    return Leaves(batch, np.concatenate([leaves.versions, added]))
