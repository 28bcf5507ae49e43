"""Limits of one connection to a gRPC server: message size, metadata size, concurrent calls."""

from __future__ import annotations

__all__ = ["MAX_METADATA_BYTES", "MAX_STREAMS", "server_limits"]

MAX_METADATA_BYTES = 16 << 10  # a token and a traceparent; grpc refuses more with RESOURCE_EXHAUSTED
MAX_STREAMS = 1_024  # concurrent calls per connection, not per peer; further ones queue in the client


def server_limits(*, receive_bytes: int, send_bytes: int) -> list[tuple[str, int]]:
    """Return channel options that bound a server's memory per connection."""
    return [
        ("grpc.max_receive_message_length", receive_bytes),
        ("grpc.max_send_message_length", send_bytes),
        ("grpc.max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.max_concurrent_streams", MAX_STREAMS),
    ]
