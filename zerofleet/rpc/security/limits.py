"""What one connection may ask of a gRPC server: bytes of a message, bytes of metadata, calls of one connection."""

from __future__ import annotations

__all__ = ["MAX_METADATA_BYTES", "MAX_STREAMS", "server_limits"]

MAX_METADATA_BYTES = 16 << 10  # a token and a trace; grpc refuses more with RESOURCE_EXHAUSTED
MAX_STREAMS = 1_024  # calls in progress of one connection, not of one peer; a client's further ones wait at the client


def server_limits(*, receive_bytes: int, send_bytes: int) -> list[tuple[str, int]]:
    """Return channel options that bound what one connection can make a server hold."""
    return [
        ("grpc.max_receive_message_length", receive_bytes),
        ("grpc.max_send_message_length", send_bytes),
        ("grpc.max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.max_concurrent_streams", MAX_STREAMS),
    ]
