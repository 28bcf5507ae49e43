"""Traces: one game followed from its worker to the model that it taught. While they are off this costs next to nothing.

    with tracing.follow("game.publish", parent=game.traceparent, game_uid=game.uid) as span:   # its own process, or another
        await stream.publish(...)                                                              # the span is the current one
    with tracing.child("gate.load", version=7):                                                # part of the current span

A span is known everywhere by its `traceparent`, the text of the W3C standard, which travels in gRPC metadata and beside
a game in the stream. What it is recorded with is `zerofleet.tracing_sdk`, which needs the extra `traces` and is imported only
when a service's setting `trace_sample` is above 0. Nothing is recorded below an absent or unsampled parent, so it is the
sampled games and the candidates that make traces, and no call ever makes one of its own.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, Protocol, TypeAlias

from zerofleet.errors import ConfigurationError

__all__ = [
    "NO_SPAN",
    "Attribute",
    "Kind",
    "Recorder",
    "Span",
    "begin",
    "child",
    "chosen",
    "close",
    "configure",
    "current",
    "follow",
    "install",
    "is_on",
    "is_sampled",
    "is_told",
    "log_fields",
    "paused",
    "readable",
    "traceparent",
    "use",
]

CLOSE_S = 3.0  # the most a process waits at its end for a collector that does not answer
HEADER = "traceparent"
"""Name in gRPC metadata, and of the field beside a game in the stream."""

Attribute: TypeAlias = str | bool | int | float | Sequence[str]
Kind: TypeAlias = Literal["internal", "server", "client", "producer", "consumer"]

_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class Span:
    """A piece of work that is recorded; this class itself is the one that is not: false, and without effect."""

    traceparent: str = ""
    """What names the span wherever its trace goes on; empty when it is not recorded."""

    def __bool__(self) -> bool:
        return bool(self.traceparent)

    def note(self, **attributes: Attribute) -> None:
        """Add attributes; they are named `zerofleet.NAME`, those with a dot as they are."""

    def event(self, name: str, **attributes: Attribute) -> None:
        """Note that something happened just now."""

    def fail(self, error: BaseException) -> None:
        """Note that the work failed."""

    def end(self, *, at_ns: int | None = None) -> None:
        """End it, now or at a time since 1970; what is noted later is lost."""


NO_SPAN = Span()


class Recorder(Protocol):
    """What records spans: `zerofleet.tracing_sdk.OtlpRecorder`, or a fake."""

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
        """Return a span that has begun; a root for an empty `parent`."""
        ...

    def close(self, timeout_s: float) -> None:
        """Send what is recorded, for at most so long."""
        ...


_recorder: Recorder | None = None
_share = 0.0
_current: ContextVar[Span] = ContextVar("zerofleet_span", default=NO_SPAN)


def configure(service: str, sample: float) -> None:
    """Record from now on, unless `sample` is 0. Raises `ConfigurationError` when the extra is not installed."""
    if sample <= 0:
        return
    try:
        from zerofleet.tracing_sdk import OtlpRecorder  # noqa: PLC0415 - an extra, and 0.2 s of imports
    except ImportError as error:
        raise ConfigurationError(
            f"trace_sample is {sample:g}, but OpenTelemetry is not installed ({error.name} is missing):"
            " pip install 'zerofleet[traces]', or set trace_sample to 0"
        ) from error
    install(OtlpRecorder(service), sample)


def install(recorder: Recorder | None, sample: float) -> None:
    """Record with `recorder`, a share `sample` of the games; None records nothing."""
    global _recorder, _share
    _recorder, _share = recorder, sample if recorder is not None else 0.0


def close() -> None:
    """Send what is recorded and record no more. Blocks, for `CLOSE_S` at most."""
    recorder = _recorder
    install(None, 0.0)
    if recorder is not None:
        recorder.close(CLOSE_S)


def is_on() -> bool:
    """Return whether anything is recorded."""
    return _recorder is not None


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
    kind: Kind = "internal",
    began_ns: int | None = None,
    **attributes: Attribute,
) -> Span:
    """Return a span that somebody will `end`; without a parent it begins a trace. `NO_SPAN` when it is not recorded."""
    if _recorder is None or (parent and not is_sampled(parent)):
        return NO_SPAN
    found = [link for link in links if is_sampled(link)]
    return _recorder.begin(name, parent=parent, links=found, kind=kind, began_ns=began_ns, attributes=attributes)


def _going_on(name: str, parent: str, kind: Kind, attributes: dict[str, Attribute]) -> Span:
    if _recorder is None or not is_sampled(parent):
        return NO_SPAN
    return _recorder.begin(name, parent=parent, links=(), kind=kind, began_ns=None, attributes=attributes)


@contextmanager
def use(span: Span) -> Iterator[Span]:
    """Make a span the current one for a block, and end it afterwards. What the block raises is noted."""
    if not span:
        yield span
        return
    before = _current.get()
    _current.set(span)
    try:
        yield span
    except BaseException as error:
        span.fail(error)
        raise
    finally:
        span.end()
        _current.set(before)  # not by a token: a generator may be closed in another context than it was begun in


@contextmanager
def follow(name: str, *, parent: str, kind: Kind = "internal", **attributes: Attribute) -> Iterator[Span]:
    """Go on with the trace of `parent` for a block; without one nothing is recorded."""
    with use(_going_on(name, parent, kind, attributes)) as span:
        yield span


@contextmanager
def child(name: str, *, kind: Kind = "internal", **attributes: Attribute) -> Iterator[Span]:
    """Record a block as a part of the current span, if there is one."""
    with use(_going_on(name, traceparent(), kind, attributes)) as span:
        yield span


@contextmanager
def paused() -> Iterator[None]:
    """Have no current span for a block: for work of thousands of calls that would each be recorded."""
    before = _current.get()
    _current.set(NO_SPAN)
    try:
        yield
    finally:
        _current.set(before)


def current() -> Span:
    """Return the span of the block we are in, `NO_SPAN` outside of any."""
    return _current.get()


def traceparent() -> str:
    """Return what names the current span; empty outside of any."""
    return _current.get().traceparent


def readable(text: str | bytes | None) -> str:
    """Return a traceparent that came from elsewhere, or nothing for what is none."""
    if isinstance(text, bytes):
        text = text.decode("ascii", errors="replace")
    return text if text and _TRACEPARENT.fullmatch(text) else ""


def is_sampled(traceparent: str) -> bool:
    """Return whether a traceparent is one, and names a span that is recorded."""
    return bool(readable(traceparent)) and int(traceparent[-2:], 16) & 1 == 1


def log_fields() -> dict[str, str]:
    """Return what a log line says of the current span."""
    text = _current.get().traceparent
    return {"trace_id": text[3:35], "span_id": text[36:52]} if text else {}
