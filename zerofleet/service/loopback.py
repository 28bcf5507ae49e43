"""Addresses on which a server is reached from this machine alone."""

from __future__ import annotations

from ipaddress import ip_address

__all__ = ["is_loopback"]


def is_loopback(host: str) -> bool:
    """Return whether a listening host, a name or an address, is reached from this machine alone."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
