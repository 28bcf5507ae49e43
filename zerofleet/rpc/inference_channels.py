"""Channels to inference servers: options and errors.

grpc's defaults do not suit a fleet: messages are limited to 4 MiB, a lost server is retried only after minutes, and of
several replicas behind one name the first receives all calls.
"""

from __future__ import annotations

import json

import grpc

from zerofleet.contracts.naming import MAX_MESSAGE_BYTES
from zerofleet.rpc import channels
from zerofleet.rpc.channel_options import LOOK_UP_AGAIN
from zerofleet.rpc.security.tls import PLAIN, Tls

__all__ = ["open_inference_channel"]

# The server permits pings at this rate (`inference_server.server`); grpc's default minimum is five minutes.
KEEPALIVE_TIME_MS = 30_000
KEEPALIVE_TIMEOUT_MS = 10_000
FIRST_RECONNECT_MS = 100
MAX_RECONNECT_MS = 2_000
CONNECT_TIMEOUT_MS = 5_000

_OPTIONS = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", KEEPALIVE_TIME_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.initial_reconnect_backoff_ms", FIRST_RECONNECT_MS),
    # Despite its name also the connect timeout: if low, a busy machine never completes a handshake.
    ("grpc.min_reconnect_backoff_ms", CONNECT_TIMEOUT_MS),
    ("grpc.max_reconnect_backoff_ms", MAX_RECONNECT_MS),
    LOOK_UP_AGAIN,
    ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})),
    # Share neither connections nor their back-off state with other channels of the process.
    ("grpc.use_local_subchannel_pool", 1),
)


def open_inference_channel(target: str, tls: Tls = PLAIN, *, known_as: str | None = None) -> grpc.aio.Channel:
    """Return a channel to an inference server; see `zerofleet.rpc.channels.open_channel`.

    `known_as` is the target with the server's name, when `target` is one address behind that name.
    """
    named = () if known_as is None else (("grpc.default_authority", known_as.rpartition("/")[2].removeprefix("dns:")),)
    return channels.open_channel(target, (*_OPTIONS, *named), tls)
