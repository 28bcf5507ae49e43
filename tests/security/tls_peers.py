"""Certificates for the tests, and servers that hold them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

import grpc

from zerofleet.rpc.security.ports import bind
from zerofleet.rpc.security.tls import PLAIN, Tls
from zerofleet.service.authority import Authority

DAYS = 30


@dataclass(frozen=True, slots=True)
class Certificates:
    """A directory as `zerofleet certs` makes it."""

    root: Path

    def tls(self, name: str) -> Tls:
        """Return what a service of that name is told."""
        return Tls(self.root / name / "ca.crt", self.root / name)

    @property
    def ca(self) -> Path:
        return self.root / "authority" / "ca.crt"

    @property
    def authority(self) -> Authority:
        return Authority(self.root)


def make_certificates(root: Path) -> Certificates:
    """Make an authority, a server on this machine, and clients."""
    authority = Authority(root)
    authority.issue("server", ["localhost", "127.0.0.1", "::1"], days=DAYS)
    authority.issue("elsewhere", ["elsewhere.example"], days=DAYS)
    authority.issue("client", days=DAYS)
    return Certificates(root)


@contextlib.asynccontextmanager
async def echoing(tls: Tls = PLAIN, *, credentials: grpc.ServerCredentials | None = None, address: str = "127.0.0.1:0"):
    """Yield the address of a server that answers `/any.Echo/Say` with what it got."""

    async def say(request, context):
        return request

    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    methods = {"Say": grpc.unary_unary_rpc_method_handler(say)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("any.Echo", methods)])
    if credentials is not None:
        address = f"127.0.0.1:{server.add_secure_port(address, credentials)}"
    else:
        address = bind(server, address, tls)
    await server.start()
    try:
        yield address
    finally:
        await server.stop(None)
