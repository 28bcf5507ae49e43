"""Shares of a limited resource, such as places for calls or bytes of memory, among the peers that use it.

A peer may hold as much as is free: one greedy peer gets half of the resource, n of them n/(n + 1), so that a newcomer always
finds some free. (Dynamic thresholds: Choudhury and Hahne, Dynamic queue length thresholds for shared-memory packet switches,
IEEE/ACM Transactions on Networking 6(2), 1998, with their factor alpha = 1.)
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache

__all__ = ["Shares", "host_of", "peer_of"]

_IPV6_NETWORK_BITS = 64  # one customer gets at least a /64, and with it any number of addresses


class Shares:
    """Units of a resource, by peer. The peer None may take all that is free."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.taken = 0
        """Units in use, at most `total`."""
        self._by_peer: dict[str, int] = {}

    def take(self, peer: str | None, units: int = 1) -> bool:
        """Take units for a peer; return whether there was room for them."""
        free = self.total - self.taken
        if (0 if peer is None else self._by_peer.get(peer, 0)) + units > free:
            return False
        self.taken += units
        if peer is not None and units:
            self._by_peer[peer] = self._by_peer.get(peer, 0) + units
        return True

    def give_back(self, peer: str | None, units: int = 1) -> None:
        """Free units that a peer has taken."""
        self.taken -= units
        if peer is not None and units:
            left = self._by_peer[peer] - units
            if left:
                self._by_peer[peer] = left
            else:
                del self._by_peer[peer]


def host_of(peer: str) -> str:
    """Return the address of a network peer in grpc's notation, such as `ipv4:1.2.3.4:5` or `ipv6:%5B::1%5D:5`."""
    rest = peer.partition(":")[2]
    return rest.rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]")


def peer_of(peer: str) -> str | None:
    """Return the name under which a peer in grpc's notation has its share: its address, without the port.

    Of an IPv6 address, the network of 64 bits. None for a unix socket, which only the owner of the run can reach.
    """
    if peer.startswith("unix"):
        return None
    host = host_of(peer)
    return _network(host) if ":" in host else host


@lru_cache(maxsize=4096)
def _network(host: str) -> str:
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address.packed, _IPV6_NETWORK_BITS), strict=False))
