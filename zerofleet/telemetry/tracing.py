"""Traces: follow a game from its worker to the model trained on it. Near-zero overhead while disabled.

    with tracing.follow("game.publish", parent=game.traceparent, game_uid=game.uid) as span:   # in this process or another
        await stream.publish(...)                                                              # inside the current span
    with tracing.child("gate.load", version=7):                                                # part of the current span

Spans are those of OpenTelemetry's API. A W3C `traceparent` identifies a span across processes; it travels in gRPC metadata
and beside a game in the stream. `tracing_sdk` sets up the recording SDK; it needs the extra `traces` and is imported only
when a service's setting `trace_sample` is above 0. Nothing is recorded below an absent or unsampled parent: sampled games
and candidates start traces, calls never do.
"""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from opentelemetry import context
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from zerofleet.errors import ConfigurationError

__all__ = [
    "HEADER",
    "NO_SPAN",
    "Span",
    "SpanKind",
    "TracerProvider",
    "begin",
    "child",
    "chosen",
    "close",
    "configure",
    "current",
    "fail",
    "follow",
    "install",
    "is_on",
    "is_sampled",
    "is_told",
    "log_fields",
    "note",
    "paused",
    "readable",
    "traceparent",
    "use",
]

CLOSE_S = 3.0  # maximum wait at shutdown for an unresponsive collector
HEADER = "traceparent"
"""Key in gRPC metadata and field beside a game in the stream."""
NO_SPAN: Span = INVALID_SPAN
"""Span of unrecorded work: a no-op."""

_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_W3C = TraceContextTextMapPropagator()


class TracerProvider(Protocol):
    """Tracer provider that can be shut down: the SDK's, or a fake."""

    def get_tracer(self, name: str, /) -> Tracer:
        """Return the tracer of the named instrumentation."""
        ...

    def shutdown(self) -> None:
        """Flush recorded spans and stop recording."""
        ...


_provider: TracerProvider | None = None
_tracer: Tracer | None = None
_share = 0.0


def configure(service: str, sample: float) -> None:
    """Start recording unless `sample` is 0. Raises `ConfigurationError` when the extra is not installed."""
    if sample <= 0:
        return
    try:
        from zerofleet.telemetry.tracing_sdk import otlp_provider  # noqa: PLC0415 - an extra, and 0.2 s of imports
    except ImportError as error:
        raise ConfigurationError(
            f"trace_sample is {sample:g}, but OpenTelemetry is not installed ({error.name} is missing):"
            " pip install 'zerofleet[traces]', or set trace_sample to 0"
        ) from error
    install(otlp_provider(service), sample)


def install(provider: TracerProvider | None, sample: float) -> None:
    """Record a share `sample` of the games with a tracer of `provider`; None disables recording."""
    global _provider, _tracer, _share
    tracer = None if provider is None else provider.get_tracer("zerofleet")
    _provider, _tracer, _share = provider, tracer, sample if tracer else 0.0


def close() -> None:
    """Flush recorded spans and stop recording.

    Blocks for at most `CLOSE_S`; if the collector hangs, a daemon thread is left behind.
    """
    provider = _provider
    install(None, 0.0)
    if provider is not None:
        closing = threading.Thread(target=provider.shutdown, name="traces-close", daemon=True)
        closing.start()
        closing.join(CLOSE_S)


def is_on() -> bool:
    """Return whether recording is enabled."""
    return _tracer is not None


def chosen(uid: str) -> bool:
    """Return whether a game is sampled; decided by its uid alone, so that all processes agree."""
    return _share > 0.0 and zlib.crc32(uid.encode()) < _share * 2.0**32


def is_told(number: int) -> bool:
    """Return whether the n-th of many similar calls gets its own span: the 1st, 2nd, 4th, 8th ..."""
    return number & (number - 1) == 0


def begin(
    name: str,
    *,
    parent: str = "",
    links: Sequence[str] = (),
    kind: SpanKind = SpanKind.INTERNAL,
    began_ns: int | None = None,
    **attributes: AttributeValue,
) -> Span:
    """Start a span that the caller must `end`; without a parent it starts a trace. Return `NO_SPAN` when unrecorded."""
    if _tracer is None or (parent and not is_sampled(parent)):
        return NO_SPAN
    linked = [Link(get_current_span(_remote(link)).get_span_context()) for link in links if is_sampled(link)]
    span = _tracer.start_span(name, _remote(parent), kind, _named(attributes), linked, began_ns)
    return span if span.is_recording() else NO_SPAN


def _going_on(name: str, parent: str, kind: SpanKind, attributes: Mapping[str, AttributeValue]) -> Span:
    if _tracer is None or not is_sampled(parent):
        return NO_SPAN
    span = _tracer.start_span(name, _remote(parent), kind, _named(attributes))
    return span if span.is_recording() else NO_SPAN


@contextmanager
def use(span: Span) -> Iterator[Span]:
    """Make a span current for a block, then end it. An exception of the block is recorded as a failure."""
    if span is NO_SPAN:
        yield span
        return
    before = context.get_current()
    context.attach(set_span_in_context(span))
    try:
        yield span
    except BaseException as error:
        fail(span, error)
        raise
    finally:
        span.end()
        context.attach(before)  # not by token: a generator may be closed in a context other than the one it started in


@contextmanager
def follow(name: str, *, parent: str, kind: SpanKind = SpanKind.INTERNAL, **attributes: AttributeValue) -> Iterator[Span]:
    """Continue the trace of `parent` for a block; without a parent nothing is recorded."""
    with use(_going_on(name, parent, kind, attributes)) as span:
        yield span


@contextmanager
def child(name: str, *, kind: SpanKind = SpanKind.INTERNAL, **attributes: AttributeValue) -> Iterator[Span]:
    """Record a block as a child of the current span, if there is one."""
    with use(_going_on(name, traceparent(), kind, attributes)) as span:
        yield span


@contextmanager
def paused() -> Iterator[None]:
    """Clear the current span for a block: for work whose thousands of calls would each be recorded."""
    before = context.get_current()
    context.attach(set_span_in_context(NO_SPAN))
    try:
        yield
    finally:
        context.attach(before)


def note(span: Span | None = None, /, **attributes: AttributeValue) -> None:
    """Add attributes to a span, by default the current one, as `zerofleet.NAME`; names with a dot are kept unchanged."""
    if _tracer is not None:
        (span or get_current_span()).set_attributes(_named(attributes))


def fail(span: Span, error: BaseException) -> None:
    """Mark a span as failed. Only the class of the error is recorded; its text goes to the log."""
    span.set_status(Status(StatusCode.ERROR, type(error).__name__))


def current() -> Span:
    """Return the current span, `NO_SPAN` outside any block."""
    return get_current_span() if _tracer is not None else NO_SPAN


def traceparent(span: Span | None = None) -> str:
    """Return the traceparent of a span, by default the current one; empty when it is not recorded."""
    if _tracer is None:
        return ""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, None if span is None else set_span_in_context(span))
    return carrier.get(HEADER, "")


def readable(text: str | bytes | None) -> str:
    """Return a received traceparent as text; empty if malformed."""
    if isinstance(text, bytes):
        text = text.decode("ascii", errors="replace")
    return text if text and _TRACEPARENT.fullmatch(text) else ""


def is_sampled(traceparent: str) -> bool:
    """Return whether a traceparent is well-formed and names a recorded span."""
    return bool(readable(traceparent)) and int(traceparent[-2:], 16) & 1 == 1


def log_fields() -> dict[str, str]:
    """Return the log fields that identify the current span."""
    text = traceparent()
    return {"trace_id": text[3:35], "span_id": text[36:52]} if text else {}


def _remote(traceparent: str) -> context.Context:
    """Return a context whose current span is the remote one; an empty context for an empty traceparent."""
    return _W3C.extract({HEADER: traceparent}, context.Context()) if traceparent else context.Context()


def _named(attributes: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
    return {name if "." in name else f"zerofleet.{name}": value for name, value in attributes.items()}
