"""One client that sends blocks of positions in shared memory; see `zerofleet.contracts.shared_memory`.

The server makes the region and seals its size, so a client can neither shrink it under a reader nor have the server map
memory of another kind. Of a request, the legal actions are copied before they are checked, since they index the network's
output; the states stay in the region, and any bits are safe there: a client that changes them spoils its own answer. Rows are
compared with the model's contract, and every offset follows from these checked numbers and the slot.

A client that breaks the protocol, does not read its replies or disconnects is closed, and its requests leave the queue.
"""

from __future__ import annotations

import asyncio
import fcntl
import functools
import mmap
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
import structlog

from inference_server.data_plane import DataPlane
from inference_server.queueing import RequestOutput, Ticket
from inference_server.served_version import ServedVersion
from zerofleet.contracts.heads import Output
from zerofleet.contracts.naming import MAX_REQUEST_ROWS
from zerofleet.contracts.priorities import level_of
from zerofleet.contracts.shared_memory import (
    MAX_PACKET_BYTES,
    Hello,
    Kind,
    OutputShape,
    Reply,
    Request,
    inputs,
    outputs,
)
from zerofleet.errors import InvalidRequest, Overloaded, Unavailable
from zerofleet.rpc.errors import status_of
from zerofleet.telemetry import tracing

__all__ = ["HELLO_S", "BlockConnection"]

HELLO_S = 5.0
"""Time in which a client has to send its hello."""
_SPAN = "zerofleet.shared_memory/Evaluate"
_OK, _CANCELLED = (int(code.value[0]) for code in (grpc.StatusCode.OK, grpc.StatusCode.CANCELLED))

log = structlog.get_logger()

Answered = asyncio.Future[RequestOutput]


@dataclass(frozen=True, slots=True)
class _Queued:
    """Request in the queue, with what its reply needs."""

    request: Request
    served: ServedVersion
    places: list[Any]
    """Arrays in the region for the outputs."""
    shapes: tuple[OutputShape, ...]
    began_s: float
    span: tracing.Span


class BlockConnection:
    """Server's side of one connection. Used on the event loop, which it never blocks.

    admit    called with the hello; raises the error with which to refuse it, else reserves the region's bytes
    on_close called once, with the bytes that were reserved
    """

    def __init__(
        self,
        connection: socket.socket,
        plane: DataPlane,
        *,
        admit: Callable[[Hello], None],
        on_close: Callable[[BlockConnection, int], None],
    ) -> None:
        self._socket = connection
        self._plane = plane
        self._admit = admit
        self._on_close = on_close
        self._loop = asyncio.get_running_loop()
        self._model = ""
        self._slots = self._slot_bytes = self._reserved_bytes = 0
        self._region: mmap.mmap | None = None
        self._waiting: dict[int, tuple[int, Ticket]] = {}  # by slot: number of the request at the client, and in the queue
        self._closed = False
        self._expiry = self._loop.call_later(HELLO_S, self.close, "no hello arrived")
        self._loop.add_reader(connection, self._read)

    @property
    def in_progress(self) -> list[Answered]:
        """Requests of this client that have no reply yet."""
        return [ticket.future for _, ticket in self._waiting.values()]

    def close(self, reason: str = "") -> None:
        """Disconnect the client and withdraw its requests; `reason` is logged."""
        if self._closed:
            return
        self._closed = True
        self._expiry.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for _, ticket in self._waiting.values():
            self._plane.withdraw(ticket)
        self._waiting.clear()
        self._region = None  # unmapped once the device thread has left it
        if reason:
            log.warning("blocks.closed", reason=reason)
        self._on_close(self, self._reserved_bytes)

    def _read(self) -> None:
        """Handle one packet. A client with many takes turns with all others."""
        try:
            packet = self._socket.recv(MAX_PACKET_BYTES + 1)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(f"the connection failed: {error}")
            return
        if not packet:
            self.close()
        elif self._region is None:
            self._greet(packet)
        else:
            self._take(packet)

    def _greet(self, packet: bytes) -> None:
        """Create the region of a client and pass it on, or refuse the client."""
        self._expiry.cancel()
        try:
            hello = Hello.unpack(packet)
            self._admit(hello)
            self._reserved_bytes = hello.region_bytes
            descriptor = _region(hello.region_bytes)
        except Exception as error:
            code, text = status_of(error)
            log.info("blocks.refused", reason=text)  # no warning: the client may use gRPC
            self._send(Reply(int(code.value[0]), 0, 0, text=text))
            self.close()
            return
        try:
            self._region = mmap.mmap(descriptor, hello.region_bytes)
            socket.send_fds(self._socket, [Reply(_OK, 0, 0).pack()], [descriptor])
        except OSError as error:
            self.close(f"the region cannot be passed on: {error}")
            return
        finally:
            os.close(descriptor)
        self._model, self._slots, self._slot_bytes = hello.model, hello.slots, hello.slot_bytes

    def _take(self, packet: bytes) -> None:
        try:
            request, extra = Request.unpack(packet)
            if request.slot >= self._slots:
                raise InvalidRequest(f"a request names slot {request.slot} of {self._slots}")
            if request.kind == Kind.EVALUATE and request.slot in self._waiting:
                raise InvalidRequest(f"a request names slot {request.slot}, which is in use")
        except InvalidRequest as error:
            self.close(str(error))
            return
        if request.kind == Kind.CANCEL:
            self._cancel(request)
            return
        span = _span(extra)
        try:
            self._evaluate(request, span)
        except Exception as error:
            _end(span, error)
            self._refuse(request, error)

    def _cancel(self, request: Request) -> None:
        """Withdraw a request; nothing to do if its reply has just been sent."""
        number, ticket = self._waiting.get(request.slot, (None, None))
        if ticket is not None and number == request.ticket and not ticket.future.done():
            self._plane.withdraw(ticket)

    def _evaluate(self, request: Request, span: tracing.Span) -> None:
        """Check a request and queue it. Raises the error with which to refuse it."""
        if self._plane.draining:
            raise Unavailable("the server is shutting down; use another one or try again later")
        priority = level_of(request.priority)
        self._plane.require_room(priority)  # before anything is read, as in `inference_server.admission`
        if request.version < 1:
            raise InvalidRequest(f"model version {request.version} does not exist; versions begin at 1")
        served = self._plane.registry.resolve(self._model, request.version)
        began_s = time.monotonic()
        try:
            shapes, end = self._shapes(request, served), (request.slot + 1) * self._slot_bytes
            shape = request.rows, request.packed_bytes, request.max_legal
            states, legal, outputs_at = inputs(self._region, request.slot * self._slot_bytes, shape, end=end)
            places = outputs(self._region, outputs_at, end, request.rows, shapes)
            legal = legal.copy()
            served.contract.check(states, legal)
            ticket = self._plane.submit(served, states, legal, patience_s=request.timeout_us / 1e6, priority=priority)
        except Exception:
            served.statistics.failure.add(time.monotonic() - began_s)
            raise
        self._waiting[request.slot] = request.ticket, ticket
        ticket.future.add_done_callback(
            functools.partial(self._answer, _Queued(request, served, places, shapes, began_s, span))
        )

    @staticmethod
    def _shapes(request: Request, served: ServedVersion) -> tuple[OutputShape, ...]:
        """Return the requested outputs; raises `InvalidRequest` for sizes that are not those of the model."""
        contract = served.contract
        wanted = contract.packed_bytes, contract.max_legal
        if (request.packed_bytes, request.max_legal) != wanted:
            raise InvalidRequest(
                f"rows have {request.packed_bytes} bytes of planes and {request.max_legal} actions, want {wanted[0]} and"
                f" {wanted[1]}; they are of another game"
            )
        if not 1 <= request.rows <= MAX_REQUEST_ROWS:
            raise InvalidRequest(f"{request.rows} rows, want 1 to {MAX_REQUEST_ROWS} in one request")
        count = 2 + request.extra_heads
        if count > len(contract.outputs):
            known = ", ".join(output.name for output in contract.outputs)
            raise InvalidRequest(f"{request.extra_heads} extra heads are wanted; this version has {known}")
        return _output_shapes(contract.outputs, count)

    def _answer(self, queued: _Queued, future: Answered) -> None:
        """Send the reply of a request that is done; called by its future."""
        request = queued.request
        self._waiting.pop(request.slot, None)  # None after `close`
        if future.cancelled():
            _end(queued.span)
            reply = Reply(_CANCELLED, request.slot, request.ticket, text="the request was cancelled")
        else:
            reply = self._reply(queued, future)
        if not self._closed:
            self._send(reply)

    @staticmethod
    def _reply(queued: _Queued, future: Answered) -> Reply:
        """Write the outputs of a request into its slot, count it, and return its reply, which may be a refusal."""
        request, served, span = queued.request, queued.served, queued.span
        try:
            result = future.result()
            for place, rows in zip(queued.places, result.output, strict=False):  # extra heads only as requested
                place[:] = rows
        except Exception as error:
            _end(span, error)
            served.statistics.failure.add(time.monotonic() - queued.began_s)
            return _refusal(request, error)
        if span is not tracing.NO_SPAN:
            tracing.note(span, model=served.manifest.model, version=served.version, positions=request.rows)
            tracing.note(span, queue_s=round(result.queue_s, 6), compute_s=round(result.compute_s, 6))
        _end(span)
        served.statistics.success.add(time.monotonic() - queued.began_s)
        return Reply(_OK, request.slot, request.ticket, served.version, queued.shapes)

    def _refuse(self, request: Request, error: Exception) -> None:
        self._send(_refusal(request, error))

    def _send(self, reply: Reply) -> None:
        try:
            self._socket.send(reply.pack())
        except BlockingIOError:
            self.close("the client does not read its replies")
        except OSError as error:
            self.close(f"the connection failed: {error}")


@functools.lru_cache(maxsize=64)
def _output_shapes(outputs: tuple[Output, ...], count: int) -> tuple[OutputShape, ...]:
    """Return the shapes of the first outputs of a model."""
    return tuple(OutputShape.of(output.datatype, output.width) for output in outputs[:count])


def _refusal(request: Request, error: Exception) -> Reply:
    code, text = status_of(error)
    return Reply(int(code.value[0]), request.slot, request.ticket, text=text)


def _end(span: tracing.Span, error: Exception | None = None) -> None:
    if span is tracing.NO_SPAN:
        return
    if error is not None:
        tracing.fail(span, error)
    span.end()


def _region(size: int) -> int:
    """Return the descriptor of new memory of a size that is sealed; raises `Overloaded` when there is none."""
    descriptor = -1
    try:
        descriptor = os.memfd_create("zerofleet-blocks", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    except OSError as error:
        if descriptor >= 0:
            os.close(descriptor)
        raise Overloaded(f"no shared memory of {size} bytes can be made ({error.strerror}); try again later") from error
    return descriptor


def _span(extra: bytes) -> tracing.Span:
    """Return the span of a request whose caller records one."""
    parent = tracing.readable(extra) if extra and tracing.is_on() else ""
    return tracing.begin(_SPAN, parent=parent, kind=tracing.SpanKind.SERVER) if parent else tracing.NO_SPAN
