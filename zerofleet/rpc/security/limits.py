"""Limits of gRPC servers: connections, and for each of them message size, metadata size, calls, bytes not yet read."""

from __future__ import annotations

__all__ = ["MAX_METADATA_BYTES", "MAX_STREAMS", "UNREAD_BYTES", "server_limits"]

MAX_METADATA_BYTES = 16 << 10  # a token and a traceparent; grpc refuses more with RESOURCE_EXHAUSTED
UNREAD_BYTES = 16 << 10  # of a call that is not being read; a read request opens the window to its size
MAX_STREAMS = 1_024  # concurrent calls per connection, not per peer; further ones queue in the client


def server_limits(*, receive_bytes: int, send_bytes: int, connections: int) -> list[tuple[str, int]]:
    """Return channel options that bound the number of a server's connections, and the memory of each."""
    return [
        ("grpc.max_receive_message_length", receive_bytes),
        ("grpc.max_send_message_length", send_bytes),
        ("grpc.max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.max_concurrent_streams", MAX_STREAMS),
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.http2.lookahead_bytes", UNREAD_BYTES),
        ("grpc.http2.bdp_probe", 0),  # it would widen the window of calls that are not being read
    ]
