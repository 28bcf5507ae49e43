"""Several servers behind one name: each is given what is to be served, whichever come, go, are silent or refuse."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import numpy as np
import pytest
from fake_network import MODEL, FakeLoader, expected_value, until

from inference_server.server import RunningServer, open_server
from inference_server.settings import ServerSettings
from zerofleet.errors import CorruptModel, ModelNotFound, Unavailable
from zerofleet.evaluators.base import LeafBatch, ModelVersion
from zerofleet.evaluators.control import ModelControl
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.evaluators.replicas import ReplicaControl
from zerofleet.presets import InferenceSettings


class Fleet:
    """Servers on the loopback addresses of this machine, over one store, and the name they share."""

    def __init__(self, stack: AsyncExitStack, store) -> None:
        self._stack, self._store = stack, store
        self.servers: dict[str, RunningServer] = {}
        self.loaders: dict[str, FakeLoader] = {}
        self.name: list[str] = []

    async def add(self, host: str = "127.0.0.1") -> str:
        """Start one more server and give the name its address."""
        part = InferenceSettings(max_batch=64, max_delay_us=0)
        settings = ServerSettings(
            address=f"{host}:0", model_store=self._store.root, inference=part, tokens="operator: s3cret-of-this-test"
        )
        loader = FakeLoader()
        server = await self._stack.enter_async_context(open_server(settings, loader))
        self.servers[server.address], self.loaders[server.address] = server, loader
        self.name.append(server.address)
        return server.address

    async def kill(self, address: str) -> None:
        """End a server; the name still has its address."""
        await self.servers.pop(address).grpc.stop(None)

    def control(self, **settings) -> ReplicaControl:
        async def addresses(target: str) -> list[str]:
            assert target == "dns:///fleet:8001"
            return sorted(self.name)

        settings = {"token": "s3cret-of-this-test", "store": self._store, **settings}
        return ReplicaControl("dns:///fleet:8001", addresses=addresses, **settings)

    def target(self) -> str:
        """All addresses as grpc itself takes them."""
        return f"ipv4:{','.join(self.name)}"

    def held(self) -> list[list[int]]:
        """What each server holds."""
        return [[each.version for each in server.plane.registry.versions(MODEL)] for server in self.servers.values()]


@pytest.fixture
async def fleet(store, publish) -> AsyncIterator[Fleet]:
    """Three servers that serve nothing, over a store of three versions."""
    for _ in range(3):
        publish()
    async with AsyncExitStack() as stack:
        fleet = Fleet(stack, store)
        for host in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
            await fleet.add(host)
        yield fleet


async def test_a_load_reaches_every_replica(fleet):
    async with fleet.control() as control:
        await control.serve(MODEL, [1, 2])
        assert fleet.held() == [[1, 2]] * 3
        assert await control.ready(MODEL, 2)
        assert not await control.ready(MODEL, 3)


async def test_a_list_of_addresses_names_replicas_too(fleet, store):
    async with ReplicaControl(fleet.target(), token="s3cret-of-this-test", store=store) as control:
        await control.serve(MODEL, [2])
    assert fleet.held() == [[2]] * 3


async def test_a_list_of_unix_sockets_names_replicas_too_and_one_that_restarts_is_given_the_versions(store, publish, tmp_path):
    for _ in range(2):
        publish()
    addresses = [f"unix:{tmp_path / name}.sock" for name in ("a", "b")]
    part = InferenceSettings(max_batch=64, max_delay_us=0)

    async def start(address: str, stack: AsyncExitStack) -> RunningServer:
        settings = ServerSettings(address=address, model_store=store.root, inference=part)
        return await stack.enter_async_context(open_server(settings, FakeLoader()))

    async def silent(control: ReplicaControl) -> bool:
        try:
            await control.ready(MODEL, 1)
        except Unavailable:
            return True
        return False

    async with AsyncExitStack() as first, AsyncExitStack() as second:
        await start(addresses[0], first)
        await start(addresses[1], second)
        async with ReplicaControl(",".join(addresses), store=store) as control:
            await control.serve(MODEL, [1])
            assert await control.ready(MODEL, 1)
            await second.aclose()
            with pytest.raises(Unavailable, match=rf"{addresses[1]} does not answer; it is skipped after 30 s"):
                await control.serve(MODEL, [1, 2])
            again = await start(addresses[1], second)
            async with asyncio.timeout(60):
                while await silent(control):  # noqa: ASYNC110 - grpc reconnects by the clock
                    await asyncio.sleep(0.01)
            assert not await control.ready(MODEL, 2)
            await control.serve(MODEL, [1, 2])
            assert [held.version for held in again.plane.registry.versions(MODEL)] == [1, 2]
            assert await control.ready(MODEL, 2)
            assert {address for address, _ in await control.evaluations(MODEL)} == set(addresses)


async def test_a_replica_added_later_is_given_the_versions_of_the_others(fleet):
    async with fleet.control() as control:
        await control.serve(MODEL, [1])
        await fleet.add()
        assert not await control.ready(MODEL, 1)
        await control.serve(MODEL, [1])
        assert fleet.held() == [[1]] * 4
        assert await control.ready(MODEL, 1)


async def test_a_replica_removed_from_the_name_is_dropped(fleet):
    async with fleet.control() as control:
        await control.serve(MODEL, [1])
        gone = fleet.name.pop()
        await fleet.kill(gone)
        await control.serve(MODEL, [2])
        assert fleet.held() == [[2]] * 2


async def test_a_load_waits_for_a_dead_replica_while_the_others_are_served(fleet):
    async with fleet.control(absence_s=3600.0) as control:
        await control.serve(MODEL, [1])
        await fleet.kill(fleet.name[1])
        with pytest.raises(Unavailable, match=f"{fleet.name[1]} does not answer; it is skipped after 3600 s"):
            await control.serve(MODEL, [2])
        assert fleet.held() == [[2]] * 2
        with pytest.raises(Unavailable):
            await control.ready(MODEL, 2)


async def test_a_replica_that_stays_dead_is_passed_over_until_it_answers_again(fleet):
    async with fleet.control(absence_s=0.0) as control:
        dead = fleet.name[2]
        await fleet.kill(dead)
        await control.serve(MODEL, [1])
        assert await control.ready(MODEL, 1)
        assert fleet.held() == [[1]] * 2
        fleet.name.remove(dead)
        fleet.name.append(await fleet.add("127.0.0.3"))
        assert not await control.ready(MODEL, 1)
        await control.serve(MODEL, [1])
        assert fleet.held() == [[1]] * 3


async def test_no_version_counts_as_served_when_no_replica_answers(fleet):
    async with fleet.control(absence_s=0.0) as control:
        for address in fleet.name:
            await fleet.kill(address)
        with pytest.raises(Unavailable, match=r"dns:///fleet:8001 does not answer at 127\.0\.0\.1"):
            await control.serve(MODEL, [1])


async def test_a_server_behind_its_own_address_that_does_not_answer_is_named_once(tmp_path):
    target = f"unix:{tmp_path}/absent.sock"
    async with ReplicaControl(target) as control:
        with pytest.raises(Unavailable) as refused:
            await control.serve(MODEL, [1])
    assert str(refused.value).startswith(f"{target} does not answer; is it running?")


async def test_a_version_refused_by_one_replica_is_corrupt_and_the_replica_keeps_its_versions(fleet):
    async with fleet.control() as control:
        await control.serve(MODEL, [1])
        fleet.loaders[fleet.name[1]].broken.add(2)
        with pytest.raises(CorruptModel, match="version 2 is broken"):
            await control.serve(MODEL, [1, 2])
        assert fleet.held() == [[1, 2], [1], [1, 2]]
        assert await control.ready(MODEL, 1)
        assert not await control.ready(MODEL, 2)
        await control.serve(MODEL, [1])
        assert fleet.held() == [[1]] * 3


async def test_a_version_on_one_replica_only_is_found_there(fleet, positions):
    async with ModelControl(fleet.name[2], token="s3cret-of-this-test") as control:
        await control.serve(MODEL, [3])
    batch = LeafBatch(positions[0][:4], positions[1][:4])
    token = "s3cret-of-this-test"
    async with KServeEvaluator(fleet.target(), MODEL, token=token, timeout_s=60.0, rng=random.Random(1)) as evaluator:
        for _ in range(6):
            answer = await evaluator.evaluate(batch, version=ModelVersion(3))
            np.testing.assert_array_equal(answer.value, expected_value(*positions, 3)[:4])


async def test_the_search_for_a_version_that_no_replica_has_ends_soon(fleet, positions, monkeypatch):
    monkeypatch.setattr("zerofleet.evaluators.kserve.MISSING_S", 0.05)
    batch = LeafBatch(positions[0][:4], positions[1][:4])
    async with KServeEvaluator(fleet.target(), MODEL, token="s3cret-of-this-test") as evaluator:
        with pytest.raises(ModelNotFound):
            await evaluator.evaluate(batch, version=ModelVersion(3))


async def test_evaluations_continue_while_a_replica_dies(fleet, positions):
    async with fleet.control() as control:
        await control.serve(MODEL, [1])
    batch = LeafBatch(positions[0][:4], positions[1][:4])
    async with KServeEvaluator(fleet.target(), MODEL, token="s3cret-of-this-test", timeout_s=60.0) as evaluator:
        for round_ in range(12):
            if round_ == 4:
                await fleet.kill(fleet.name[0])
            answer = await evaluator.evaluate(batch, version=ModelVersion(1))
            np.testing.assert_array_equal(answer.value, expected_value(*positions, 1)[:4])
    answered = [server.plane.registry.resolve(MODEL, 1).statistics.success.count for server in fleet.servers.values()]
    assert min(answered) >= 2  # round robin: every living replica took its share


async def test_a_server_is_ready_only_once_it_serves_champion_and_predecessor(fleet, store):
    for epoch, version in enumerate((1, 2, 3), start=1):
        store.write_champion(MODEL, version, epoch=epoch, reason="test")
    registry = fleet.servers[fleet.name[0]].plane.registry
    await registry.serve_champions()
    await until(lambda: bool(registry.models()))
    assert [each.version for each in registry.versions(MODEL)] == [2, 3]


async def test_a_broken_predecessor_does_not_keep_the_champion_out_of_service(fleet, store):
    for epoch, version in enumerate((1, 2), start=1):
        store.write_champion(MODEL, version, epoch=epoch, reason="test")
    fleet.loaders[fleet.name[0]].broken.add(1)
    registry = fleet.servers[fleet.name[0]].plane.registry
    await registry.serve_champions()
    assert [each.version for each in registry.versions(MODEL)] == [2]
