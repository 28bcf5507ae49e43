"""Bound on the connections of a gRPC server: one network address holds as many places as are free, so that others find some.

grpc accepts connections itself, tells nothing about those without calls, and closes none. Here the sockets of the process are
looked at several times a second, and those that are connected to the server's port are counted by their address. A connection
also counts from its first call on. Those beyond the share of their address get no answer but RESOURCE_EXHAUSTED, and are
closed at the look after the next one, so that this answer can arrive.

                 first call, or the next look                looks
    connected ──┬─ within the share ─────────► counted       gone: its place is free
                └─ beyond it ────────────────► refused ────► closing ────► closed

Unix sockets have no share: only the owner of the run reaches them. `zerofleet.rpc.security.shares` has the rule.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import quote

import structlog

from zerofleet.rpc.security.shares import Shares, peer_of

__all__ = ["LOOK_S", "Connections"]

LOOK_S = 0.25
_OTHER_DESCRIPTORS = 512  # not left to connections: files, libraries, HTTP, clients in shared memory
_HEADROOM = 1.5  # connections that grpc accepts for each place: room for those that are about to be closed
_DESCRIPTORS = "/proc/self/fd"

log = structlog.get_logger()


class Connections:
    """Places of the connections to one port, by address; `follow` keeps them up to date."""

    def __init__(
        self, most: int, *, on_refused: Callable[[], None] = lambda: None, on_count: Callable[[int], None] = lambda count: None
    ) -> None:
        """Create it, with `most` places or as many as the process may have descriptors for.

        `on_refused` is called for each refused connection, `on_count` after every look with the number of open network
        connections, refused ones included.
        """
        self._places = Shares(_fitting(most))
        self._on_refused = on_refused
        self._on_count = on_count
        self._port = 0
        self._counted: set[str] = set()
        self._refused: set[str] = set()
        self._closing: set[str] = set()
        self._known: dict[tuple[int, int], str] = {}  # peer by descriptor and inode of a socket, empty for another's socket

    @property
    def accepted_by_grpc(self) -> int:
        """Bound of grpc itself, beyond which it closes connections of any address."""
        return int(self._places.total * _HEADROOM)

    def refusal(self, peer: str) -> str | None:
        """Return the reason to refuse a call over a connection, which counts from now on; `peer` in grpc's notation."""
        if peer in self._counted or (owner := peer_of(peer)) is None:
            return None
        if peer not in self._refused and peer not in self._closing and self._take(peer, owner):
            return None
        return f"the connections of this address are more than its share of {self._places.total}; use fewer, or try again later"

    async def follow(self, address: str) -> None:
        """Count, and close connections beyond the share of their address, at the bound address of the server.

        Cancellation: connections stay as they are.
        """
        if address.startswith("unix"):
            return
        self._port = int(address.rpartition(":")[2])
        while True:
            try:
                self.look()
            except OSError as error:  # no descriptor is left, even to look
                log.warning("connections.not_counted", error=str(error))
            await asyncio.sleep(LOOK_S)

    def look(self) -> None:
        """Count the connections that are open now, and close those that were refused at the last look or before it."""
        found = {peer: descriptor for descriptor, peer in self._open()}
        for peer in self._counted - found.keys():
            self._counted.remove(peer)
            self._places.give_back(peer_of(peer))
        for peer in self._closing & found.keys():
            _shut(found[peer], self._port, peer)
        self._closing = (self._refused | self._closing) & found.keys()
        self._refused = set()
        for peer in found:
            owner = peer_of(peer)
            if owner is not None and peer not in self._counted and peer not in self._closing:
                self._take(peer, owner)
        self._on_count(len(found))

    def _take(self, peer: str, owner: str) -> bool:
        if self._places.take(owner):
            self._counted.add(peer)
            return True
        self._refused.add(peer)
        self._on_refused()
        return False

    def _open(self) -> Iterator[tuple[int, str]]:
        """Yield descriptor and peer of every connection to the port, in the order of descriptors, nearly that of their age."""
        known: dict[tuple[int, int], str] = {}
        for descriptor in sorted(map(int, os.listdir(_DESCRIPTORS))):  # noqa: PTH208 - names alone, which are numbers
            try:
                status = os.fstat(descriptor)
            except OSError:  # of the listing itself, or closed meanwhile
                continue
            if not stat.S_ISSOCK(status.st_mode):
                continue
            key = descriptor, status.st_ino
            peer = self._known.get(key)
            if peer is None and (peer := _peer_at(descriptor, self._port)) is None:
                continue
            known[key] = peer
            if peer:
                yield descriptor, peer
        self._known = known


def _peer_at(descriptor: int, port: int) -> str | None:
    """Return the peer of a socket in grpc's notation, empty unless it is a connection to this port of ours; None if closed.

    Raises `OSError` when no descriptor is left.
    """
    try:
        copy = os.dup(descriptor)
    except OSError as error:
        if error.errno == errno.EBADF:
            return None
        raise
    with socket.socket(fileno=copy) as found:
        try:
            return _peer_of_socket(found, port)
        except OSError:  # not connected: the listening socket, or one whose peer is gone
            return ""


def _peer_of_socket(found: socket.socket, port: int) -> str:
    if found.family not in (socket.AF_INET, socket.AF_INET6) or found.getsockname()[1] != port:
        return ""
    host, peer_port = found.getpeername()[:2]
    host = host.removeprefix("::ffff:") if "." in host else host
    return f"ipv6:{quote(f'[{host}]', safe=':')}:{peer_port}" if ":" in host else f"ipv4:{host}:{peer_port}"


def _shut(descriptor: int, port: int, peer: str) -> None:
    """End a connection, if the descriptor is still its own. grpc then closes it; the copy made here ends with this call."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as found:
        if _peer_of_socket(found, port) == peer:
            found.shutdown(socket.SHUT_RDWR)


def _fitting(most: int) -> int:
    """Return the places that this process has descriptors for; `zerofleet.service.open_files` has raised its limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= int(most * _HEADROOM) + _OTHER_DESCRIPTORS:
        return most
    fitting = max(2, min(most, int((soft - _OTHER_DESCRIPTORS) / _HEADROOM)))
    log.warning("connections.limited_by_descriptors", max_connections=most, places=fitting, descriptors=soft)
    return fitting
