"""More watchers and calls than the gatekeeper takes: the rest is told so, and the champion is still to be had."""

import asyncio
import socket
from collections import Counter
from contextlib import ExitStack

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from gatekeeper.service import open_gatekeeper
from zerofleet.contracts.wire import gatekeeper_pb2 as messages
from zerofleet.contracts.wire import gatekeeper_pb2_grpc
from zerofleet.errors import ModelNotFound
from zerofleet.rpc.gatekeeper_client import GatekeeperClient
from zerofleet.telemetry import metrics

MODEL = "tic_tac_toe"
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_watchers_beyond_the_bound_are_refused_until_one_disconnects(settings_of, inference):
    async with open_gatekeeper(settings_of(max_watchers=20), evaluator=inference, control=inference) as gatekeeper:
        async with grpc.aio.insecure_channel(gatekeeper.address) as channel:
            stub = gatekeeper_pb2_grpc.GatekeeperStub(channel)
            watches = [stub.WatchChampion(messages.WatchChampionRequest(game=MODEL), timeout=60) for _ in range(100)]
            refused: Counter[grpc.StatusCode] = Counter()

            async def code(watch) -> None:
                refused[await watch.code()] += 1

            waiting = [asyncio.ensure_future(code(watch)) for watch in watches]
            async with asyncio.timeout(60):
                while refused[EXHAUSTED] < 90:  # noqa: ASYNC110 - turns of the loop
                    await asyncio.sleep(0.01)
            assert refused == {EXHAUSTED: 90}  # one address has half of the places
            async with GatekeeperClient(gatekeeper.address) as client:
                assert await client.champion(MODEL) is None  # watchers take no other places
                with pytest.raises(ModelNotFound):
                    await client.submit(MODEL, 7, "0" * 64)
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*waiting)
        async with GatekeeperClient(gatekeeper.address) as client, asyncio.timeout(60):
            assert await client.champion(MODEL) is None


async def test_health_watches_in_all_places_leave_those_of_submissions_free(settings_of, inference):
    settings = settings_of(max_watchers=4, max_concurrent_calls=4)
    async with (
        open_gatekeeper(settings, evaluator=inference, control=inference) as gatekeeper,
        grpc.aio.insecure_channel(gatekeeper.address) as channel,
        GatekeeperClient(gatekeeper.address) as client,
        asyncio.timeout(60),
    ):
        stub = health_pb2_grpc.HealthStub(channel)
        watches = [stub.Watch(health_pb2.HealthCheckRequest()) for _ in range(400)]
        firsts = await asyncio.gather(*(watch.read() for watch in watches), return_exceptions=True)
        refused = [first for first in firsts if isinstance(first, grpc.aio.AioRpcError)]
        assert len(refused) == 400 - 128
        with pytest.raises(ModelNotFound):
            await client.submit(MODEL, 7, "0" * 64)
        for watch in watches:
            watch.cancel()


async def test_connections_of_another_address_leave_the_champion_to_be_had(settings_of, inference):
    refused = metrics.GRPC_CONNECTIONS_REFUSED._value.get()
    settings = settings_of(max_connections=8)
    async with open_gatekeeper(settings, evaluator=inference, control=inference) as gatekeeper, asyncio.timeout(60):
        host, _, port = gatekeeper.address.rpartition(":")
        with ExitStack() as stack:
            for _ in range(8):
                stack.enter_context(socket.create_connection((host, int(port)), source_address=("127.0.0.2", 0)))
            while metrics.GRPC_CONNECTIONS_REFUSED._value.get() < refused + 4:  # noqa: ASYNC110 - looks of the server
                await asyncio.sleep(0.01)
            async with GatekeeperClient(gatekeeper.address) as client:
                assert await client.champion(MODEL) is None
        assert metrics.GRPC_CONNECTIONS_REFUSED._value.get() == refused + 4


async def test_requests_beyond_a_bound_are_counted_by_reason(settings_of, inference):
    counter = metrics.GATEKEEPER_REFUSED.labels(reason="calls")
    before = counter._value.get()
    async with (
        open_gatekeeper(settings_of(max_watchers=2), evaluator=inference, control=inference) as gatekeeper,
        grpc.aio.insecure_channel(gatekeeper.address) as channel,
        asyncio.timeout(60),
    ):
        stub = gatekeeper_pb2_grpc.GatekeeperStub(channel)
        watches = [stub.WatchChampion(messages.WatchChampionRequest(game=MODEL)) for _ in range(5)]
        while counter._value.get() < before + 4:  # noqa: ASYNC110 - turns of the loop
            await asyncio.sleep(0.01)
        for watch in watches:
            watch.cancel()


async def test_malformed_bytes_are_refused(settings_of, inference):
    async with (
        open_gatekeeper(settings_of(), evaluator=inference, control=inference) as gatekeeper,
        grpc.aio.insecure_channel(gatekeeper.address) as channel,
    ):
        for method in ("GetChampion", "SubmitCandidate", "Promote"):
            call = channel.unary_unary(f"/zerofleet.v1.Gatekeeper/{method}")(b"\xff\xfe\xfd", timeout=60)
            assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "not a message of" in await call.details()
