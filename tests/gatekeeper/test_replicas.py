"""Promotion over several replicas of the inference server: one refuses, one dies, one comes in the middle of a match."""

import asyncio
import json
from contextlib import AsyncExitStack

import grpc
import pytest
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

from gatekeeper.pointer import ChampionPointer
from gatekeeper.served_versions import Serving
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.errors import Unavailable
from zerofleet.evaluators.replicas import ReplicaControl

MODEL = "tic_tac_toe"


class Replica(service_pb2_grpc.GRPCInferenceServiceServicer):
    """A server that only loads; versions in `broken` it refuses."""

    def __init__(self):
        self.held = set()
        self.broken = set()

    async def ServerLive(self, request, context):
        return messages.ServerLiveResponse(live=True)

    async def RepositoryModelLoad(self, request, context):
        config = json.loads(request.parameters["config"].string_param)
        wanted = {int(version) for version in config["versionPolicy"]["specific"]["versions"]}
        if self.broken & wanted:
            await context.abort(grpc.StatusCode.DATA_LOSS, f"version {max(self.broken)} cannot be loaded here")
        self.held = wanted
        return messages.RepositoryModelLoadResponse()

    async def ModelReady(self, request, context):
        return messages.ModelReadyResponse(ready=int(request.version) in self.held)

    async def ModelConfig(self, request, context):
        await context.abort(grpc.StatusCode.NOT_FOUND, "not loaded")


class Fleet:
    """Replicas, and a gatekeeper's fake evaluator that has what they have all been given."""

    def __init__(self, inference):
        self.inference = inference
        self.replicas, self.servers, self.name = [], [], []

    async def add(self):
        replica, server = Replica(), grpc.aio.server()
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(replica, server)
        self.name.append(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
        await server.start()
        self.replicas.append(replica)
        self.servers.append(server)
        return replica

    async def addresses(self, target):
        return sorted(self.name)

    async def serve(self, model, versions):
        await self.control.serve(model, versions)
        self.inference.served = list(versions)

    async def ready(self, model, version):
        return await self.control.ready(model, version)

    async def evaluations(self, model):
        return await self.control.evaluations(model)

    async def evaluate(self, batch, *, version):
        return await self.inference.evaluate(batch, version=version)


@pytest.fixture
async def fleet(inference):
    fleet = Fleet(inference)
    await fleet.add()
    await fleet.add()
    async with ReplicaControl("dns:///fleet:1", absence_s=0.0, addresses=fleet.addresses) as fleet.control:
        yield fleet
    for server in fleet.servers:
        await server.stop(None)


async def test_a_candidate_refused_by_one_replica_is_broken_and_the_champion_stays_on_all(open_gate, fleet):
    async with open_gate(fleet, mode="off") as gate:
        assert (await gate.offer()).status is CandidateStatus.PROMOTED
        fleet.replicas[1].broken.add(2)
        candidate = await gate.offer()
        assert candidate.status is CandidateStatus.BROKEN
        assert "version 2 cannot be loaded here" in candidate.reason
        assert gate.pointer.champion.version == 1
        assert [replica.held >= {1} for replica in fleet.replicas] == [True, True]


async def test_a_dead_replica_does_not_stop_promotion(open_gate, fleet):
    async with open_gate(fleet, mode="off") as gate:
        await gate.offer()
        await fleet.servers[0].stop(None)
        assert (await gate.offer()).status is CandidateStatus.PROMOTED
        assert fleet.replicas[1].held == {1, 2}


async def test_a_replica_added_during_a_match_is_given_champion_and_candidate(fleet, models, tmp_path):
    pointer = _pointer(models, tmp_path)
    serving = Serving(fleet, MODEL, pointer, recheck_s=0.005)
    async with serving.including(2), asyncio.TaskGroup() as group:
        work = group.create_task(serving.run())
        newcomer = await fleet.add()
        async with asyncio.timeout(60):
            while newcomer.held != {1, 2}:  # noqa: ASYNC110 - the gatekeeper looks by the clock
                await asyncio.sleep(0.001)
        work.cancel()


async def test_pinned_versions_are_served_beside_the_champion(fleet, models, tmp_path):
    pointer, stored = _pointer(models, tmp_path), [1]
    serving = Serving(fleet, MODEL, pointer, recheck_s=1.0, pinned=[2], stored=lambda: stored)
    await serving.apply()
    assert [replica.held for replica in fleet.replicas] == [{1}, {1}]
    stored.append(2)
    await serving.apply()
    assert [replica.held for replica in fleet.replicas] == [{1, 2}, {1, 2}]


async def test_the_champion_is_served_while_the_store_of_pinned_versions_is_away(fleet, models, tmp_path):
    answers = iter([Unavailable("connection refused"), Unavailable("connection refused")])

    def stored():
        if error := next(answers, None):
            raise error
        return [1, 2]

    serving = Serving(fleet, MODEL, _pointer(models, tmp_path), recheck_s=0.005, pinned=[2], stored=stored)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        work = group.create_task(serving.run())
        while fleet.replicas[0].held != {1, 2}:  # noqa: ASYNC110 - the gatekeeper looks by the clock
            await asyncio.sleep(0.001)
        work.cancel()


async def test_a_version_that_a_server_loaded_for_a_cancelled_promotion_is_unloaded(inference, models, tmp_path):
    serving = Serving(inference, MODEL, _pointer(models, tmp_path), recheck_s=30.0)
    load, loaded = inference.serve, asyncio.Queue()

    async def load_and_answer_late(model, versions):
        await load(model, versions)
        loaded.put_nowait(versions)
        if 2 in versions:
            await asyncio.Event().wait()

    inference.serve = load_and_answer_late
    await serving.apply()
    assert await loaded.get() == (1,)
    async with AsyncExitStack() as stack:
        promotion = asyncio.create_task(stack.enter_async_context(serving.including(2)))
        assert await loaded.get() == (1, 2)
        promotion.cancel()
        await asyncio.wait([promotion])
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        work = group.create_task(serving.run())
        assert await loaded.get() == (1,)
        work.cancel()


def _pointer(models, tmp_path):
    """Return the pointer of a store whose champion is version 1 and which has a version 2."""
    for _ in range(2):
        models.publish()
    models.store.write_champion(MODEL, 1, epoch=1, reason="test")
    return ChampionPointer(models.store, MODEL, None, None)
