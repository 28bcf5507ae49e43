"""What every gRPC client of this project is at bottom: the owner of one channel, closed when its block ends."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import grpc

from zerofleet.errors import Unavailable, ZerofleetError
from zerofleet.rpc.requests import outgoing
from zerofleet.rpc.security.diagnosis import why_unreachable
from zerofleet.rpc.security.tls import PLAIN, Tls
from zerofleet.rpc.security.tokens import token_metadata

__all__ = ["ChannelClient"]


class ChannelClient:
    """Owns the channel to `target`, and the token its calls present; knows how the channel was made.

    Make it inside the event loop that uses it; an async context manager.
    """

    def __init__(
        self,
        target: str,
        channel: grpc.aio.Channel,
        token: str | None = None,
        tls: Tls = PLAIN,
        *,
        known_as: str | None = None,
    ) -> None:
        self.target = target
        self._channel = channel
        self._token_metadata = token_metadata(token)
        self._tls = tls
        self._known_as = known_as

    @property
    def _metadata(self) -> tuple[tuple[str, str], ...]:
        """What a call says beside its message: the token, and on whose behalf it is made."""
        return outgoing(self._token_metadata)

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

    async def explained(self, error: ZerofleetError) -> ZerofleetError:
        """Return the error of a call; when nobody could be reached and TLS is why, one that says what is wrong with it.

        Cancellation: nothing happened.
        """
        if not isinstance(error, Unavailable) or self._channel.get_state() is grpc.ChannelConnectivity.READY:
            return error
        why = await why_unreachable(self.target, self._tls, known_as=self._known_as)
        return error if why is None else Unavailable(f"{self.target} cannot be reached: {why}")
