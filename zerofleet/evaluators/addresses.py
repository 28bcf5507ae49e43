"""Addresses of the servers behind a target.

A target `host:port`, `dns:host:port` or `dns:///host:port` means every address to which the name currently resolves,
`ipv4:10.0.0.1:8001,10.0.0.2:8001` and `unix:/a,unix:/b` the listed ones, and `localhost:port`, `unix:/path` or any other target
a single server.
Only model control accepts a list of unix sockets (`ReplicaControl`): grpc has no such target.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Sequence

from zerofleet.errors import Unavailable
from zerofleet.rpc.addresses import require_address

__all__ = ["may_have_replicas", "resolve"]

_LISTED = re.compile(r"ipv[46]:(?P<addresses>.+)")
_NEXT_SOCKET = re.compile(r",(?=unix:)")  # a comma within a path is part of it
_NAMED = re.compile(r"(?:dns:(?:///)?)?(?P<host>\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):(?P<port>\d{1,5})")


async def resolve(target: str) -> Sequence[str]:
    """Return the addresses behind `target`, each itself a target, sorted.

    Raises `Unavailable` if the name has none, `ConfigurationError` for an invalid address.

    Cancellation: no effect.
    """
    require_address(target)
    if listed := _LISTED.fullmatch(target):
        return sorted(set(listed["addresses"].split(",")))
    if target.startswith("unix:"):
        return sorted(set(_NEXT_SOCKET.split(target)))
    named = _NAMED.fullmatch(target)
    if named is None or _is_one(named["host"]):
        return [target]
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(named["host"], int(named["port"]), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # the second for a text that is not a host name
        raise Unavailable(f"{target} cannot be resolved: {error}; is any replica up?") from error
    return sorted({_join(str(place[0]), int(place[1])) for *_, place in found})


def may_have_replicas(target: str) -> bool:
    """Return whether `target` may have several servers, so that the next call may reach another one."""
    if listed := _LISTED.fullmatch(target):
        return "," in listed["addresses"]
    named = _NAMED.fullmatch(target)
    return named is not None and not _is_one(named["host"])


def _is_one(host: str) -> bool:
    """Return whether a host is an address, or `localhost`, whose addresses of IPv4 and IPv6 are one server, or no server."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host == "localhost"
    return True


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
