"""Which call this task is answering: bound by the gRPC servers, told by every log line, handed on to further calls."""

from __future__ import annotations

from contextvars import ContextVar

__all__ = ["bind", "current_id", "log_fields"]

_current: ContextVar[tuple[str, str]] = ContextVar("zerofleet_request", default=("", ""))  # id and method


def bind(request_id: str, method: str) -> None:
    """Say that the task answers this call, to its end."""
    _current.set((request_id, method))


def current_id() -> str:
    """Return the id of the call that is being answered; empty outside of any."""
    return _current.get()[0]


def log_fields() -> dict[str, str]:
    """Return what a log line says of the call."""
    request_id, method = _current.get()
    return {"request_id": request_id, "rpc": method} if request_id else {}
