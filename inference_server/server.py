"""Composition of the process: device thread, registry, data plane, services, one gRPC port, and one for HTTP if it is set.

start   listen → serve the champions of the store → ready
drain   health NOT_SERVING → calls in progress complete → the queue is evaluated → the device thread stops
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from inference_server import evaluation, kserve
from inference_server.admission import AdmissionInterceptor
from inference_server.analysis import Analyst
from inference_server.batcher import Batcher
from inference_server.chosen_backend import open_backend
from inference_server.data_plane import DataPlane
from inference_server.doorbell import Doorbell, open_doorbell
from inference_server.fronts.directory import socket_directory
from inference_server.fronts.fleet import FrontEnds, open_front_ends
from inference_server.message_sizes import largest_request_bytes
from inference_server.network import Backend
from inference_server.ports import listening_options
from inference_server.queueing import RequestQueue
from inference_server.registry import Registry
from inference_server.rest.listener import HttpServer
from inference_server.rest.routes import Routes
from inference_server.settings import ServerSettings
from zerofleet.errors import DeviceLost
from zerofleet.rpc.call_metrics import CallMetrics
from zerofleet.rpc.errors import ErrorInterceptor
from zerofleet.rpc.health import MAX_WATCHES, HealthService
from zerofleet.rpc.reflection import STREAMS, Reflection, add_reflection
from zerofleet.rpc.requests import RequestInterceptor
from zerofleet.rpc.security.bounded_calls import HEALTH_WATCH, BoundedCalls
from zerofleet.rpc.security.connections import Connections
from zerofleet.rpc.security.credentials import plain, token_table
from zerofleet.rpc.security.interceptors import RoleInterceptor
from zerofleet.rpc.security.ports import bind
from zerofleet.service.lifecycle import Service
from zerofleet.storage.run_paths import RunPaths
from zerofleet.telemetry import metrics

__all__ = ["RunningServer", "follow_front_ends", "open_server", "serve"]

log = structlog.get_logger()

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
_LOST_GRACE_S = 1.0  # for the answers to calls that have failed already


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A listening server."""

    address: str
    """Address for clients: `host:port` with the bound port, or `unix:/path`."""
    plane: DataPlane
    health: HealthService
    reflection: Reflection
    connections: Connections
    grpc: grpc.aio.Server
    doorbell: Doorbell | None
    """Where clients of this host send blocks in shared memory; None where there is none."""
    http: HttpServer | None
    """KServe v2 over HTTP; None without `http_address`."""
    fronts: FrontEnds | None = None
    """Processes that serve gRPC at `address`, in front of `grpc`; None where this process does."""
    lost: asyncio.Future[DeviceLost] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Done when the device is lost: every request fails from then on, and the process has to end."""

    async def drain(self, grace_s: float) -> None:
        """Reject new calls and let those in progress complete within `grace_s`.

        Cancellation: calls in progress are cut off.
        """
        self.plane.draining = True
        await self.health.enter_graceful_shutdown()
        self.reflection.close()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._drain_calls(grace_s))
            if self.doorbell is not None:
                group.create_task(self.doorbell.drain(grace_s))
            if self.http is not None:
                group.create_task(self.http.drain(grace_s))

    async def _drain_calls(self, grace_s: float) -> None:
        ends_s = time.monotonic() + grace_s
        if self.fronts is not None:  # before the server behind them, which their calls in progress may need
            await self.fronts.drain(grace_s)
        await self.grpc.stop(max(0.0, ends_s - time.monotonic()))


@asynccontextmanager
async def open_server(
    settings: ServerSettings, backend: Backend | None = None, *, starting: bool = False
) -> AsyncIterator[RunningServer]:
    """Listen, without models yet; on exit, evaluate the queue and stop.

    `backend` replaces the device in tests; `starting`: see `Registry`. Raises `ConfigurationError` when the address is in use
    or the device is missing.
    """
    part = settings.inference
    if backend is None:
        backend = open_backend(settings.device, settings.precision, part.threads, choice=settings.backend, slots=part.slots)
    lost: asyncio.Future[DeviceLost] = asyncio.get_running_loop().create_future()

    def lose(error: DeviceLost) -> None:
        if not lost.done():
            lost.set_result(error)

    queue = RequestQueue(max_batch=part.max_batch, max_delay_s=part.max_delay_us / 1e6, max_rows=settings.queue_positions)
    store = settings.open_store()
    message_bytes = settings.max_message_bytes or await asyncio.to_thread(largest_request_bytes, settings.build_game(), store)
    registry = Registry(
        store,
        backend,
        max_batch=part.max_batch,
        max_versions=settings.max_versions,
        message_bytes=message_bytes,
        on_lost=lose,
        starting=starting,
    )
    try:
        async with (
            Batcher(queue, slots=backend.slots, on_lost=lose) as batcher,
            _entrance(settings, DataPlane(registry, batcher), message_bytes) as server,
        ):
            followed = [asyncio.create_task(registry.follow_champions())]
            if server.fronts is None:  # else each front end follows its own
                followed.append(asyncio.create_task(server.connections.follow(server.address)))
            try:
                yield replace(server, lost=lost)
            finally:
                for task in followed:
                    task.cancel()
    finally:
        registry.close()


async def serve(service: Service, settings: ServerSettings) -> None:
    """Run until shutdown; see `zerofleet.service.lifecycle`."""
    _note_absent(settings)
    async with open_server(settings, starting=True) as server:
        await server.plane.registry.serve_champions()
        if not server.lost.done():  # else a load has found the device lost: no client may be sent here
            await server.health.set(kserve.SERVICE, _SERVING)
            if server.fronts is not None:
                server.fronts.on_change = lambda listening: follow_front_ends(service, server.address, listening)
            service.on_drain("calls", lambda: server.drain(settings.grace_s / 2))
            gc.collect()
            gc.freeze()  # these objects live as long as the process; a scan of those of torch stalls calls for 0.2 s
            service.ready(server.address)
        await _until_end(service, server)


def _note_absent(settings: ServerSettings) -> None:
    """Log that the folder of the models does not exist yet: its path is misspelt, or its run begins later."""
    own = str(RunPaths(settings.run_dir).models)
    folder = settings.run_dir if str(settings.model_store) == own else settings.model_store
    if isinstance(folder, Path) and not folder.exists():
        log.warning(
            "models.absent", path=str(folder), advice="the folder does not exist yet; the server waits for models in it"
        )


async def _until_end(service: Service, server: RunningServer) -> None:
    """Wait for the end of gRPC; raises `DeviceLost` when the device is lost, after the answers to calls in progress.

    Cancellation: gRPC goes on.
    """
    ended = asyncio.ensure_future(server.grpc.wait_for_termination())
    ends: set[asyncio.Future[Any]] = {ended, server.lost}
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if server.lost.done():
            if server.fronts is not None:  # they end one after another: those that still listen make nothing ready again
                server.fronts.on_change = lambda listening: None
            service.not_ready("the device is lost")
            await server.drain(_LOST_GRACE_S)
            raise server.lost.result()
        await ended
    finally:
        ended.cancel()


def follow_front_ends(service: Service, address: str, listening: int) -> None:
    """Keep the readiness of a server with front ends: ready while one of them listens."""
    if listening and not service.is_ready and not service.stopping.is_set():
        service.ready(address)
    elif not listening and service.is_ready:
        service.not_ready("no front end listens")


@asynccontextmanager
async def _entrance(settings: ServerSettings, plane: DataPlane, message_bytes: int) -> AsyncIterator[RunningServer]:
    """Listen, in this process or in front ends; on exit, close."""
    if settings.inference.front_ends <= 1:
        server = await _listen(settings, plane, message_bytes)
        try:
            yield server
        finally:
            await _close(server)
        return
    with socket_directory() as directory:
        own = settings.model_copy(update={"address": f"unix:{directory}/device.sock", "shared_memory": False})
        server = await _listen(own, plane, message_bytes)
        try:
            async with open_front_ends(settings, plane, device=server.address, message_bytes=message_bytes) as fronts:
                yield replace(server, address=fronts.address, fronts=fronts)
        finally:
            await _close(server)


async def _close(server: RunningServer) -> None:
    if server.doorbell is not None:
        server.doorbell.close()
    if server.http is not None:
        await server.http.aclose()
    await server.grpc.stop(None)


async def _listen(settings: ServerSettings, plane: DataPlane, message_bytes: int) -> RunningServer:
    guard = RoleInterceptor(
        token_table(settings.tokens), admin_token=plain(settings.token), on_refused=lambda: _count_refused("token")
    )
    connections = Connections(
        settings.max_connections,
        on_refused=metrics.GRPC_CONNECTIONS_REFUSED.inc,
        on_count=metrics.GRPC_CONNECTIONS.set,
    )
    bounds = BoundedCalls(
        message_bytes=message_bytes,
        bytes_in_flight=settings.max_bytes_in_flight,
        calls=settings.max_concurrent_calls,
        long_lived={HEALTH_WATCH: MAX_WATCHES},
        connections=connections,
        on_refused=_count_refused,
    )
    requests = RequestInterceptor()
    server = grpc.aio.server(
        interceptors=[
            AdmissionInterceptor(plane.full),
            bounds,
            requests,
            CallMetrics(),
            guard,
            ErrorInterceptor(),
        ],
        options=listening_options(
            message_bytes, settings.max_connection_age_s, connections=connections.accepted_by_grpc, shared=False
        ),
        maximum_concurrent_rpcs=bounds.most_calls + STREAMS,
    )
    servicer = kserve.KServeServicer(plane, max_delay_us=settings.inference.max_delay_us)
    analyst = Analyst(plane, max_simulations=settings.max_simulations, max_searches=settings.max_searches)
    server.add_generic_rpc_handlers([kserve.handler(servicer), evaluation.handler(analyst)])
    health_servicer = HealthService()
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
    services = [kserve.SERVICE, evaluation.SERVICE, health.SERVICE_NAME]
    reflection = add_reflection(
        server, services, choice=settings.reflection, address=settings.address, on_refused=_count_refused
    )
    address = bind(server, settings.address, settings.tls)
    http = None
    if settings.http_address:
        routes = Routes(
            plane,
            servicer,
            guard=guard,
            bounds=bounds,
            requests=requests,
            message_bytes=message_bytes,
            on_refused=_count_refused,
        )
        http = HttpServer(routes, settings.http_address, settings.tls)
        log.info("http.listening", address=http.address, tls=bool(settings.tls))
    doorbell = None
    if settings.shared_memory:  # before gRPC answers, so that a client that reached gRPC finds it
        doorbell = open_doorbell(address, plane, guard, region_bytes=settings.max_bytes_in_flight)
    await server.start()
    await health_servicer.set("", _SERVING)  # live; the service is ready once the champions are served
    await health_servicer.set(kserve.SERVICE, _NOT_SERVING)
    plane.registry.on_change = lambda model, ready: health_servicer.set(model, _SERVING if ready else _NOT_SERVING)
    return RunningServer(address, plane, health_servicer, reflection, connections, server, doorbell, http)


def _count_refused(reason: str) -> None:
    metrics.INFERENCE_REFUSED.labels(reason=reason).inc()
