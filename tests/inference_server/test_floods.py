"""Many at once, slow, half open, or gone: the queue stays bounded, refusals are quick, and everyone else is answered."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack

import grpc
import numpy as np
import psutil
import pytest
from fake_network import MODEL, Wire, expected_value, infer_request, refusal, until
from grpc_health.v1 import health_pb2, health_pb2_grpc
from raw_http2 import HEADERS, RawConnection, call
from tritonclient.grpc import service_pb2 as messages

from zerofleet.rpc.health import MAX_WATCHES
from zerofleet.telemetry import metrics

INFER = "/inference.GRPCInferenceService/ModelInfer"
WATCH = "/grpc.health.v1.Health/Watch"
OPERATOR = "operator-token-of-this-test"
EXHAUSTED, CUT_OFF = grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.CANCELLED


async def expect_service(wire: Wire, positions, *, callers: int = 10) -> None:
    """Ask from several callers at once and have every answer right."""
    states, legal = positions[0][:5], positions[1][:5]
    async with asyncio.timeout(30):
        answers = await asyncio.gather(*(wire.infer(states, legal) for _ in range(callers)))
    for _, value in answers:
        np.testing.assert_array_equal(value, expected_value(states, legal, 1))


def refused(reason: str) -> float:
    return metrics.INFERENCE_REFUSED.labels(reason=reason)._value.get()


@pytest.mark.slow
@pytest.mark.parametrize(("calls", "most_mib"), [(1_000, 100), (10_000, 512)])
async def test_concurrent_calls_beyond_the_bounds_are_refused_and_the_rest_are_answered(
    open_wire, publish, loader, positions, calls, most_mib
):
    """Calls of 20 connections on a server that takes 128 calls and 300 waiting positions, while the device stands.

    Calls that come faster than the server takes them on wait in gRPC, which cuts them off beyond a thousand or so. The
    memory is that of both ends, and most of it the callers'.
    """
    states, legal = positions[0][:10], positions[1][:10]
    request = infer_request(states, legal).SerializeToString()
    at_once = 128
    async with open_wire(max_queue_positions=300, max_concurrent_calls=at_once) as wire, AsyncExitStack() as stack:
        await wire.server.plane.registry.serve(MODEL, [publish()])
        loader.gate.clear()
        own = [("grpc.use_local_subchannel_pool", 1)]  # a connection of its own for each channel
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(wire.server.address, options=own)) for _ in range(20)
        ]
        sends = [channel.unary_unary(INFER) for channel in channels]
        before_bytes = psutil.Process().memory_info().rss
        done: Counter[grpc.StatusCode] = Counter()
        most_refused = asyncio.Event()

        async def ask(number: int) -> None:
            try:
                await sends[number % len(sends)](request, timeout=120)
                done[grpc.StatusCode.OK] += 1
            except grpc.aio.AioRpcError as failure:
                done[failure.code()] += 1
                if done[EXHAUSTED] + done[CUT_OFF] >= calls - at_once:
                    most_refused.set()

        async with asyncio.TaskGroup() as group:
            for number in range(calls):
                group.create_task(ask(number))
            await most_refused.wait()
            assert wire.waiting_rows() <= 300
            assert done[grpc.StatusCode.OK] == 0
            grown_bytes = psutil.Process().memory_info().rss - before_bytes
            loader.gate.set()
        assert set(done) <= {grpc.StatusCode.OK, EXHAUSTED, CUT_OFF}
        assert done[EXHAUSTED] > 0
        assert done[grpc.StatusCode.OK] >= 31  # the call the device held, and those whose 300 positions waited
        assert grown_bytes < most_mib << 20
        await expect_service(wire, positions)


async def test_a_caller_that_cancels_during_its_batch_does_not_affect_the_rest_of_it(wire, loader, positions):
    states, legal = positions[0][:4], positions[1][:4]
    loader.gate.clear()
    async with asyncio.TaskGroup() as group:
        leaves = group.create_task(wire.infer(states, legal))
        assert await asyncio.to_thread(loader.entered.wait, 60)
        stays = [group.create_task(wire.infer(states, legal)) for _ in range(5)]
        await until(lambda: wire.waiting_rows() == 20)
        leaves.cancel()
        loader.gate.set()
    for task in stays:
        np.testing.assert_array_equal(task.result()[1], expected_value(states, legal, 1))
    await expect_service(wire, positions)


async def test_calls_whose_deadline_has_passed_are_not_evaluated(wire, loader, positions):
    states, legal = positions[0][:4], positions[1][:4]
    answers = await asyncio.gather(*(refusal(wire.infer(states, legal, timeout_s=-1.0)) for _ in range(50)))
    assert {code for code, _ in answers} == {grpc.StatusCode.DEADLINE_EXCEEDED}
    assert wire.waiting_rows() == 0
    assert loader.networks[1].batches == []


async def test_a_call_with_a_past_deadline_in_its_header_is_not_evaluated(wire, loader, positions):
    """A client of ours would not send it; this one does."""
    async with RawConnection.open(wire.server.address) as connection:
        request = infer_request(positions[0][:4], positions[1][:4]).SerializeToString()
        connection.send(call(1, INFER, request, headers={"grpc-timeout": "0n"}))
        await asyncio.sleep(0)
        await expect_service(wire, positions, callers=1)
        assert sum(sum(batch) for batch in loader.networks[1].batches) == 5


async def test_a_client_that_does_not_read_its_reply_delays_no_other(wire, positions):
    """Its window is shut: the server may not send it one byte of 200 answers."""
    request = infer_request(positions[0][:10], positions[1][:10]).SerializeToString()
    async with RawConnection.open(wire.server.address, window=0) as slow:
        for number in range(200):
            slow.send(call(2 * number + 1, INFER, request))
        await slow.read_until(HEADERS, 200)  # every call was answered as far as the window allows
        assert slow.data_bytes == 0
        await expect_service(wire, positions)
        slow.drop()
        await expect_service(wire, positions)


async def test_a_connection_lost_during_its_calls_leaves_no_state_behind(wire, loader, positions):
    request = infer_request(positions[0][:10], positions[1][:10]).SerializeToString()
    loader.gate.clear()
    async with RawConnection.open(wire.server.address) as cut:
        for number in range(20):
            cut.send(call(2 * number + 1, INFER, request))
        assert await asyncio.to_thread(loader.entered.wait, 60)
        await until(lambda: wire.waiting_rows() > 0)
        cut.drop()
        await until(lambda: wire.waiting_rows() == 0)
        loader.gate.set()
        await expect_service(wire, positions)


async def test_calls_whose_body_never_arrives_do_not_displace_authorised_calls(open_wire, publish, positions):
    """Half-open calls, without a token, more than the server takes at once."""
    publish()
    async with open_wire(max_concurrent_calls=32, tokens=f"operator: {OPERATOR}") as wire:
        await wire.server.plane.registry.serve(MODEL, [1])
        before = refused("token")
        async with RawConnection.open(wire.server.address) as stranger:
            for number in range(200):
                stranger.send(call(2 * number + 1, INFER, None))
            await stranger.read_until(HEADERS, 200)
            assert refused("token") - before >= 200 - 32  # the rest may have met the bound on calls
            states, legal = positions[0][:5], positions[1][:5]
            metadata = (("x-zerofleet-token", OPERATOR),)
            reply = await wire.stub.ModelInfer(infer_request(states, legal), timeout=20, metadata=metadata)
            assert reply.model_version == "1"


async def test_a_flood_of_health_checks_and_watches_is_bounded_and_others_are_served(wire, positions):
    before = refused("calls")
    stub = health_pb2_grpc.HealthStub(wire.channel)
    watches = []
    for number in range(MAX_WATCHES // 2):  # the share of one address; one by one, as few requests are read at a time
        watches.append(stub.Watch(health_pb2.HealthCheckRequest(service=f"no-such-{number}"), timeout=60))
        assert (await watches[-1].read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    surplus = [stub.Watch(health_pb2.HealthCheckRequest(service="no-such"), timeout=60) for _ in range(272)]
    assert Counter([code for code, _ in await asyncio.gather(*(refusal(watch.read()) for watch in surplus))]) == {
        EXHAUSTED: 272
    }
    assert refused("calls") - before == 272
    for _ in range(5):
        check = await stub.Check(health_pb2.HealthCheckRequest(), timeout=60)
        assert check.status == health_pb2.HealthCheckResponse.SERVING
    await expect_service(wire, positions)
    for watch in watches:
        watch.cancel()
    await until(lambda: wire.server.health.watches == 0)


async def test_a_health_watcher_that_does_not_read_delays_no_change_of_status(wire, publish):
    """grpc's own servicer waits for the slowest watcher before it notes a change; a shut window would stop a swap."""
    async with RawConnection.open(wire.server.address, window=0) as deaf:
        for number in range(20):
            deaf.send(call(2 * number + 1, WATCH, health_pb2.HealthCheckRequest(service=MODEL).SerializeToString()))
        await until(lambda: wire.server.health.watches == 20)
        async with asyncio.timeout(20):
            await wire.server.plane.registry.unload(MODEL)
            await wire.server.plane.registry.serve(MODEL, [publish()])
            await wire.server.drain(0.1)


async def test_a_health_watcher_that_disconnects_does_not_affect_the_others(wire):
    stub = health_pb2_grpc.HealthStub(wire.channel)
    watches = [stub.Watch(health_pb2.HealthCheckRequest(service=MODEL), timeout=60) for _ in range(3)]
    for watch in watches:
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
    watches[0].cancel()
    await until(lambda: wire.server.health.watches == 2)
    await wire.server.plane.registry.unload(MODEL)
    for watch in watches[1:]:
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING


async def test_health_watches_end_with_their_last_status_and_do_not_delay_the_drain(wire):
    stub = health_pb2_grpc.HealthStub(wire.channel)
    watches = [stub.Watch(health_pb2.HealthCheckRequest(service=name), timeout=60) for name in ("", "no-such")]
    assert (await watches[0].read()).status == health_pb2.HealthCheckResponse.SERVING
    assert (await watches[1].read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    async with asyncio.timeout(30):
        await wire.server.drain(60.0)
    assert (await watches[0].read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
    for watch in watches:
        assert await watch.read() is grpc.aio.EOF


async def test_a_flood_of_operators_calls_without_the_token_is_refused_and_counted(open_wire, publish, positions):
    publish()
    async with open_wire(token=OPERATOR) as wire:
        await wire.server.plane.registry.serve(MODEL, [1])
        before, began_s = refused("token"), time.monotonic()
        wrong = (("x-zerofleet-token", OPERATOR[:-1]),)
        unload = messages.RepositoryModelUnloadRequest(model_name=MODEL)
        answers = await asyncio.gather(
            *(refusal(wire.stub.RepositoryModelUnload(unload, timeout=60, metadata=wrong)) for _ in range(300))
        )
        assert {code for code, _ in answers} == {grpc.StatusCode.UNAUTHENTICATED}
        assert refused("token") - before == 300
        assert time.monotonic() - began_s < 30
        await expect_service(wire, positions)


async def test_a_stranger_is_refused_after_the_operator_was_served_on_the_same_server(open_wire, publish, positions):
    publish()
    async with open_wire(tokens=f"operator: {OPERATOR}") as wire:
        await wire.server.plane.registry.serve(MODEL, [1])
        request = infer_request(positions[0][:5], positions[1][:5])
        metadata = (("x-zerofleet-token", OPERATOR),)
        for _ in range(2):
            assert (await wire.stub.ModelInfer(request, timeout=60, metadata=metadata)).model_version == "1"
            code, _ = await refusal(wire.stub.ModelInfer(request, timeout=60))
            assert code is grpc.StatusCode.UNAUTHENTICATED


async def test_connections_of_another_address_leave_room_and_are_counted(open_wire, publish, positions):
    before = metrics.GRPC_CONNECTIONS_REFUSED._value.get()
    async with open_wire(max_connections=8) as wire, asyncio.timeout(60):
        await wire.server.plane.registry.serve(MODEL, [publish()])
        host, _, port = wire.server.address.rpartition(":")
        greedy = [await asyncio.open_connection(host, int(port), local_addr=("127.0.0.2", 0)) for _ in range(10)]
        await until(lambda: metrics.GRPC_CONNECTIONS_REFUSED._value.get() == before + 6)
        await expect_service(wire, positions)
        await until(lambda: metrics.GRPC_CONNECTIONS._value.get() == 4 + 1)
        for _, writer in greedy:
            writer.transport.abort()
        await until(lambda: metrics.GRPC_CONNECTIONS._value.get() == 1)
