"""The front end: a gRPC port shared with other front ends, the checks of what clients send, and two ways to the device process.

start   orders → listen → LISTENING
drain   DRAIN, or SIGTERM: new calls are refused, those in progress complete → end
        the connection ends: the device process is gone, and so is this process, at once
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections import Counter
from typing import Any

import grpc
import structlog

from inference_server import evaluation, kserve
from inference_server.admission import AdmissionInterceptor
from inference_server.fronts.forwarding import Forwarder
from inference_server.fronts.frames import Channel, Frame, Kind, open_channel
from inference_server.fronts.orders import Orders
from inference_server.fronts.remote import RemotePlane, passed_on
from inference_server.ports import listening_options
from zerofleet.errors import InvalidRequest, Unavailable, ZerofleetError
from zerofleet.rpc.errors import ErrorInterceptor
from zerofleet.rpc.inference_channels import open_inference_channel
from zerofleet.rpc.reflection import STREAMS, Reflection, add_reflection
from zerofleet.rpc.requests import RequestInterceptor
from zerofleet.rpc.security.bounded_calls import HEALTH_WATCH, BoundedCalls
from zerofleet.rpc.security.connections import Connections
from zerofleet.rpc.security.interceptors import RoleInterceptor
from zerofleet.rpc.security.ports import bind
from zerofleet.rpc.security.tokens import TokenTable
from zerofleet.service import logs
from zerofleet.telemetry import tracing

__all__ = ["run_front_end"]

ORDERS_S = 30.0
"""Time in which the orders have to arrive."""
COUNT_EVERY_S = 0.25
"""Longest time before refused calls are counted by the device process."""
LOST_S = 0.2
"""Time for the refusals of calls in progress to leave, after the device process ended."""
_HEALTH = "grpc.health.v1.Health"

log = structlog.get_logger()


class _FrontEnd:
    """State of the process: its connection, its calls, and its end."""

    def __init__(self, channel: Channel) -> None:
        self.plane = RemotePlane(channel, on_refused=lambda: self.count_refused("overload"))
        self.orders: asyncio.Future[Orders] = asyncio.get_running_loop().create_future()
        self.drain: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        """Done at the beginning of the drain, with the seconds for calls in progress."""
        self.lost = asyncio.Event()
        """Set when the device process is gone."""
        self._channel = channel
        self._refused: Counter[str] = Counter()
        self._connections = self._refused_connections = 0
        channel.on_frame = self._take
        channel.on_close = self._lose

    def end_within(self, grace_s: float) -> None:
        """Begin to drain."""
        if not self.drain.done():
            self.drain.set_result(grace_s)

    def count_refused(self, reason: str) -> None:
        """Count a call refused here, at the device process."""
        if not self._refused:
            asyncio.get_running_loop().call_later(COUNT_EVERY_S, self.report)
        self._refused[reason] += 1

    def refuse_connection(self) -> None:
        """Count a connection refused here; told with the next look at all of them."""
        self._refused_connections += 1

    def count_connections(self, count: int) -> None:
        """Send the number of open connections to the device process, if it has changed."""
        if count != self._connections or self._refused_connections:
            self._channel.send(Kind.CONNECTIONS, fields={"open": count, "refused": self._refused_connections})
        self._connections, self._refused_connections = count, 0

    def report(self) -> None:
        """Send the counts since the last report."""
        if self._refused:
            self._channel.send(Kind.REFUSED, fields=dict(self._refused))
        self._refused.clear()

    def _take(self, frame: Frame) -> None:
        match frame.kind:
            case Kind.ANSWER | Kind.REFUSAL:
                self.plane.take(frame)
            case Kind.ORDERS:
                self.orders.set_result(Orders(**frame.fields))
            case Kind.DRAIN:
                self.end_within(frame.fields["grace_s"])
            case _:
                raise InvalidRequest(f"the device process sent {frame.kind.name}")

    def _lose(self, reason: str) -> None:
        self.lost.set()
        self.plane.close()
        self.end_within(0.0)


async def run_front_end(connection: socket.socket) -> None:
    """Run until the device process drains or ends, or SIGTERM arrives. Cancellation: calls in progress are cut off."""
    loop = asyncio.get_running_loop()
    channel = await open_channel(connection)
    front = _FrontEnd(channel)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # of a terminal, which interrupts the device process too
    async with asyncio.timeout(ORDERS_S):
        begun: list[asyncio.Future[Any]] = [front.orders, front.drain]
        await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
    if not front.orders.done():
        return
    orders = front.orders.result()
    logs.configure(orders.log_level, orders.log_format, "inference_server")
    structlog.contextvars.bind_contextvars(front=orders.index)
    tracing.configure("inference_server", orders.trace_sample)
    loop.add_signal_handler(signal.SIGTERM, front.end_within, orders.grace_s)
    async with open_inference_channel(orders.device) as device:
        try:
            connections = Connections(orders.connections, on_refused=front.refuse_connection, on_count=front.count_connections)
            server, reflection = _listening(orders, front, device, connections)
            await server.start()
        except ZerofleetError as error:
            channel.send(Kind.FAILED, fields={"text": str(error)})
            channel.close()
            return
        channel.send(Kind.LISTENING)
        log.info("front.listening", address=orders.address)
        following = asyncio.create_task(connections.follow(orders.address))
        grace_s = await front.drain
        following.cancel()
        reflection.close()
        await _stopped(server, front, grace_s)
        front.report()
        channel.close()


async def _stopped(server: grpc.aio.Server, front: _FrontEnd, grace_s: float) -> None:
    """Let calls in progress complete within `grace_s`, unless the device process ends before."""
    stop, lost = asyncio.ensure_future(server.stop(grace_s)), asyncio.ensure_future(front.lost.wait())
    await asyncio.wait({stop, lost}, return_when=asyncio.FIRST_COMPLETED)
    lost.cancel()
    if not stop.done():
        await server.stop(LOST_S)


def _listening(
    orders: Orders, front: _FrontEnd, device: grpc.aio.Channel, connections: Connections
) -> tuple[grpc.aio.Server, Reflection]:
    """Return the server on its port, not yet started, and its reflection; raises `ConfigurationError`."""
    bounds = BoundedCalls(
        message_bytes=orders.message_bytes,
        bytes_in_flight=orders.bytes_in_flight,
        calls=orders.calls,
        long_lived={HEALTH_WATCH: orders.watches},
        connections=connections,
        on_refused=front.count_refused,
    )
    guard = RoleInterceptor(
        TokenTable.parse(orders.tokens) if orders.tokens else TokenTable({}),
        admin_token=orders.token or None,
        on_refused=lambda: front.count_refused("token"),
    )

    async def infer(request: Any, context: Any) -> Any:
        return await passed_on(kserve.model_infer(front.plane, request, context), context)

    server = grpc.aio.server(
        interceptors=[
            AdmissionInterceptor(front.plane.full, on_refused=lambda: front.count_refused("overload")),
            bounds,
            RequestInterceptor(),
            guard,
            ErrorInterceptor(),
        ],
        options=listening_options(
            orders.message_bytes, orders.max_connection_age_s, connections=connections.accepted_by_grpc, shared=True
        ),
        maximum_concurrent_rpcs=bounds.most_calls + STREAMS,
    )
    handlers = {"ModelInfer": kserve.infer_handler(infer)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(kserve.SERVICE, handlers), Forwarder(device)])
    services = [kserve.SERVICE, evaluation.SERVICE, _HEALTH]
    reflection = add_reflection(
        server, services, choice=orders.reflection, address=orders.address, on_refused=front.count_refused
    )
    if bind(server, orders.address, orders.tls) != orders.address:
        raise Unavailable(f"{orders.address} is not the address of this front end")
    return server, reflection
