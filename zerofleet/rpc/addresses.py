"""Addresses of servers: `host:port`, `dns:///name:port` or `unix:/path`."""

from __future__ import annotations

import ipaddress

from zerofleet.errors import ConfigurationError

__all__ = ["LAST_PORT", "is_loopback", "is_near", "is_unix", "require_address"]

LAST_PORT = 65535
_SHOWN_CHARACTERS = 100
_WANTED = "want HOST:PORT, dns:///NAME:PORT or unix:/PATH"


def is_unix(address: str) -> bool:
    """Return whether an address is a unix socket."""
    return address.startswith(("unix:", "unix-abstract:"))


def is_near(address: str) -> bool:
    """Return whether a listening address is a unix socket or a loopback address, which no other machine reaches."""
    if is_unix(address):
        return True
    return is_loopback(address.rpartition(":")[0].strip("[]"))


def is_loopback(host: str) -> bool:
    """Return whether a listening host, a name or an address, is reached from this machine alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_address(address: str, *, lowest_port: int = 1) -> str:
    """Return an address `host:port`, `dns:///name:port` or `unix:/path`; raises `ConfigurationError` for an invalid one."""
    shown = repr(address[:_SHOWN_CHARACTERS])
    is_empty = not (address.partition(":")[2].strip("/") if is_unix(address) else address)  # grpc binds `unix:` to any name
    if is_empty or not address.isprintable() or (not is_unix(address) and " " in address):
        raise ConfigurationError(f"{shown} is not an address; {_WANTED}")
    for one in () if is_unix(address) else address.split(","):
        port = one.rpartition(":")[2]
        if not (port.isascii() and port.isdigit()):
            if "///" in address:  # another resolver's, which may name the port
                continue
            raise ConfigurationError(f"address {shown} has no port; {_WANTED}")  # grpc would take 443
        if not lowest_port <= int(port[:_SHOWN_CHARACTERS]) <= LAST_PORT:
            raise ConfigurationError(f"address {shown} has a port outside {lowest_port} to {LAST_PORT}")
    return address
