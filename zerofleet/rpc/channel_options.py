"""Options of channels: of all to a name, and of those to a gatekeeper, which suit any server of calls with small messages."""

from __future__ import annotations

__all__ = ["CHANNEL_OPTIONS", "LOOK_UP_AGAIN", "PAGE_SIZE"]

PAGE_SIZE = 500
"""Candidates in a page, below 4 MiB with the longest reasons."""

# After a lost connection the name is looked up again: a server that was moved has another address. grpc waits 30 s between two.
LOOK_UP_AGAIN = ("grpc.dns_min_time_between_resolutions_ms", 1_000)

# A watch may be idle for hours; pings detect a dead connection. The server permits this rate.
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", 16 << 20),  # a gatekeeper without pages sends the whole list
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    LOOK_UP_AGAIN,
    # Do not share connections between clients: after a server restart, none may inherit another's back-off state.
    ("grpc.use_local_subchannel_pool", 1),
)
