"""What every call of our gRPC servers has: an id, a count under the standard names, and a line when it is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import LogCapture
from structlog.types import EventDict

from zerofleet.errors import InvalidRequest, Overloaded, Unavailable, ZerofleetError
from zerofleet.rpc.call_metrics import CallMetrics
from zerofleet.rpc.errors import ErrorInterceptor
from zerofleet.rpc.failures import REQUEST_ID, error_from
from zerofleet.rpc.requests import RequestInterceptor, outgoing
from zerofleet.service.logs import placed
from zerofleet.telemetry import metrics, tracing
from zerofleet.telemetry.tracing_sdk import otlp_provider

SERVICE = "test.Requests"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
log = structlog.get_logger()


@pytest.fixture
def lines() -> Iterator[list[EventDict]]:
    """Every log line, with what is bound to its context."""
    capture, kept = LogCapture(), structlog.get_config()
    structlog.configure(processors=[placed, capture])
    yield capture.entries
    structlog.configure(**kept)


async def _one(request: bytes, context: Any) -> bytes:
    log.info("answering", asked=request)
    if request == b"refuse":
        raise InvalidRequest("that is no request")
    if request == b"full":
        raise Overloaded("try again later")
    if request == b"down":
        raise Unavailable("version 3 was not self-tested")
    if request == b"search on":
        await asyncio.Event().wait()
    if request == b"break":
        raise RuntimeError("inside")
    return dict(outgoing(())).get(REQUEST_ID, "").encode()


async def _several(request: bytes, context: Any) -> AsyncIterator[bytes]:
    for _ in range(2):
        yield await _one(request, context)


async def _all(requests: AsyncIterator[bytes], context: Any) -> bytes:
    return b"".join([request async for request in requests])


async def _each(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    async for request in requests:
        yield await _one(request, context)


@asynccontextmanager
async def serving() -> AsyncIterator[grpc.aio.Channel]:
    server = grpc.aio.server(interceptors=[RequestInterceptor(clock=lambda: 0.0), CallMetrics(), ErrorInterceptor()])
    methods = {
        "One": grpc.unary_unary_rpc_method_handler(_one),
        "Several": grpc.unary_stream_rpc_method_handler(_several),
        "All": grpc.stream_unary_rpc_method_handler(_all),
        "Each": grpc.stream_stream_rpc_method_handler(_each),
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, methods)])
    health_pb2_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(None)


async def ask(channel: grpc.aio.Channel, request: bytes = b"", **metadata: str) -> tuple[bytes, str]:
    """Return the answer of `One` and the id in its trailing metadata."""
    given = tuple((name.replace("_", "-"), value) for name, value in metadata.items())
    call = channel.unary_unary(f"/{SERVICE}/One")(request, metadata=given, timeout=20)
    answer = await call
    return answer, dict(await call.trailing_metadata())[REQUEST_ID]


async def test_a_call_keeps_the_id_its_client_gave(lines: list[EventDict]) -> None:
    async with serving() as channel:
        assert await ask(channel, x_request_id="job-7/a") == (b"job-7/a", "job-7/a")
    line = next(line for line in lines if line["event"] == "answering")
    assert (line["request_id"], line["rpc"]) == ("job-7/a", f"/{SERVICE}/One")


@pytest.mark.parametrize("given", ["", "x" * 65, "with space", 'quote"'])
async def test_a_call_without_a_sensible_id_is_given_one(given: str) -> None:
    async with serving() as channel:
        metadata = {"x_request_id": given} if given else {}
        (first, trailing), (second, _) = await ask(channel, **metadata), await ask(channel, **metadata)
    assert first.decode() == trailing
    assert len(first) == len(second) == 16
    assert first != second


async def test_calls_at_once_do_not_mix_up_their_ids(lines: list[EventDict]) -> None:
    async with serving() as channel:
        calls = [channel.stream_stream(f"/{SERVICE}/Each")(metadata=((REQUEST_ID, f"id-{i}"),), timeout=20) for i in range(4)]
        for _ in range(3):
            for call in calls:
                await call.write(b"x")
        for i, call in enumerate(calls):
            await call.done_writing()
            assert [reply async for reply in call] == [f"id-{i}".encode()] * 3


async def test_a_refusal_is_logged_under_its_id_and_a_failure_of_ours_names_the_request(lines: list[EventDict]) -> None:
    async with serving() as channel:
        for request in (b"refuse", b"break"):
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await ask(channel, request, x_request_id="mine")
            assert dict(raised.value.trailing_metadata() or ())[REQUEST_ID] == "mine"
        assert "(request mine)" in str(error_from(raised.value, target="x"))
        assert type(error_from(raised.value, target="x")) is ZerofleetError
    refused = next(line for line in lines if line["event"] == "rpc.refused")
    assert (refused["request_id"], refused["code"], refused["text"]) == ("mine", "INVALID_ARGUMENT", "that is no request")
    failed = next(line for line in lines if line["event"] == "rpc.failed")
    assert failed["request_id"] == "mine"
    assert sum(line["event"] == "rpc.refused" for line in lines) == 1


async def test_an_unavailable_answer_keeps_the_text_of_the_server_that_sent_it() -> None:
    async with serving() as channel:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await ask(channel, b"down")
    error = error_from(raised.value, target="x")
    assert type(error) is Unavailable
    assert str(error) == "version 3 was not self-tested"


async def test_a_server_that_cannot_be_reached_is_named() -> None:
    async with grpc.aio.insecure_channel("127.0.0.1:1") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await ask(channel)
    error = error_from(raised.value, target="x")
    assert type(error) is Unavailable
    assert str(error).startswith("x does not answer (UNAVAILABLE: ")
    assert str(error).endswith("is it running?")


async def test_a_server_that_is_still_at_work_at_the_deadline_may_need_more_time() -> None:
    async with serving() as channel:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await channel.unary_unary(f"/{SERVICE}/One")(b"search on", timeout=0.001)
    error = error_from(raised.value, target="x")
    assert type(error) is Unavailable
    assert str(error).startswith("x does not answer in time (")
    assert str(error).endswith("is the time limit long enough?")


async def test_a_flood_of_refusals_is_a_few_lines(lines: list[EventDict]) -> None:
    async with serving() as channel:
        for request in [b"full"] * 50 + [b"refuse"]:
            with pytest.raises(grpc.aio.AioRpcError):
                await ask(channel, request)
    codes = [line["code"] for line in lines if line["event"] == "rpc.refused"]
    assert codes == ["RESOURCE_EXHAUSTED"] * 5 + ["INVALID_ARGUMENT"]


def test_what_was_left_out_is_told_later(lines: list[EventDict]) -> None:
    now_s = [0.0]
    interceptor = RequestInterceptor(lines_a_second=2, clock=lambda: now_s[0])
    for second in (0.0, 0.1, 0.2, 0.3, 1.0):
        now_s[0] = second
        interceptor.log_refusal(grpc.StatusCode.NOT_FOUND, "no")
    assert [line["left_out"] for line in lines] == [0, 0, 2]


def counted(name: str, **labels: str) -> float:
    metric = {"started": metrics.GRPC_STARTED, "handled": metrics.GRPC_HANDLED}[name]
    return float(metric.labels(**labels)._value.get())


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("One", "UNARY"),
        ("Several", "SERVER_STREAMING"),
        ("All", "CLIENT_STREAMING"),
        ("Each", "BIDI_STREAMING"),
    ],
)
async def test_calls_of_every_shape_are_counted(method: str, kind: str) -> None:
    labels = {"grpc_type": kind, "grpc_service": SERVICE, "grpc_method": method}
    before = counted("started", **labels), counted("handled", **labels, grpc_code="OK")
    async with serving() as channel:
        if method == "One":
            await ask(channel)
        elif kind == "SERVER_STREAMING":
            assert len([reply async for reply in channel.unary_stream(f"/{SERVICE}/Several")(b"", timeout=20)]) == 2
        elif method == "All":
            assert await channel.stream_unary(f"/{SERVICE}/All")(iter([b"a", b"b"]), timeout=20) == b"ab"
        else:
            call = channel.stream_stream(f"/{SERVICE}/Each")(iter([b"a", b"b"]), timeout=20)
            assert len([reply async for reply in call]) == 2
    assert (counted("started", **labels), counted("handled", **labels, grpc_code="OK")) == (before[0] + 1, before[1] + 1)
    seconds = next(iter(metrics.GRPC_HANDLING.labels(**labels).collect()), None)
    assert seconds is not None


async def test_health_is_counted_too_and_gets_no_id() -> None:
    labels = {"grpc_service": "grpc.health.v1.Health"}
    check = {"grpc_type": "UNARY", **labels, "grpc_method": "Check"}
    watch = {"grpc_type": "SERVER_STREAMING", **labels, "grpc_method": "Watch"}
    before = counted("started", **check), counted("started", **watch)
    async with serving() as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        call = stub.Check(health_pb2.HealthCheckRequest())
        assert (await call).status == health_pb2.HealthCheckResponse.SERVING
        assert REQUEST_ID not in dict(await call.trailing_metadata())
        watching = stub.Watch(health_pb2.HealthCheckRequest())
        assert (await watching.read()).status == health_pb2.HealthCheckResponse.SERVING
        watching.cancel()
    assert (counted("started", **check), counted("started", **watch)) == (before[0] + 1, before[1] + 1)


async def test_a_call_is_recorded_where_its_caller_records_one_and_else_not() -> None:
    exporter = InMemorySpanExporter()
    tracing.install(otlp_provider("server", SimpleSpanProcessor(exporter)), 1.0)
    try:
        async with serving() as channel:
            await ask(channel)
            await ask(channel, traceparent=PARENT[:-1] + "0")
            await ask(channel, traceparent="nonsense")
            assert exporter.get_finished_spans() == ()
            await ask(channel, traceparent=PARENT, x_request_id="mine")
            with pytest.raises(grpc.aio.AioRpcError):
                await ask(channel, b"refuse", traceparent=PARENT)
    finally:
        tracing.install(None, 0.0)
    good, bad = exporter.get_finished_spans()
    assert good.name == bad.name == f"{SERVICE}/One"
    assert good.parent is not None
    assert f"{good.parent.span_id:016x}" == PARENT[36:52]
    assert (good.attributes or {})["zerofleet.request_id"] == "mine"
    assert (bad.attributes or {})["rpc.grpc.status_code"] == grpc.StatusCode.INVALID_ARGUMENT.value[0]
