"""Disturbances from outside: faults of machine and network, operators, bad records and forged submissions."""

from __future__ import annotations

import asyncio
import itertools
import random
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from sim_network import SimGatekeeperClient
from sim_services import MODEL, gatekeeper_main

from games.core import make
from zerofleet.contracts.records import encode_record
from zerofleet.contracts.records.samples import random_game
from zerofleet.errors import ZerofleetError

if TYPE_CHECKING:
    from sim_world import World

PAUSE_S = 0.5  # virtual time between two disturbances, on average
OVERTAKES_WITHIN_S, LOOKS_EVERY_S = 3.0, 0.005  # virtual time
CLIENTS = ("worker-1", "worker-2", "trainer", "gatekeeper")
SERVERS = ("stream", "gatekeeper", "inference")


class Disturber:
    """Source of the disturbances of one simulation, drawn by weight."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self._world, self._rng = world, rng
        self._client = SimGatekeeperClient(world.network, rng=random.Random(world.seed))
        self._numbers = itertools.count(1)
        self._intruders: set[asyncio.Task[None]] = set()
        self._kinds = {
            self.kill: 3,
            self.power_loss: 1,
            self.partition: 3,
            self.suspended_gatekeeper: 2,
            self.stop: 2,
            self.second_gatekeeper: 1,
            self.operator: 2,
            self.bad_record: 3,
            self.forged_submission: 2,
            self.submission_before_its_trainers: 2,
            self.full_disk: 1,
        }

    async def run(self) -> None:
        """Disturb until the world is no longer faulty."""
        try:
            await self._disturb()
        finally:
            for intruder in self._intruders:
                intruder.cancel()

    async def _disturb(self) -> None:
        while self._world.faulty:
            await asyncio.sleep(self._rng.expovariate(1 / PAUSE_S))
            kind = self._rng.choices(list(self._kinds), list(self._kinds.values()))[0]
            if not self._world.faulty:
                return
            self._world.count(kind.__name__.replace("_", " "))
            with suppress(ZerofleetError):
                await kind()

    async def kill(self) -> None:
        """Kill a service."""
        if names := list(self._world.running):
            self._world.crash(self._world.running[self._rng.choice(names)])

    async def power_loss(self) -> None:
        """Kill everything, and leave what is durable."""
        self._world.lose_power()

    async def partition(self) -> None:
        """Cut a client off from a server."""
        place = self._rng.choice(CLIENTS), self._rng.choice(SERVERS)
        self._world.network.partitions[place] = self._world.loop.time() + self._rng.expovariate(1 / 4.0)

    async def suspended_gatekeeper(self) -> None:
        """Suspend the gatekeeper while another one takes over."""
        if "gatekeeper" in self._world.running:
            self._world.suspend(self._world.running["gatekeeper"])

    async def stop(self) -> None:
        """Stop a service in order."""
        await self._world.stop(self._rng.choice(CLIENTS[:3]))

    async def second_gatekeeper(self) -> None:
        """Start a gatekeeper beside the one that runs; the lease must refuse it."""
        world = self._world
        second = world.loop.new_process("gatekeeper")
        task = world.loop.start(second, gatekeeper_main(world))
        task.add_done_callback(lambda done: world.ended(second, done), context=world.loop.root.context)

    async def operator(self) -> None:
        """Promote a version by hand, or roll back."""
        versions = self._world.checks.store.versions(MODEL)
        if versions and self._rng.random() < 0.7:
            await self._client.promote(MODEL, self._rng.choice(versions), reason="operator")
        else:
            await self._client.rollback(MODEL, reason="operator")

    async def forged_submission(self) -> None:
        """Submit a version with the hash of another content."""
        if versions := self._world.checks.store.versions(MODEL):
            await self._client.submit(MODEL, self._rng.choice(versions), "0" * 64)

    async def submission_before_its_trainers(self) -> None:
        """Submit the next version with the hash of another content as soon as it is stored, before or beside its trainer."""
        intruder = asyncio.ensure_future(self._overtake())
        self._intruders.add(intruder)
        intruder.add_done_callback(self._intruders.discard)

    async def _overtake(self) -> None:
        store, ends_s = self._world.checks.store, self._world.loop.time() + OVERTAKES_WITHIN_S
        known = max(store.versions(MODEL), default=0)
        while self._world.loop.time() < ends_s:
            if (newest := max(self._world.checks.store.versions(MODEL), default=0)) > known:
                with suppress(ZerofleetError):
                    await self._client.submit(MODEL, newest, "0" * 64)
                return
            await asyncio.sleep(LOOKS_EVERY_S)

    async def full_disk(self) -> None:
        """Let a fifth of all writes fail for a while."""
        self._world.disk.error_rate = 0.2
        await asyncio.sleep(self._rng.expovariate(1 / 2.0))
        self._world.disk.error_rate = 0.0

    async def bad_record(self) -> None:
        """Publish a record that must not be stored."""
        number, checks = next(self._numbers), self._world.checks
        uid, game = f"{0xBAD0000 + number:032x}", make(MODEL)
        played, kind = random_game(game, number, version=1), self._rng.randrange(5)
        if kind == 4 and checks.acknowledged:  # another game under a stored uid
            uid = self._rng.choice(sorted(checks.acknowledged))
            await self._world.stream.publish(uid, encode_record(played, worker_id="intruder", uid=uid))
            return
        checks.bad.add(uid)
        if kind == 0:
            await self._world.stream.publish(uid, self._rng.randbytes(50))
            return
        forged = {
            1: replace(played, scores=(0.5, -0.5)),
            2: random_game(game, number, version=10_000),
        }.get(kind, replace(played, moves=played.moves[::-1].copy()[:3]))
        await self._world.stream.publish(uid, encode_record(forged, worker_id="intruder", uid=uid))
