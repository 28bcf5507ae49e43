"""Channels of all clients: TLS on the network according to the settings, plain text on unix sockets.

grpc reads the files of a client once. These channels recheck them periodically; after a renewal, new calls use a new
connection while calls in progress finish on the old one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import grpc

from zerofleet.rpc.addresses import is_unix, require_address
from zerofleet.rpc.security.tls import PLAIN, Material, RenewedMaterial, Tls

__all__ = ["RenewingChannel", "open_channel"]

LOOK_AGAIN_S = 5.0

Options = Sequence[tuple[str, Any]]
Opener = Callable[[Material], grpc.aio.Channel]


def open_channel(target: str, options: Options, tls: Tls = PLAIN) -> grpc.aio.Channel:
    """Return a channel to `host:port`, `dns:///name:port` or `unix:/path`; it connects on first use.

    Raises `ConfigurationError` for an invalid address, or when the files of `tls` cannot be used.
    """
    require_address(target)
    if is_unix(target) or not tls:
        return grpc.aio.insecure_channel(target, options=options)

    def secure(material: Material) -> grpc.aio.Channel:
        credentials = grpc.ssl_channel_credentials(material.roots, material.key, material.chain)
        return grpc.aio.secure_channel(target, credentials, options=options)

    return RenewingChannel(secure, RenewedMaterial(tls))


class RenewingChannel(grpc.aio.Channel):  # type: ignore[misc,unused-ignore]
    """Channel whose new calls use a connection made with the newest material.

    Channels with earlier material stay open until this one is closed, because endless calls such as a watch still use them.
    Each renewal adds one: a few per year.
    """

    def __init__(self, open_: Opener, files: RenewedMaterial) -> None:
        self._open = open_
        self._files = files
        self._looked_at = time.monotonic()
        self._channels = [open_(files.material)]

    def current(self) -> grpc.aio.Channel:
        """Return the channel for a new call."""
        now = time.monotonic()
        if now - self._looked_at >= LOOK_AGAIN_S:
            self._looked_at = now
            if self._files.look_again():
                self._channels.append(self._open(self._files.material))
        return self._channels[-1]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        """Close all connections. Cancellation: some may stay open until garbage-collected."""
        for channel in self._channels:
            await channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:  # noqa: FBT001, FBT002, RUF100
        """See `grpc.aio.Channel`."""
        return self.current().get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """See `grpc.aio.Channel`."""
        await self.current().wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """See `grpc.aio.Channel`."""
        await self.current().channel_ready()

    def unary_unary(self, method: str, *codec: Any, **options: Any) -> Any:
        """See `grpc.aio.Channel`."""
        return _Call(self, "unary_unary", method, *codec, **options)

    def unary_stream(self, method: str, *codec: Any, **options: Any) -> Any:
        """See `grpc.aio.Channel`."""
        return _Call(self, "unary_stream", method, *codec, **options)

    def stream_unary(self, method: str, *codec: Any, **options: Any) -> Any:
        """See `grpc.aio.Channel`."""
        return _Call(self, "stream_unary", method, *codec, **options)

    def stream_stream(self, method: str, *codec: Any, **options: Any) -> Any:
        """See `grpc.aio.Channel`."""
        return _Call(self, "stream_stream", method, *codec, **options)


class _Call:
    """Callable of one method; starts each call on the newest channel."""

    def __init__(self, owner: RenewingChannel, kind: str, *about: Any, **options: Any) -> None:
        self._owner, self._kind, self._about, self._options = owner, kind, about, options
        self._begun: tuple[grpc.aio.Channel, Callable[..., Any]] | None = None

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        channel = self._owner.current()
        if self._begun is None or self._begun[0] is not channel:
            self._begun = channel, getattr(channel, self._kind)(*self._about, **self._options)
        return self._begun[1](*arguments, **options)
