"""Gatekeeper process: its parts and one gRPC port.

start   warm up the rules → take the lease → read the journal → listen → ready
drain   watchers end → calls in progress complete → a match in progress stops; its results are on disk
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from gatekeeper.composition import Gatekeeper, compose
from gatekeeper.served_versions import Control
from gatekeeper.servicer import GatekeeperServicer
from gatekeeper.settings import GatekeeperSettings
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.priorities import Priority
from zerofleet.contracts.wire import gatekeeper_pb2, gatekeeper_pb2_grpc
from zerofleet.evaluators.base import Evaluator
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.evaluators.replicas import ReplicaControl
from zerofleet.rpc.call_metrics import CallMetrics
from zerofleet.rpc.errors import ErrorInterceptor
from zerofleet.rpc.health import MAX_WATCHES, HealthService
from zerofleet.rpc.reflection import STREAMS, Reflection, add_reflection
from zerofleet.rpc.requests import RequestInterceptor
from zerofleet.rpc.security.bounded_calls import HEALTH_WATCH, BoundedCalls
from zerofleet.rpc.security.connections import Connections
from zerofleet.rpc.security.credentials import plain, token_table
from zerofleet.rpc.security.interceptors import RoleInterceptor
from zerofleet.rpc.security.limits import server_limits
from zerofleet.rpc.security.ports import bind
from zerofleet.service.lifecycle import Service
from zerofleet.storage.model_store import ModelStore
from zerofleet.storage.runs import require_run
from zerofleet.telemetry import metrics

__all__ = ["RunningGatekeeper", "open_gatekeeper", "serve"]

SERVICE = gatekeeper_pb2.DESCRIPTOR.services_by_name["Gatekeeper"].full_name
MAX_MESSAGE_BYTES = 16 << 20  # a list of about ten thousand candidates
MAX_REQUEST_BYTES = 64 << 10  # names, a hash, a reason
MAX_BYTES_IN_FLIGHT = 64 << 20
MIN_PING_MS = 10_000  # clients ping every 30 s, see zerofleet.rpc.gatekeeper_client

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningGatekeeper(Gatekeeper):
    """A listening gatekeeper; `run` starts its decisions."""

    address: str
    """Address for clients: `host:port` with the bound port, or `unix:/path`."""
    health: HealthService
    reflection: Reflection
    grpc: grpc.aio.Server

    async def drain(self, grace_s: float) -> None:
        """Reject new calls, end the watchers, and let other calls complete within `grace_s`.

        Cancellation: calls in progress are cut off.
        """
        await self.health.enter_graceful_shutdown()
        self.reflection.close()
        self.pointer.close()
        await self.grpc.stop(grace_s)


@asynccontextmanager
async def open_gatekeeper(
    settings: GatekeeperSettings, *, evaluator: Evaluator | None = None, control: Control | None = None
) -> AsyncIterator[RunningGatekeeper]:
    """Take the lease and listen; on exit, stop. `evaluator` and `control` replace the inference server in tests.

    Raises `Unavailable` while another gatekeeper holds the lease, `RunDirectoryError` for an unreadable journal,
    `ConfigurationError` when the address is in use.
    """
    model = model_name(settings.build_game())
    async with AsyncExitStack() as stack:
        evaluator = evaluator or await _reach_evaluator(stack, settings, model)
        control = control or await _reach_control(stack, settings, settings.open_store())
        parts = await stack.enter_async_context(compose(settings, evaluator=evaluator, control=control))
        servicer = GatekeeperServicer(ledger=parts.ledger, pointer=parts.pointer, arbiter=parts.arbiter, ladder=parts.ladder)
        connections = Connections(
            settings.max_connections,
            on_refused=metrics.GRPC_CONNECTIONS_REFUSED.inc,
            on_count=metrics.GRPC_CONNECTIONS.set,
        )
        server, health_servicer, reflection, address = await _listen(settings, servicer, connections)
        followed = asyncio.create_task(connections.follow(address))
        held = {field.name: getattr(parts, field.name) for field in fields(parts)}
        try:
            yield RunningGatekeeper(**held, address=address, health=health_servicer, reflection=reflection, grpc=server)
        finally:
            followed.cancel()
            parts.pointer.close()
            await server.stop(None)


async def serve(service: Service, settings: GatekeeperSettings) -> None:
    """Run until shutdown; see `zerofleet.service.lifecycle`."""
    await asyncio.to_thread(require_run, settings.run_dir, settings.game, settings.game_parameters, preset=settings.preset)
    async with open_gatekeeper(settings) as gatekeeper:
        service.on_drain("calls", lambda: gatekeeper.drain(settings.grace_s / 2))
        service.ready(gatekeeper.address)
        await service.until_stopping(gatekeeper.run(by_hand_only=settings.by_hand_only))
        await gatekeeper.grpc.wait_for_termination()


async def _reach_evaluator(stack: AsyncExitStack, settings: GatekeeperSettings, model: str) -> Evaluator:
    client = KServeEvaluator(
        settings.inference_address,
        model,
        token=plain(settings.token),
        tls=settings.tls,
        on_retry=metrics.count_eval_retry,
        priority=Priority.HIGH,
    )
    return await stack.enter_async_context(client)


async def _reach_control(stack: AsyncExitStack, settings: GatekeeperSettings, store: ModelStore) -> Control:
    control = ReplicaControl(
        settings.control_address or settings.inference_address,
        token=plain(settings.token),
        tls=settings.tls,
        store=store,
        absence_s=settings.replica_absence_s,
    )
    return await stack.enter_async_context(control)


async def _listen(
    settings: GatekeeperSettings, servicer: GatekeeperServicer, connections: Connections
) -> tuple[grpc.aio.Server, HealthService, Reflection, str]:
    bounds = BoundedCalls(
        message_bytes=MAX_REQUEST_BYTES,
        bytes_in_flight=MAX_BYTES_IN_FLIGHT,
        calls=settings.max_concurrent_calls,
        long_lived={f"/{SERVICE}/WatchChampion": settings.max_watchers, HEALTH_WATCH: MAX_WATCHES},
        connections=connections,
        on_refused=lambda reason: metrics.GATEKEEPER_REFUSED.labels(reason=reason).inc(),
    )
    guard = RoleInterceptor(token_table(settings.tokens))
    server = grpc.aio.server(
        interceptors=[bounds, RequestInterceptor(), CallMetrics(), guard, ErrorInterceptor()],
        options=[
            *server_limits(
                receive_bytes=MAX_REQUEST_BYTES, send_bytes=MAX_MESSAGE_BYTES, connections=connections.accepted_by_grpc
            ),
            ("grpc.so_reuseport", 0),  # a second gatekeeper on the same port is a mistake
            ("grpc.http2.min_ping_interval_without_data_ms", MIN_PING_MS),
            ("grpc.keepalive_permit_without_calls", 1),
        ],
        maximum_concurrent_rpcs=bounds.most_calls + STREAMS,
    )
    gatekeeper_pb2_grpc.add_GatekeeperServicer_to_server(servicer, server)
    health_servicer = HealthService()
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
    services = [SERVICE, health.SERVICE_NAME]
    reflection = add_reflection(server, services, choice=settings.reflection, address=settings.address)
    address = bind(server, settings.address, settings.tls)
    await server.start()
    for name in ("", SERVICE):
        await health_servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    return server, health_servicer, reflection, address
