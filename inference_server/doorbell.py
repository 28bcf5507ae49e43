"""Doorbell of the server: the unix socket on which clients of the same host exchange blocks in shared memory.

It stands beside the gRPC socket `unix:/path` as `/path.blocks`. Only processes of the server's user, and root, may use it. The
regions of all clients together have at most as many bytes as the gRPC requests in progress, `max_bytes_in_flight`; at most
`MAX_CLIENTS` are connected.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from pathlib import Path

import structlog

from inference_server.block_connection import BlockConnection
from inference_server.data_plane import DataPlane
from zerofleet.contracts.shared_memory import ROOT, Hello, doorbell_path, user_of
from zerofleet.errors import ConfigurationError, Overloaded, Unavailable
from zerofleet.rpc.addresses import is_unix
from zerofleet.rpc.failures import error_of
from zerofleet.rpc.security.interceptors import RoleInterceptor
from zerofleet.rpc.security.shares import Shares
from zerofleet.telemetry import metrics

__all__ = ["MAX_CLIENTS", "Doorbell", "open_doorbell"]

MAX_CLIENTS = 256
_METHOD = "/inference.GRPCInferenceService/ModelInfer"  # the call whose roles and refusals hold here too
_BACKLOG = 64
_ACCEPT_AGAIN_S = 1.0  # after the process ran out of descriptors

log = structlog.get_logger()


class Doorbell:
    """Listening socket and its connections."""

    def __init__(self, path: Path, plane: DataPlane, guard: RoleInterceptor, *, region_bytes: int) -> None:
        """Listen at `path`; raises `ConfigurationError` when that fails. `region_bytes`: bound on all regions together."""
        self.path = path
        self._plane = plane
        self._guard = guard
        self._bytes = Shares(region_bytes)
        self._clients: set[BlockConnection] = set()
        self._loop = asyncio.get_running_loop()
        self._listener = _listening(path)
        self._inode = path.stat().st_ino
        self._loop.add_reader(self._listener, self._accept)

    def __len__(self) -> int:
        return len(self._clients)

    async def drain(self, grace_s: float) -> None:
        """Accept no more clients, let requests in progress complete within `grace_s`, and disconnect all clients.

        The data plane must be draining, so that clients send no more. Cancellation: clients stay connected; call `close`.
        """
        self._stop_listening()
        if waiting := [future for client in self._clients for future in client.in_progress]:
            await asyncio.wait(waiting, timeout=grace_s)
        self.close()

    def close(self) -> None:
        """Disconnect all clients and stop listening."""
        self._stop_listening()
        for client in list(self._clients):
            client.close()

    def _stop_listening(self) -> None:
        if self._listener.fileno() < 0:
            return
        self._loop.remove_reader(self._listener)
        self._listener.close()
        with suppress(FileNotFoundError):
            if self.path.stat().st_ino == self._inode:  # not that of a server started since
                self.path.unlink()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            log.warning("blocks.not_accepted", error=str(error))
            self._loop.remove_reader(self._listener)
            self._loop.call_later(_ACCEPT_AGAIN_S, self._listen_again)
            return
        connection.setblocking(False)
        known = user_of(connection) in {os.geteuid(), ROOT}
        if len(self._clients) >= MAX_CLIENTS or not known:
            metrics.INFERENCE_REFUSED.labels(reason="calls" if known else "token").inc()
            connection.close()
            return
        self._clients.add(BlockConnection(connection, self._plane, admit=self._admit, on_close=self._left))

    def _listen_again(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._accept)

    def _admit(self, hello: Hello) -> None:
        """Reserve the region of a client. Raises `PermissionRefused`, `Overloaded`, `Unavailable`."""
        if self._plane.draining:
            raise Unavailable("the server is shutting down")
        if (refusal := self._guard.refusal(_METHOD, hello.token)) is not None:
            raise error_of(*refusal)
        if not self._bytes.take(None, hello.region_bytes):
            metrics.INFERENCE_REFUSED.labels(reason="memory").inc()
            raise Overloaded(
                f"a region of {hello.region_bytes} bytes does not fit: regions hold {self._bytes.taken} of {self._bytes.total}"
                " (max_bytes_in_flight of the server); use gRPC"
            )
        metrics.INFERENCE_REGIONS.inc()

    def _left(self, client: BlockConnection, reserved_bytes: int) -> None:
        self._clients.discard(client)
        if reserved_bytes:
            self._bytes.give_back(None, reserved_bytes)
            metrics.INFERENCE_REGIONS.dec()


def open_doorbell(address: str, plane: DataPlane, guard: RoleInterceptor, *, region_bytes: int) -> Doorbell | None:
    """Return the doorbell of a server at this gRPC address; None without a unix socket, or if it can have none (logged)."""
    if not is_unix(address):
        return None
    path = doorbell_path(address)
    if path is None or not hasattr(os, "memfd_create"):
        log.info("blocks.not_offered", address=address, reason="needs Linux and a path of at most 100 bytes")
        return None
    return Doorbell(path, plane, guard, region_bytes=region_bytes)


def _listening(path: Path) -> socket.socket:
    """Return a socket that listens at `path`, in place of one that a killed server left there."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    try:
        path.unlink(missing_ok=True)  # the gRPC socket beside it is bound first, which refuses a second server
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigurationError(f"cannot listen on {path}: {error.strerror}; set another --address") from error
    return listener
