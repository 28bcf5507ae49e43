"""P10 in one process: bounds of queues, refusals at once, and the pauses of clients that were refused."""

from __future__ import annotations

import asyncio
import itertools
import random
from contextlib import AsyncExitStack
from types import SimpleNamespace

import grpc
import numpy as np
import pytest
from promise_tools import borrowed, record

from inference_server.admission import AdmissionInterceptor
from inference_server.batcher import Batcher
from inference_server.queueing import RequestQueue
from selfplay_worker.game_register import FinishedGame
from selfplay_worker.publisher import Publisher
from zerofleet.contracts.priorities import HIGH_PRIORITY_HEADER, PRIORITY_HEADER, Priority
from zerofleet.errors import Overloaded
from zerofleet.evaluators import kserve
from zerofleet.evaluators.base import LeafBatch
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.rpc.backoff import Backoff
from zerofleet.rpc.calls import FIRST_BACKOFF_S, MAX_BACKOFF_S
from zerofleet.rpc.security import connections as module_of_connections
from zerofleet.rpc.security.bounded_calls import BoundedCalls
from zerofleet.rpc.security.connections import Connections
from zerofleet.rpc.security.limits import server_limits
from zerofleet.rpc.security.shares import Shares

batching = borrowed("promise_batching", "inference_server/test_batcher.py")
fakes = borrowed("promise_worker", "selfplay_worker/conftest.py")
METHOD = "/inference.GRPCInferenceService/ModelInfer"


async def test_p10_a_full_queue_refuses_at_once_and_stays_bounded():
    echo = batching.Echo()
    async with (
        asyncio.timeout(60),
        Batcher(RequestQueue(max_batch=64, max_delay_s=0.0, max_rows=100)) as batcher,
        asyncio.TaskGroup() as group,
    ):
        await batching.occupy(batcher, echo, group)
        waiting = [group.create_task(batching.ask(batcher, echo, 1, rows=25)) for _ in range(4)]
        await asyncio.sleep(0)
        assert batcher.full(Priority.LOW) is None
        for _ in range(3):
            with pytest.raises(Overloaded):
                await batching.ask(batcher, echo, 2, rows=1)
            assert batcher.waiting_rows == 100
            assert batcher.full(Priority.LOW) is not None
        echo.gate.set()
        await asyncio.wait(waiting)
        assert batcher.full(Priority.LOW) is None
        assert (await batching.ask(batcher, echo, 3, rows=1)).output[1][0, 0] == 3


async def test_p10_a_queue_that_self_play_fills_has_bounded_room_for_high_priority():
    echo = batching.Echo()
    async with (
        asyncio.timeout(60),
        Batcher(RequestQueue(max_batch=64, max_delay_s=0.0, max_rows=80)) as batcher,
        asyncio.TaskGroup() as group,
    ):
        await batching.occupy(batcher, echo, group)
        group.create_task(batching.ask(batcher, echo, 1, rows=80))
        await asyncio.sleep(0)
        person = group.create_task(batching.ask(batcher, echo, 2, rows=10, priority=Priority.HIGH))
        await asyncio.sleep(0)
        assert (person.done(), batcher.waiting_rows) == (False, 90)
        with pytest.raises(Overloaded):
            await batching.ask(batcher, echo, 3, rows=1, priority=Priority.HIGH)
        echo.gate.set()
        assert (await person).output[1][0, 0] == 2


async def test_p10_while_the_queue_is_full_calls_are_refused_before_their_request_is_read():
    full, reached = {Priority.LOW: "the queue is full", Priority.HIGH: None}, []

    async def continuation(details):
        reached.append(details.method)
        return "the handler"

    async def asked(method: str, *headers: tuple[str, str]):
        details = SimpleNamespace(method=method, invocation_metadata=headers)
        return await interceptor.intercept_service(continuation, details)

    interceptor = AdmissionInterceptor(full.get)
    assert await asked(METHOD) is interceptor._refusal
    assert interceptor._refusal.request_streaming  # grpc reads no message before the handler asks for one
    assert (await asked("/grpc.health.v1.Health/Check"), reached) == ("the handler", ["/grpc.health.v1.Health/Check"])
    assert await asked(METHOD, (PRIORITY_HEADER, "2")) is interceptor._refusal
    assert await asked(METHOD, HIGH_PRIORITY_HEADER) == "the handler"
    full[Priority.HIGH] = "the queue is full"
    assert await asked(METHOD, HIGH_PRIORITY_HEADER) is interceptor._refusal
    full[Priority.LOW] = None
    assert await asked(METHOD) == "the handler"


def test_p10_one_peer_cannot_take_all_of_a_resource():
    shares = Shares(100)
    assert sum(shares.take("greedy") for _ in range(100)) == 50
    assert shares.take("newcomer")
    assert sum(shares.take(None) for _ in range(100)) == 49
    assert shares.taken == shares.total
    assert not shares.take("another")


async def test_p10_one_peer_cannot_take_all_connections(monkeypatch):
    async def answer(request: bytes, context: object) -> bytes:
        return b"answer"

    monkeypatch.setattr(module_of_connections, "LOOK_S", 0.01)
    connections = Connections(8)
    bounds = BoundedCalls(message_bytes=100, bytes_in_flight=1000, calls=8, long_lived={}, connections=connections)
    limits = server_limits(receive_bytes=100, send_bytes=100, connections=connections.accepted_by_grpc)
    server = grpc.aio.server(interceptors=[bounds], options=limits)
    handlers = {"Ask": grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("any.Service", handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    followed = asyncio.create_task(connections.follow(f"127.0.0.1:{port}"))
    own, codes = [("grpc.use_local_subchannel_pool", 1)], []
    async with asyncio.timeout(60), AsyncExitStack() as stack:
        stack.push_async_callback(server.stop, None)
        stack.callback(followed.cancel)
        for _ in range(6):  # from this address, each with a call
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=own))
            codes.append(await channel.unary_unary("/any.Service/Ask")(b"").code())
        assert codes == [grpc.StatusCode.OK] * 4 + [grpc.StatusCode.RESOURCE_EXHAUSTED] * 2
        idle = [await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0)) for _ in range(4)]
        reads = [asyncio.create_task(reader.read()) for reader, _ in idle]
        for ended in itertools.islice(asyncio.as_completed(reads), 2):  # beyond the share of their address
            await ended
        assert sum(read.done() for read in reads) == 2
        for read in reads:
            read.cancel()
        for _, writer in idle:
            writer.transport.abort()


async def test_p10_games_that_the_stream_does_not_take_pause_the_lanes():
    stream = fakes.MemoryStream()
    stream.open.clear()
    publisher = Publisher(stream, "tic_tac_toe", capacity=3, rng=random.Random(0))
    async with asyncio.timeout(60):
        await publisher.room()
        for number in range(3):
            publisher.hand_over(FinishedGame(*record(number)))
        waiting = asyncio.create_task(publisher.room())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()
        running = asyncio.create_task(publisher.run())
        stream.open.set()
        await waiting
        await publisher.flush()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(stream.published) == 3


def test_p10_pauses_double_up_to_a_bound_and_are_spread_by_jitter():
    backoff = Backoff(0.1, 1.0, rng=None)
    limits = [backoff.next_s() for _ in range(6)]
    assert limits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    drawn = np.array([_series(seed) for seed in range(200)])
    assert (drawn <= limits).all()
    assert len({round(pause, 9) for pause in drawn[:, 0]}) == len(drawn)  # no two clients come back together
    assert (drawn.min(axis=0) < 0.1 * np.array(limits)).all()  # spread over the whole span
    assert (drawn.max(axis=0) > 0.9 * np.array(limits)).all()


def _series(seed: int) -> list[float]:
    backoff = Backoff(0.1, 1.0, rng=random.Random(seed), least_share=0.0)
    return [backoff.next_s() for _ in range(6)]


class Refusing:
    """Server that refuses the first calls as overloaded; counts those in progress."""

    def __init__(self, refusals: int) -> None:
        self.left, self.calls, self.most = refusals, 0, 0
        self.held = asyncio.Event()
        self.held.set()

    async def ModelInfer(self, request, **options):
        self.calls += 1
        self.most = max(self.most, self.calls)
        try:
            await self.held.wait()
            if self.left:
                self.left -= 1
                empty = grpc.aio.Metadata()
                raise grpc.aio.AioRpcError(grpc.StatusCode.RESOURCE_EXHAUSTED, empty, empty, "full")
            return request
        finally:
            self.calls -= 1


BATCH = LeafBatch(np.zeros((1, 3), np.uint8), np.zeros((1, 9), np.int16))


@pytest.fixture
def any_reply(monkeypatch):
    """Let the client accept the reply of `Refusing`, which is no evaluation."""
    arrays = [np.zeros((1, 9), np.float16), np.zeros((1, 2), np.float32)]
    monkeypatch.setattr(kserve, "_read_reply", lambda reply, request: arrays)


async def test_p10_a_refused_client_comes_back_after_pauses_that_grow(monkeypatch, any_reply):
    pauses, turn = [], asyncio.sleep

    async def pause(seconds):
        pauses.append(seconds)
        await turn(0)

    async with KServeEvaluator("127.0.0.1:1", "tic_tac_toe", rng=random.Random(1)) as evaluator:
        evaluator._stub = Refusing(6)
        monkeypatch.setattr(kserve.asyncio, "sleep", pause)
        await evaluator.evaluate(BATCH, version=1)
        monkeypatch.undo()
    limits = [min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2**number) for number in range(6)]
    assert len(pauses) == 6
    assert all(0 < drawn <= limit for drawn, limit in zip(pauses, limits, strict=True))
    assert sum(pauses) > 0.2 * sum(limits)


async def test_p10_a_client_has_a_bounded_number_of_requests_in_flight(any_reply):
    async with asyncio.timeout(60), KServeEvaluator("127.0.0.1:1", "tic_tac_toe") as evaluator:
        evaluator._stub = server = Refusing(0)
        server.held.clear()
        asked = [asyncio.create_task(evaluator.evaluate(BATCH, version=1)) for _ in range(3 * 64)]
        for _ in range(10):
            await asyncio.sleep(0)
        assert server.calls == 64
        server.held.set()
        await asyncio.gather(*asked)
        assert server.most == 64
