"""Id of the call that a task handles: bound by the gRPC servers, added to log lines, forwarded to downstream calls."""

from __future__ import annotations

from contextvars import ContextVar

__all__ = ["bind", "current_id", "log_fields"]

_current: ContextVar[tuple[str, str]] = ContextVar("zerofleet_request", default=("", ""))  # id and method


def bind(request_id: str, method: str) -> None:
    """Bind this call to the current task for the rest of its life."""
    _current.set((request_id, method))


def current_id() -> str:
    """Return the id of the call in progress; empty outside any call."""
    return _current.get()[0]


def log_fields() -> dict[str, str]:
    """Return the log fields that identify the call."""
    request_id, method = _current.get()
    return {"request_id": request_id, "rpc": method} if request_id else {}
