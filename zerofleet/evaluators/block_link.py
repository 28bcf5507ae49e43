"""Connection of a client to a server of the same host in shared memory; see `zerofleet.contracts.shared_memory`."""

from __future__ import annotations

import asyncio
import fcntl
import mmap
import os
import socket
import struct
from dataclasses import dataclass
from typing import Self

import grpc
import numpy as np

from zerofleet.contracts.priorities import Priority
from zerofleet.contracts.shared_memory import (
    MAX_PACKET_BYTES,
    ROOT,
    Hello,
    Kind,
    Reply,
    Request,
    doorbell_path,
    inputs,
    outputs,
    user_of,
)
from zerofleet.errors import ConfigurationError, InvalidRequest, Unavailable, ZerofleetError
from zerofleet.evaluators.base import LeafBatch
from zerofleet.rpc.failures import error_of
from zerofleet.telemetry import tracing

__all__ = ["BlockLink"]

MOST_US = 2**63
"""Maximum of the remaining time in a request, for callers without a deadline."""

_CODES = {int(code.value[0]): code for code in grpc.StatusCode}

Arrays = list[np.ndarray]


@dataclass(slots=True)
class _Posted:
    """Request in progress."""

    ticket: int
    version: int
    rows: int
    outputs_at: int
    """Offset of the outputs in the region."""
    future: asyncio.Future[Arrays]


class BlockLink:
    """Connection and region. Made with `open`; unusable once `closed`.

    Requests beyond the number of slots wait. A slot is free again when the server has replied, even if its caller has left.
    """

    def __init__(self, target: str, connection: socket.socket, region: mmap.mmap, hello: Hello) -> None:
        self.closed = False
        self._target = target
        self._socket = connection
        self._region: mmap.mmap | None = region  # None once closed
        self._slot_bytes = hello.slot_bytes
        self._loop = asyncio.get_running_loop()
        self._free = list(range(hello.slots))
        self._places = asyncio.Semaphore(hello.slots)
        self._posted: dict[int, _Posted] = {}  # by slot
        self._ticket = 0
        self._loop.add_reader(connection, self._read)

    @classmethod
    async def open(cls, target: str, hello: Hello, *, timeout_s: float) -> Self:
        """Connect to the server at `target`.

        Raises `Unavailable` when it does not offer shared memory, belongs to another user or does not reply, and the error with
        which it refuses: `PermissionRefused`, `Overloaded`, `ConfigurationError`, `InvalidRequest`.
        Cancellation: the connection is closed.
        """
        path = doorbell_path(target)
        if path is None or not hasattr(os, "memfd_create"):
            raise Unavailable(f"{target} is no unix socket of Linux with a path of at most 100 bytes")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            connection.connect(str(path))
            _require_known_user(connection)
            connection.send(hello.pack())
            async with asyncio.timeout(timeout_s):
                packet, descriptors = await _first_packet(connection)
            return cls(target, connection, _mapped(packet, descriptors, hello), hello)
        except (OSError, TimeoutError) as error:
            connection.close()
            raise Unavailable(f"{path} does not answer ({error}); does the server offer shared memory?") from error
        except BaseException:
            connection.close()
            raise

    async def evaluate(self, batch: LeafBatch, version: int, *, timeout_s: float, priority: Priority) -> Arrays:
        """Return copies of the outputs for a batch, which is read before the first suspension.

        Raises the error of the server, `InvalidRequest` for a batch that exceeds a slot or a number that exceeds its field, and
        `Unavailable` when the server does not reply within `timeout_s` or the connection is lost.
        Cancellation: the server drops the request unless it has started it.
        """
        if self._places.locked():
            batch = LeafBatch(batch.states.copy(), batch.legal.copy(), batch.extra_heads, batch.head_width)
            began_s = self._loop.time()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._places.acquire()
            except TimeoutError:
                raise Unavailable(f"{self._target} did not reply to earlier requests within {timeout_s:g} s") from None
            timeout_s -= self._loop.time() - began_s
        else:
            await self._places.acquire()  # does not suspend
        try:
            posted, slot = self._post(batch, version, timeout_s, priority)
        except BaseException:
            self._places.release()
            raise
        expiry = self._loop.call_later(timeout_s, self._expire, posted)
        try:
            return await posted.future
        finally:
            expiry.cancel()
            if self._posted.get(slot) is posted:  # no reply yet
                self._write(Request(Kind.CANCEL, 0, slot, posted.ticket).pack())

    def close(self, reason: str = "the evaluator was closed") -> None:
        """Disconnect; requests in progress fail with `Unavailable`, which has the reason."""
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._region = None
        for posted in self._posted.values():
            self._places.release()
            if not posted.future.done():
                posted.future.set_exception(Unavailable(f"{self._target} does not answer ({reason}); is it running?"))
        self._posted.clear()

    def _post(self, batch: LeafBatch, version: int, timeout_s: float, priority: Priority) -> tuple[_Posted, int]:
        """Write a request into a free slot and send it; the caller holds a place."""
        if self.closed:
            raise Unavailable(f"{self._target} closed the connection; is it running?")
        (rows, packed_bytes), max_legal = batch.states.shape, batch.legal.shape[1]
        shape, slot = (rows, packed_bytes, max_legal), self._free[-1]
        start, self._ticket = slot * self._slot_bytes, (self._ticket + 1) % 2**32
        timeout_us = int(min(max(0.0, timeout_s * 1e6), MOST_US))
        request = Request(Kind.EVALUATE, priority, slot, self._ticket, *shape, batch.extra_heads, version, timeout_us)
        try:
            packet = request.pack(tracing.traceparent().encode())
        except struct.error as error:
            raise InvalidRequest(f"version {version} or {batch.extra_heads} extra heads are out of range: {error}") from error
        states, legal, outputs_at = inputs(self._region, start, shape, end=start + self._slot_bytes)
        states[:], legal[:] = batch.states, batch.legal
        self._free.pop()
        posted = self._posted[slot] = _Posted(self._ticket, version, rows, outputs_at, self._loop.create_future())
        self._write(packet)
        return posted, slot

    def _write(self, packet: bytes) -> None:
        if self.closed:
            return
        try:
            self._socket.send(packet)
        except OSError as error:
            self.close(str(error))

    def _expire(self, posted: _Posted) -> None:
        if not posted.future.done():
            posted.future.set_exception(Unavailable(f"{self._target} did not reply in time; is it overloaded?"))

    def _read(self) -> None:
        try:
            packet = self._socket.recv(MAX_PACKET_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(str(error))
            return
        if not packet:
            self.close("it closed the connection")
            return
        try:
            self._take(Reply.unpack(packet))
        except InvalidRequest as error:
            self.close(str(error))

    def _take(self, reply: Reply) -> None:
        """Deliver a reply and free its slot; raises `InvalidRequest` for one that does not match its request."""
        posted = self._posted.get(reply.slot)
        if posted is None or posted.ticket != reply.ticket:
            raise InvalidRequest(f"the server replied to request {reply.ticket} in slot {reply.slot}, which was not sent")
        found: Arrays | ZerofleetError
        if reply.status:
            found = error_of(_CODES.get(reply.status, grpc.StatusCode.UNKNOWN), reply.text)
        elif reply.version != posted.version:
            raise InvalidRequest(f"version {reply.version} replied to a request for version {posted.version}")
        else:
            end = (reply.slot + 1) * self._slot_bytes
            found = [array.copy() for array in outputs(self._region, posted.outputs_at, end, posted.rows, reply.outputs)]
        del self._posted[reply.slot]
        self._free.append(reply.slot)
        self._places.release()
        if posted.future.done():  # its caller has left
            return
        if isinstance(found, ZerofleetError):
            posted.future.set_exception(found)
        else:
            posted.future.set_result(found)


def _require_known_user(connection: socket.socket) -> None:
    """Raise `Unavailable` for a server of another user, who may listen here while the server does not, and would get the token.

    Root's clients trust the path, as over gRPC.
    """
    user = user_of(connection)
    if user not in {os.geteuid(), ROOT} and os.geteuid() != ROOT:
        raise Unavailable(f"the socket belongs to user {user}, not to this one")


async def _first_packet(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Return the first packet of the server and the descriptors with it. Cancellation: no effect."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(connection, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(connection)
    packet, descriptors, _, _ = socket.recv_fds(connection, MAX_PACKET_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
    return packet, descriptors


def _mapped(packet: bytes, descriptors: list[int], hello: Hello) -> mmap.mmap:
    """Return the region that came with a welcome; raises the error of a refusal."""
    try:
        if not packet:
            raise Unavailable("the server closed the connection; it has other users, or too many clients")
        welcome = Reply.unpack(packet)
        if welcome.status:
            raise error_of(_CODES.get(welcome.status, grpc.StatusCode.UNKNOWN), welcome.text)
        sealed = descriptors and fcntl.fcntl(descriptors[0], fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
        if not sealed or os.fstat(descriptors[0]).st_size != hello.region_bytes:
            raise ConfigurationError(f"the server did not pass a sealed region of {hello.region_bytes} bytes")
        return mmap.mmap(descriptors[0], hello.region_bytes)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
