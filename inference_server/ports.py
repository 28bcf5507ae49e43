"""Port of the gRPC server: its options, and its reservation for several processes."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import closing

from zerofleet.contracts.naming import MAX_MESSAGE_BYTES
from zerofleet.errors import ConfigurationError
from zerofleet.rpc.addresses import require_address
from zerofleet.rpc.inference_channels import KEEPALIVE_TIME_MS
from zerofleet.rpc.security.limits import server_limits

__all__ = ["listening_options", "reserve"]


def listening_options(
    message_bytes: int, max_connection_age_s: float, *, connections: int, shared: bool
) -> Sequence[tuple[str, int]]:
    """Return the options of a server with so many connections; `shared`: several processes of it listen on its port."""
    options = [
        *server_limits(receive_bytes=message_bytes, send_bytes=MAX_MESSAGE_BYTES, connections=connections),
        ("grpc.so_reuseport", int(shared)),  # else a second server on the same port is a mistake, not a second process
        ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_TIME_MS // 2),
        ("grpc.keepalive_permit_without_calls", 1),
    ]
    if max_connection_age_s:
        options.append(("grpc.max_connection_age_ms", int(max_connection_age_s * 1000)))
    return options


def reserve(address: str) -> tuple[socket.socket, str]:
    """Return a socket that keeps the port of `host:port` for processes that share it, and the address with its actual port.

    It does not listen, so it receives no connections. Raises `ConfigurationError` when the address is invalid or in use.
    """
    require_address(address, lowest_port=0)
    host, _, port = address.rpartition(":")
    try:
        number = int(port)
        family, kind, _, _, place = socket.getaddrinfo(
            host.strip("[]"), number, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with closing(socket.socket(family, kind)) as probe:  # fails while another server listens, even one that shares its port
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
            place = probe.getsockname()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot listen on {address}: {error}; is the port in use? set another --address") from error
    held = socket.socket(family, kind)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # of connections that a former server left behind
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        held.bind(place)
    except OSError as error:
        held.close()
        raise ConfigurationError(f"cannot listen on {address}: {error}; is the port in use? set another --address") from error
    return held, f"{host}:{place[1]}"
