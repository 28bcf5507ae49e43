"""Calls of a client: how long a failed one is repeated, several at the same time, and work that a cancellation does not end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from zerofleet.errors import ZerofleetError
from zerofleet.rpc.backoff import Backoff

__all__ = ["FIRST_BACKOFF_S", "MAX_BACKOFF_S", "Patience", "all_of", "to_its_end"]

FIRST_BACKOFF_S = 0.02
MAX_BACKOFF_S = 2.0

Reply = TypeVar("Reply")


class Patience:
    """Limit on the repetition of one call: jittered pauses until the time for its failure is over.

    time_s   time for a failure, from `began_s` to the start of the last attempt, in seconds; 0: the failure is final
    began_s  start of the call, in `loop.time()`; now by default
    first_s  maximum of the first pause; that of all pauses is `MAX_BACKOFF_S`

    Create it inside the event loop, at the latest when the first attempt failed.
    """

    def __init__(
        self,
        time_s: Callable[[ZerofleetError], float],
        *,
        rng: random.Random,
        began_s: float | None = None,
        first_s: float = FIRST_BACKOFF_S,
    ) -> None:
        self._time_s = time_s
        self._now_s = asyncio.get_running_loop().time
        self._began_s = self._now_s() if began_s is None else began_s
        self._backoff = Backoff(first_s, MAX_BACKOFF_S, rng=rng, least_share=0.0)

    def pause_s(self, error: ZerofleetError) -> float | None:
        """Return the pause before the next attempt after a failure; None if that would begin too late."""
        pause_s = self._backoff.next_s()
        return pause_s if self._now_s() + pause_s < self._began_s + self._time_s(error) else None


async def all_of(calls: Iterable[Coroutine[Any, Any, Reply]]) -> list[Reply]:
    """Return the replies of calls in progress at the same time, in order. When one fails, the others are cancelled.

    Raises the first error. Cancellation: cancels every call; raised also when a call fails at that moment, unlike that of a
    task group in Python 3.11 and 3.12.
    """
    begun = [asyncio.ensure_future(call) for call in calls]
    if not begun:
        return []
    try:
        await asyncio.wait(begun, return_when=asyncio.FIRST_EXCEPTION)
        return [call.result() for call in begun if call.done()]  # of all calls, unless one raises
    except (Exception, asyncio.CancelledError):  # not GeneratorExit, of a coroutine that is dropped with its loop
        for call in begun:
            call.cancel()
        await to_its_end(asyncio.gather(*begun, return_exceptions=True))
        raise


async def to_its_end(work: asyncio.Future[Reply], then: Callable[[Reply], None] = lambda reply: None) -> Reply:
    """Return the result of work that goes on when its caller is cancelled, such as that of a thread, after `then` with it.

    Raises the exception of the work. Cancellation, repeated or not: raised once the work has ended and `then` has run, also
    when the work has failed.
    """
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            cancelled = error
    try:
        result = work.result()
        then(result)
    finally:
        if cancelled is not None:
            raise cancelled
    return result
