"""Columns of an entry in an SQLite file, which stores any type in any column: damaged ones, or those of another program."""

from __future__ import annotations

from zerofleet.errors import InvalidRequest
from zerofleet.storage.streams.base import require_publishable
from zerofleet.telemetry import tracing

__all__ = ["are_whole", "parent", "text"]

_REPLACED = "\ufffd"


def text(data: bytes) -> str:
    """Return text of the file; bytes that are no UTF-8 are replaced, as one of them must not stop the whole stream."""
    return data.decode(errors="replace")


def are_whole(uid: object, payload: object, count: object) -> bool:
    """Return whether uid, payload and number of deliveries are those of an entry that was published."""
    if not (isinstance(uid, str) and isinstance(payload, bytes) and isinstance(count, int) and count >= 0):
        return False
    try:
        require_publishable(uid, payload)
    except InvalidRequest:
        return False
    return _REPLACED not in uid


def parent(traceparent: object) -> str:
    """Return the traceparent of an entry; empty if malformed."""
    return tracing.readable(traceparent) if isinstance(traceparent, str) else ""
