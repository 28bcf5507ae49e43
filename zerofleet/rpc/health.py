"""Health service of the gRPC servers (`grpc.health.v1`): open to all clients, with bounded cost.

`zerofleet.rpc.security.bounded_calls` bounds the watches.

A watcher that does not read, disconnects or names an unknown service delays neither others nor
the server. (grpc's own asyncio servicer writes to watchers while holding the lock that status changes need, and drops all
watchers of a name when one of them leaves.)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

__all__ = ["MAX_WATCHES", "HealthService"]

MAX_WATCHES = 256
"""Maximum concurrent watches of a server: a few per client."""

_Response = health_pb2.HealthCheckResponse


class HealthService(health_pb2_grpc.HealthServicer):  # type: ignore[misc,unused-ignore]
    """Status of the process, under the name "", and of named services."""

    def __init__(self) -> None:
        self._status: dict[str, int] = {"": _Response.SERVING}
        self._shutting_down = False
        self._changed = asyncio.Event()
        self.watches = 0
        """Watches in progress."""

    async def Check(self, request: Any, context: Any) -> Any:
        """Return the current status; NOT_FOUND for an unknown name."""
        status = self._status.get(request.service)
        if status is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such service here")
        return _Response(status=status)

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Send the status, and again after every change; ends with the last one, when the server is shutting down.

        Cancellation: the watch ends; others continue.
        """
        self.watches += 1
        told: int | None = None
        try:
            while True:
                changed = self._changed
                status = self._status.get(request.service, _Response.SERVICE_UNKNOWN)
                if status != told:
                    told = status
                    yield _Response(status=status)
                if self._shutting_down:  # else the drain would wait for the watch until its grace is over
                    return
                await changed.wait()
        finally:
            self.watches -= 1

    async def set(self, service: str, status: int) -> None:
        """Set the status of a name; ignored once the server is shutting down. Cancellation: it is set."""
        if not self._shutting_down:
            self._set(service, status)

    async def enter_graceful_shutdown(self) -> None:
        """Set every name to NOT_SERVING permanently, and end the watches. Cancellation: it is set."""
        self._shutting_down = True
        for service in self._status:
            self._set(service, _Response.NOT_SERVING)

    def _set(self, service: str, status: int) -> None:
        self._status[service] = status
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
