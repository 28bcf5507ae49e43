"""Traces: one game followed from its worker to the model that it taught. While they are off this costs next to nothing.

    with tracing.follow("game.publish", parent=game.traceparent, game_uid=game.uid) as span:   # its own process, or another
        await stream.publish(...)                                                              # the span is the current one
    with tracing.child("gate.load", version=7):                                                # part of the current span

Spans are those of OpenTelemetry's API. Between processes a span is named by its `traceparent`, the text of the W3C standard,
which travels in gRPC metadata and beside a game in the stream. The SDK that records is set up by `tracing_sdk` beside it,
which needs the extra `traces` and is imported only when a service's setting `trace_sample` is above 0. Nothing is recorded
below an absent or unsampled parent: sampled games and candidates begin traces, calls never do.
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

CLOSE_S = 3.0  # the most a process waits at its end for a collector that does not answer
HEADER = "traceparent"
"""Name in gRPC metadata, and of the field beside a game in the stream."""
NO_SPAN: Span = INVALID_SPAN
"""The span of work that is not recorded: without effect."""

_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_W3C = TraceContextTextMapPropagator()


class TracerProvider(Protocol):
    """Source of a tracer that can be shut down: the SDK's, or a fake."""

    def get_tracer(self, name: str, /) -> Tracer:
        """Return a tracer for the instrumentation of this name."""
        ...

    def shutdown(self) -> None:
        """Send what is recorded and record no more."""
        ...


_provider: TracerProvider | None = None
_tracer: Tracer | None = None
_share = 0.0


def configure(service: str, sample: float) -> None:
    """Record from now on, unless `sample` is 0. Raises `ConfigurationError` when the extra is not installed."""
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
    """Record with tracers of `provider`, a share `sample` of the games; None records nothing."""
    global _provider, _tracer, _share
    tracer = None if provider is None else provider.get_tracer("zerofleet")
    _provider, _tracer, _share = provider, tracer, sample if tracer else 0.0


def close() -> None:
    """Send what is recorded and record no more.

    Blocks, for `CLOSE_S` at most; a daemon thread is left behind with a collector that hangs.
    """
    provider = _provider
    install(None, 0.0)
    if provider is not None:
        closing = threading.Thread(target=provider.shutdown, name="traces-close", daemon=True)
        closing.start()
        closing.join(CLOSE_S)


def is_on() -> bool:
    """Return whether anything is recorded."""
    return _tracer is not None


def chosen(uid: str) -> bool:
    """Return whether a game is among the sampled ones; its uid alone decides, whoever asks."""
    return _share > 0.0 and zlib.crc32(uid.encode()) < _share * 2.0**32


def is_told(number: int) -> bool:
    """Return whether the so-manieth of many alike calls gets a span of its own: the 1st, 2nd, 4th, 8th ..."""
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
    """Return a span that somebody will `end`; without a parent it begins a trace. `NO_SPAN` when it is not recorded."""
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
    """Make a span the current one for a block, and end it afterwards. What the block raises is noted."""
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
        context.attach(before)  # not by a token: a generator may be closed in another context than it was begun in


@contextmanager
def follow(name: str, *, parent: str, kind: SpanKind = SpanKind.INTERNAL, **attributes: AttributeValue) -> Iterator[Span]:
    """Go on with the trace of `parent` for a block; without one nothing is recorded."""
    with use(_going_on(name, parent, kind, attributes)) as span:
        yield span


@contextmanager
def child(name: str, *, kind: SpanKind = SpanKind.INTERNAL, **attributes: AttributeValue) -> Iterator[Span]:
    """Record a block as a part of the current span, if there is one."""
    with use(_going_on(name, traceparent(), kind, attributes)) as span:
        yield span


@contextmanager
def paused() -> Iterator[None]:
    """Have no current span for a block: for work of thousands of calls that would each be recorded."""
    before = context.get_current()
    context.attach(set_span_in_context(NO_SPAN))
    try:
        yield
    finally:
        context.attach(before)


def note(span: Span | None = None, /, **attributes: AttributeValue) -> None:
    """Add attributes to a span, the current one by default; they are named `zerofleet.NAME`, those with a dot as they are."""
    if _tracer is not None:
        (span or get_current_span()).set_attributes(_named(attributes))


def fail(span: Span, error: BaseException) -> None:
    """Note that the work of a span failed. Only the class of the error is noted; the log has the text."""
    span.set_status(Status(StatusCode.ERROR, type(error).__name__))


def current() -> Span:
    """Return the span of the block we are in, `NO_SPAN` outside of any."""
    return get_current_span() if _tracer is not None else NO_SPAN


def traceparent(span: Span | None = None) -> str:
    """Return the name of a span, the current one by default, wherever its trace goes on; empty when it is not recorded."""
    if _tracer is None:
        return ""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, None if span is None else set_span_in_context(span))
    return carrier.get(HEADER, "")


def readable(text: str | bytes | None) -> str:
    """Return a traceparent that came from elsewhere; empty for a malformed one."""
    if isinstance(text, bytes):
        text = text.decode("ascii", errors="replace")
    return text if text and _TRACEPARENT.fullmatch(text) else ""


def is_sampled(traceparent: str) -> bool:
    """Return whether a traceparent is well-formed and names a span that is recorded."""
    return bool(readable(traceparent)) and int(traceparent[-2:], 16) & 1 == 1


def log_fields() -> dict[str, str]:
    """Return the fields of a log line that name the current span."""
    text = traceparent()
    return {"trace_id": text[3:35], "span_id": text[36:52]} if text else {}


def _remote(traceparent: str) -> context.Context:
    """Return a context whose current span is that of another process; an empty one for no name."""
    return _W3C.extract({HEADER: traceparent}, context.Context()) if traceparent else context.Context()


def _named(attributes: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
    return {name if "." in name else f"zerofleet.{name}": value for name, value in attributes.items()}
