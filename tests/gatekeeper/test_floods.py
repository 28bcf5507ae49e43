"""More watchers and calls than the gatekeeper takes: the rest is told so, and the champion is still to be had."""

import asyncio
from collections import Counter

import grpc

from gatekeeper.service import open_gatekeeper
from zerofleet.contracts.wire import gatekeeper_pb2 as messages
from zerofleet.contracts.wire import gatekeeper_pb2_grpc
from zerofleet.rpc.gatekeeper_client import GatekeeperClient

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
                while refused[EXHAUSTED] < 80:  # noqa: ASYNC110 - turns of the loop
                    await asyncio.sleep(0.01)
            assert refused == {EXHAUSTED: 80}
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*waiting)
        async with GatekeeperClient(gatekeeper.address) as client, asyncio.timeout(60):
            assert await client.champion(MODEL) is None


async def test_malformed_bytes_are_refused(settings_of, inference):
    async with (
        open_gatekeeper(settings_of(), evaluator=inference, control=inference) as gatekeeper,
        grpc.aio.insecure_channel(gatekeeper.address) as channel,
    ):
        for method in ("GetChampion", "SubmitCandidate", "Promote"):
            call = channel.unary_unary(f"/zerofleet.v1.Gatekeeper/{method}")(b"\xff\xfe\xfd", timeout=60)
            assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "not a message of" in await call.details()
