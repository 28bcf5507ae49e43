"""The seam to OpenTelemetry: nothing while it is off, W3C names while it is on."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Iterator
from typing import ClassVar

import pytest
import structlog
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracer, Tracer

from zerofleet.errors import ConfigurationError
from zerofleet.rpc.requests import outgoing
from zerofleet.service import logs
from zerofleet.service.lifecycle import Service, serve_until_drained
from zerofleet.service.settings import ServiceSettings
from zerofleet.telemetry import tracing
from zerofleet.telemetry.tracing_sdk import otlp_provider

SAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = SAMPLED[:-1] + "0"


class LoopSettings(ServiceSettings):
    SERVICE: ClassVar[str] = "trainer"


@pytest.fixture(autouse=True)
def _off_again() -> Iterator[None]:
    yield
    tracing.install(None, 0.0)


@pytest.fixture
def memory() -> InMemorySpanExporter:
    """What is recorded in this process, from here on."""
    exporter = InMemorySpanExporter()
    tracing.install(otlp_provider("trainer", SimpleSpanProcessor(exporter)), 1.0)
    return exporter


def spans(memory: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in memory.get_finished_spans()}


def test_nothing_happens_while_it_is_off() -> None:
    assert not tracing.is_on()
    assert not tracing.chosen("0" * 32)
    assert tracing.begin("game") is tracing.NO_SPAN
    with tracing.follow("game.publish", parent=SAMPLED) as span, tracing.child("inner") as inner:
        assert span is inner is tracing.NO_SPAN
        assert outgoing((("a", "b"),)) == (("a", "b"),)
        tracing.note(span, a=1)
        tracing.note(a=1)
        span.end()
    assert tracing.log_fields() == {}


def test_a_span_is_followed_elsewhere_by_its_name(memory: InMemorySpanExporter) -> None:
    game = tracing.begin("game", game_uid="u")
    with tracing.follow("game.publish", parent=tracing.traceparent(game), kind=tracing.SpanKind.PRODUCER):
        travelled = dict(outgoing(()))["traceparent"]
        with tracing.child("inner", **{"rpc.method": "x"}):
            pass
    with tracing.follow("game.intake", parent=travelled):
        pass
    game.end()
    found = spans(memory)
    parents = {name: span.parent.span_id if span.parent else None for name, span in found.items()}
    ids = {name: span.context.span_id for name, span in found.items()}
    assert parents == {
        "game": None,
        "game.publish": ids["game"],
        "inner": ids["game.publish"],
        "game.intake": ids["game.publish"],
    }
    assert dict(found["game"].attributes or {}) == {"zerofleet.game_uid": "u"}
    assert dict(found["inner"].attributes or {}) == {"rpc.method": "x"}
    assert found["game"].resource.attributes["service.name"] == "trainer"


@pytest.mark.parametrize("parent", ["", UNSAMPLED, "garbage", SAMPLED.replace("0af7", "0AF7"), "00-" + "0" * 32 + SAMPLED[35:]])
def test_what_has_no_sampled_parent_is_not_recorded(memory: InMemorySpanExporter, parent: str) -> None:
    with tracing.follow("game.publish", parent=parent) as span:
        assert span is tracing.NO_SPAN
    assert memory.get_finished_spans() == ()


def test_a_failure_is_noted_by_its_class_alone_and_the_span_before_is_current_again(memory: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="secret"), tracing.follow("work", parent=SAMPLED):
        raise ValueError("secret")
    status = spans(memory)["work"].status
    assert (status.status_code.name, status.description) == ("ERROR", "ValueError")
    assert "secret" not in spans(memory)["work"].to_json()
    assert tracing.current() is tracing.NO_SPAN


async def test_calls_while_it_is_paused_are_not_recorded(memory: InMemorySpanExporter) -> None:
    async def call() -> tuple[tuple[str, str], ...]:
        return outgoing(())

    with tracing.follow("gate.match", parent=SAMPLED):
        with tracing.paused():
            assert await asyncio.create_task(call()) == ()
        assert await asyncio.create_task(call()) != ()


def test_links_are_to_sampled_spans_alone_and_times_may_be_past(memory: InMemorySpanExporter) -> None:
    tracing.begin("candidate", links=[SAMPLED, UNSAMPLED, "x"], began_ns=1_000).end(3_000)
    span = spans(memory)["candidate"]
    assert [f"{link.context.trace_id:032x}" for link in span.links] == [SAMPLED[3:35]]
    assert (span.start_time, span.end_time) == (1_000, 3_000)


def test_a_share_of_the_games_is_chosen_by_their_uids_alone() -> None:
    class Nothing:
        def get_tracer(self, name: str, /) -> Tracer:
            return NoOpTracer()

        def shutdown(self) -> None:
            """Nothing is held."""

    uids = [f"{number:032x}" for number in range(20_000)]
    tracing.install(Nothing(), 0.1)
    first = [uid for uid in uids if tracing.chosen(uid)]
    assert 1_800 < len(first) < 2_200
    assert first == [uid for uid in uids if tracing.chosen(uid)]
    tracing.install(Nothing(), 1.0)
    assert all(map(tracing.chosen, uids))


def test_of_many_alike_calls_ever_fewer_are_told() -> None:
    assert [number for number in range(1, 100) if tracing.is_told(number)] == [1, 2, 4, 8, 16, 32, 64]


def test_a_log_line_names_the_span_it_was_written_in(memory: InMemorySpanExporter, capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level, kept = root.handlers[:], root.level, structlog.get_config()
    try:
        logs.configure("info", "json", "trainer")
        with tracing.follow("work", parent=SAMPLED):
            named = tracing.traceparent()
            structlog.get_logger().info("inside")
        structlog.get_logger().info("outside")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.configure(**kept)
    inside, outside = map(json.loads, capsys.readouterr().err.splitlines())
    assert (inside["trace_id"], inside["span_id"]) == (SAMPLED[3:35], named[36:52])
    assert "trace_id" not in outside


def test_the_standards_variables_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    exporter = InMemorySpanExporter()
    tracing.install(otlp_provider("trainer", SimpleSpanProcessor(exporter)), 1.0)
    tracing.begin("game").end()
    about = spans(exporter)["game"].resource.attributes
    assert (about["service.name"], about["deployment.environment"]) == ("mine", "test")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    tracing.install(otlp_provider("trainer", SimpleSpanProcessor(exporter)), 1.0)
    assert tracing.begin("game") is tracing.NO_SPAN
    monkeypatch.delenv("OTEL_SDK_DISABLED")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    tracing.install(otlp_provider("trainer", SimpleSpanProcessor(exporter)), 1.0)
    assert tracing.begin("game") is tracing.NO_SPAN


def test_sampling_without_the_extra_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    monkeypatch.delitem(sys.modules, "zerofleet.telemetry.tracing_sdk")
    for name in [name for name in sys.modules if name.startswith(("opentelemetry.sdk.", "opentelemetry.exporter"))]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ConfigurationError, match=r"pip install 'zerofleet\[traces\]'"):
        tracing.configure("trainer", 0.01)
    tracing.configure("trainer", 0.0)
    assert not tracing.is_on()


async def test_a_service_that_shall_sample_and_cannot_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main(service: Service) -> None:
        service.ready()

    monkeypatch.setitem(sys.modules, "zerofleet.telemetry.tracing_sdk", None)
    assert await serve_until_drained(main, LoopSettings(trace_sample=0.5)) == 2
    assert "pip install 'zerofleet[traces]'" in capsys.readouterr().err


def test_a_collector_that_does_not_answer_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "CLOSE_S", 0.05)
    hangs = InMemorySpanExporter()
    asked: list[float] = []

    class Slow(SimpleSpanProcessor):
        def shutdown(self) -> None:
            asked.append(0.0)
            blocked.wait(10)

    import threading  # noqa: PLC0415

    blocked = threading.Event()
    tracing.install(otlp_provider("trainer", Slow(hangs)), 1.0)
    tracing.close()
    assert asked
    assert not tracing.is_on()
    blocked.set()
