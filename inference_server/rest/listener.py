"""Listening socket of the HTTP server: accepts connections within bounds, with TLS as gRPC, and drains them.

A connection counts before its TLS handshake. One network address may hold as many as are free
(`zerofleet.rpc.security.shares`); further ones are closed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl

import structlog

from inference_server.rest.connection import Connection
from inference_server.rest.routes import Routes
from zerofleet.errors import ConfigurationError
from zerofleet.rpc.security.bounded_calls import READ_S
from zerofleet.rpc.security.shares import Shares, peer_of
from zerofleet.rpc.security.tls import RenewedMaterial, Tls

__all__ = ["MAX_CONNECTIONS", "HttpServer"]

MAX_CONNECTIONS = 256
IDLE_S = 75.0
_BACKLOG = 128
_ACCEPT_AGAIN_S = 1.0  # after the process ran out of descriptors

log = structlog.get_logger()


class HttpServer:
    """Server at `host:port`, until closed."""

    def __init__(self, routes: Routes, address: str, tls: Tls, *, idle_s: float = IDLE_S, transfer_s: float = READ_S) -> None:
        """Listen; port 0 selects a free one, see `address`. Raises `ConfigurationError`."""
        self._routes = routes
        self._idle_s = idle_s
        self._transfer_s = transfer_s
        self._certificates = _Certificates(tls) if tls else None
        self._listener = _listening(address)
        self._places = Shares(MAX_CONNECTIONS)
        self._open: dict[asyncio.Task[None], Connection] = {}
        self.address = f"{address.rpartition(':')[0]}:{self._listener.getsockname()[1]}"
        """Address for clients, with the bound port."""
        self._accepting = asyncio.create_task(self._accept())

    def __len__(self) -> int:
        return len(self._open)

    async def drain(self, grace_s: float) -> None:
        """Accept no more connections, and let requests in progress complete within `grace_s`. Cancellation: call `aclose`."""
        await self._stop_listening()
        for task, connection in self._open.items():
            connection.is_last = True
            if connection.is_idle:
                task.cancel()
        if self._open:
            await asyncio.wait(list(self._open), timeout=grace_s)
        await self.aclose()

    async def aclose(self) -> None:
        """Stop listening and cut all connections. Cancellation: they are cut."""
        await self._stop_listening()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _stop_listening(self) -> None:
        self._accepting.cancel()
        await asyncio.gather(self._accepting, return_exceptions=True)
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, place = await loop.sock_accept(self._listener)
            except ConnectionAbortedError:
                continue
            except OSError as error:
                log.warning("http.not_accepted", error=str(error))
                await asyncio.sleep(_ACCEPT_AGAIN_S)
                continue
            family = "ipv6" if accepted.family is socket.AF_INET6 else "ipv4"
            self._take(accepted, f"{family}:[{place[0]}]:{place[1]}" if family == "ipv6" else f"{family}:{place[0]}:{place[1]}")

    def _take(self, accepted: socket.socket, peer: str) -> None:
        """Begin a connection, or close it if its address has no place left."""
        owner = peer_of(peer)
        if not self._places.take(owner):
            self._routes.on_refused("calls")
            accepted.close()
            return
        accepted.setblocking(False)
        connection = Connection(self._routes, peer, idle_s=self._idle_s, transfer_s=self._transfer_s)
        task = asyncio.create_task(self._serve(connection, accepted))
        self._open[task] = connection

        def left(done: asyncio.Task[None]) -> None:
            self._open.pop(done)
            self._places.give_back(owner)
            accepted.close()  # of a task that ended before it began; otherwise it is closed
            if not done.cancelled() and (error := done.exception()) is not None:
                log.error("http.connection_failed", exc_info=error)

        task.add_done_callback(left)

    async def _serve(self, connection: Connection, accepted: socket.socket) -> None:
        """Serve a connection, in its own task: unreadable files of TLS end this one, not the listener."""
        await connection.serve(accepted, self._certificates.current() if self._certificates is not None else None)


class _Certificates:
    """TLS of new connections, from files that are looked at again before each handshake, as those of gRPC."""

    def __init__(self, tls: Tls) -> None:
        if tls.identity is None:
            raise ConfigurationError(
                "tls_ca without tls_identity: a server needs its own certificate; make one with zerofleet certs"
            )
        self._tls = tls
        self._files = RenewedMaterial(tls)
        self._context = _context(tls)

    def current(self) -> ssl.SSLContext:
        """Return the context of the next connection."""
        if self._files.look_again():
            try:
                self._context = _context(self._tls)
            except OSError as error:  # the files changed once more; they are looked at again after their next change
                log.warning("tls.not_renewed", reason=str(error))
        return self._context


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    if tls.certificate is not None:
        context.load_cert_chain(tls.certificate, tls.key)
    if tls.ca is not None:
        context.load_verify_locations(tls.ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _listening(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    has_ipv6 = socket.has_dualstack_ipv6()
    name = "0.0.0.0" if host == "[::]" and not has_ipv6 else host.strip("[]")  # noqa: S104 - [::] is every address, as in gRPC
    try:
        family, _, _, _, place = socket.getaddrinfo(name, int(port), type=socket.SOCK_STREAM)[0]
        both = family is socket.AF_INET6 and has_ipv6  # [::] then takes IPv4 too, as that of gRPC
        listener = socket.create_server(place[:2], family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    except (OSError, UnicodeError) as error:  # a name with an empty or too long part is no Unicode of a host
        why = error.strerror if isinstance(error, OSError) else "no such host"
        raise ConfigurationError(f"cannot listen on {address}: {why}; set another http_address") from error
    listener.setblocking(False)
    return listener
