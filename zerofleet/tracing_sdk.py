"""Spans recorded with OpenTelemetry's SDK and sent to a collector over OTLP (gRPC). Needs the extra `traces`.

Where to and how is told by the variables of the OpenTelemetry standard, which the SDK reads itself: `OTEL_SERVICE_NAME`,
`OTEL_RESOURCE_ATTRIBUTES`, `OTEL_EXPORTER_OTLP_*`, `OTEL_BSP_*`, `OTEL_SPAN_*`, `OTEL_TRACES_SAMPLER`, `OTEL_SDK_DISABLED`.
Spans wait in a bounded queue for a thread of their own; while the collector is away the oldest of them are lost.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping, Sequence
from importlib import metadata

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from opentelemetry.trace import Span as SdkSpan

from zerofleet.tracing import NO_SPAN, Attribute, Kind, Span

__all__ = ["OtlpRecorder", "RecordedSpan"]

_KINDS: Mapping[Kind, SpanKind] = {
    "internal": SpanKind.INTERNAL,
    "server": SpanKind.SERVER,
    "client": SpanKind.CLIENT,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
}


class RecordedSpan(Span):
    """A span of the SDK."""

    def __init__(self, span: SdkSpan) -> None:
        self._span = span
        context = span.get_span_context()
        self.traceparent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"

    def note(self, **attributes: Attribute) -> None:
        """See `Span.note`."""
        self._span.set_attributes(_named(attributes))

    def event(self, name: str, **attributes: Attribute) -> None:
        """See `Span.event`."""
        self._span.add_event(name, _named(attributes))

    def fail(self, error: BaseException) -> None:
        """See `Span.fail`. Only its class is noted; the log has the text."""
        self._span.set_status(Status(StatusCode.ERROR, type(error).__name__))

    def end(self, *, at_ns: int | None = None) -> None:
        """See `Span.end`."""
        self._span.end(at_ns)


class OtlpRecorder:
    """Records spans of one service and sends them where the standard's variables say."""

    def __init__(self, service: str, processor: SpanProcessor | None = None) -> None:
        """`processor` replaces the sending in tests."""
        about = Resource.create(
            {
                "service.name": service,
                "service.namespace": "zerofleet",
                "service.version": metadata.version("zerofleet"),
                "service.instance.id": f"{socket.gethostname()}-{os.getpid()}",
            }
        )
        self._provider = TracerProvider(resource=about.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
        self._provider.add_span_processor(processor or BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("zerofleet", metadata.version("zerofleet"))

    def begin(
        self,
        name: str,
        *,
        parent: str,
        links: Sequence[str],
        kind: Kind,
        began_ns: int | None,
        attributes: dict[str, Attribute],
    ) -> Span:
        """See `Recorder.begin`."""
        span = self._tracer.start_span(
            name,
            context=set_span_in_context(NonRecordingSpan(_context_of(parent)) if parent else NonRecordingSpan(_NOWHERE)),
            kind=_KINDS[kind],
            attributes=_named(attributes),
            links=[Link(_context_of(link)) for link in links],
            start_time=began_ns,
        )
        return RecordedSpan(span) if span.is_recording() else NO_SPAN

    def close(self, timeout_s: float) -> None:
        """See `Recorder.close`. A collector that hangs is left behind with a daemon thread."""
        closing = threading.Thread(target=self._provider.shutdown, name="traces-close", daemon=True)
        closing.start()
        closing.join(timeout_s)


_NOWHERE = SpanContext(0, 0, is_remote=False)


def _context_of(traceparent: str) -> SpanContext:
    _, trace_id, span_id, flags = traceparent.split("-")
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))


def _named(attributes: Mapping[str, Attribute]) -> dict[str, Attribute]:
    return {name if "." in name else f"zerofleet.{name}": value for name, value in attributes.items()}
