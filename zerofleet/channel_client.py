"""What every gRPC client of this project is at bottom: the owner of one channel, closed when its block ends."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import grpc

from zerofleet.security.tokens import token_metadata

__all__ = ["ChannelClient"]


class ChannelClient:
    """Owns the channel to `target`, and the token its calls present.

    Make it inside the event loop that uses it; an async context manager.
    """

    def __init__(self, target: str, channel: grpc.aio.Channel, token: str | None = None) -> None:
        self.target = target
        self._channel = channel
        self._metadata = token_metadata(token)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the channel; calls under way end as `Unavailable`.

        Cancellation: the channel may stay open until it is collected; close it again.
        """
        await self._channel.close()
