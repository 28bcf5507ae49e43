"""Base of the gRPC clients: owner of one channel, closed when its block ends."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import Self, TypeVar

import grpc

from zerofleet.errors import Overloaded, Unavailable, ZerofleetError
from zerofleet.rpc.calls import Patience
from zerofleet.rpc.requests import outgoing
from zerofleet.rpc.security.diagnosis import why_unreachable
from zerofleet.rpc.security.tls import PLAIN, Tls
from zerofleet.rpc.security.tokens import token_metadata

__all__ = ["ChannelClient"]

FIRST_RETRY_S = 0.1

Reply = TypeVar("Reply")


class ChannelClient:
    """Owner of the channel to `target`, its TLS settings and the token that its calls present.

    Async context manager; create it inside the event loop that uses it.
    """

    def __init__(
        self,
        target: str,
        channel: grpc.aio.Channel,
        token: str | None = None,
        tls: Tls = PLAIN,
        *,
        known_as: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """`headers`: further metadata of every call."""
        self.target = target
        self._channel = channel
        self._own_metadata = (*token_metadata(token), *headers)
        self._tls = tls
        self._known_as = known_as
        self._closed = False

    @property
    def _metadata(self) -> tuple[tuple[str, str], ...]:
        """Metadata of a call: the token, further headers, request id and traceparent."""
        return outgoing(self._own_metadata)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the channel; calls in progress and later ones fail with `Unavailable`.

        Cancellation: the channel may stay open until garbage-collected; close it again.
        """
        self._closed = True
        await self._channel.close()

    async def retried(
        self,
        start: Callable[[], Awaitable[Reply]],
        meaning: Callable[[grpc.aio.AioRpcError], ZerofleetError],
        *,
        patience_s: float,
    ) -> Reply:
        """Return the reply of a call; while the server is overloaded, call again with jittered back-off for `patience_s`.

        An overloaded server refuses a call before it does anything, so that any call may be repeated.
        Raises the error that `meaning` makes of a failed call. Cancellation: that of the call.
        """
        rng = random.Random()  # noqa: S311 - jitter, not a secret
        time_s = functools.partial(_while_overloaded, patience_s)
        return await self.repeated(start, meaning, Patience(time_s, rng=rng, first_s=FIRST_RETRY_S))

    async def repeated(
        self,
        start: Callable[[], Awaitable[Reply]],
        meaning: Callable[[grpc.aio.AioRpcError], ZerofleetError],
        patience: Patience,
        *,
        on_retry: Callable[[ZerofleetError], None] = lambda failure: None,
    ) -> Reply:
        """Return the reply of a call, made again after each pause of `patience`; `on_retry` is called with each reason.

        Raises the error that `meaning` makes of the last failure. Cancellation: that of the call.
        """
        while True:
            try:
                with self.while_open():
                    return await start()
            except grpc.aio.AioRpcError as failure:
                error = meaning(failure)
                pause_s = patience.pause_s(error)
                if pause_s is None:
                    raise await self.explained(error) from failure
            await asyncio.sleep(pause_s)
            on_retry(error)

    @contextlib.contextmanager
    def while_open(self) -> Iterator[None]:
        """Make calls of the channel; raises `Unavailable` once it is closed, in place of the errors that grpc has for it."""
        if self._closed:
            raise Unavailable(f"{self.target}: the client was closed; make another one")
        try:
            yield
        except (asyncio.CancelledError, grpc.aio.UsageError):
            task = asyncio.current_task()
            if not self._closed or task is None or task.cancelling():  # the cancellation of this task, not that of the call
                raise
            raise Unavailable(f"{self.target}: the connection was closed during a call") from None

    async def explained(self, error: ZerofleetError) -> ZerofleetError:
        """Return the error of a call; if the server is unreachable because of TLS, one that names the cause.

        Cancellation: no effect.
        """
        if not isinstance(error, Unavailable) or self._closed or self._channel.get_state() is grpc.ChannelConnectivity.READY:
            return error
        why = await why_unreachable(self.target, self._tls, known_as=self._known_as)
        return error if why is None else Unavailable(f"{self.target} cannot be reached: {why}")


def _while_overloaded(patience_s: float, error: ZerofleetError) -> float:
    """Return the time for which a call is repeated after a failure."""
    return patience_s if isinstance(error, Overloaded) else 0.0
