"""The health service of our gRPC servers (`grpc.health.v1`), which everybody may ask and nobody can hold on to.

Watching is bounded, and a watcher who does not read, goes away or names what is not there delays neither the others nor
the server. (grpc's own asyncio servicer writes to watchers while it holds the lock that a change of status needs, and
forgets all watchers of a name when one of them leaves.)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

__all__ = ["MAX_WATCHES", "HealthService"]

MAX_WATCHES = 256
"""Watches in progress at once: a few of each client, and far below the calls a server takes."""

_Response = health_pb2.HealthCheckResponse


class HealthService(health_pb2_grpc.HealthServicer):  # type: ignore[misc,unused-ignore]
    """Status of the process, under the name "", and of whatever else is set."""

    def __init__(self, *, max_watches: int = MAX_WATCHES, on_refused: Callable[[], None] = lambda: None) -> None:
        """`on_refused` is called for every watch that is turned away."""
        self._status: dict[str, int] = {"": _Response.SERVING}
        self._max_watches = max_watches
        self._on_refused = on_refused
        self._shutting_down = False
        self._changed = asyncio.Event()
        self.watches = 0
        """Watches in progress."""

    async def Check(self, request: Any, context: Any) -> Any:
        """Answer with the present status; NOT_FOUND for a name without one."""
        status = self._status.get(request.service)
        if status is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such service here")
        return _Response(status=status)

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Send the status, and again whenever it has changed.

        Cancellation: the watch ends, others go on.
        """
        if self.watches >= self._max_watches:
            self._on_refused()
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED, f"{self.watches} watches of health are in progress; poll it"
            )
        self.watches += 1
        told: int | None = None
        try:
            while True:
                changed = self._changed
                status = self._status.get(request.service, _Response.SERVICE_UNKNOWN)
                if status != told:
                    told = status
                    yield _Response(status=status)
                await changed.wait()
        finally:
            self.watches -= 1

    async def set(self, service: str, status: int) -> None:
        """Set the status of a name; passed over once the server is shutting down. Cancellation: it is set."""
        if not self._shutting_down:
            self._set(service, status)

    async def enter_graceful_shutdown(self) -> None:
        """Say NOT_SERVING under every name from now on. Cancellation: it is said."""
        self._shutting_down = True
        for service in self._status:
            self._set(service, _Response.NOT_SERVING)

    def _set(self, service: str, status: int) -> None:
        self._status[service] = status
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
