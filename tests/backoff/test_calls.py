"""Repetition of a call within a patience, and several calls at the same time."""

from __future__ import annotations

import asyncio
import random

import pytest

from zerofleet.errors import CorruptModel, Overloaded, Unavailable
from zerofleet.rpc.calls import FIRST_BACKOFF_S, MAX_BACKOFF_S, Patience, all_of


class Longest(random.Random):
    """Draws the longest pause of every span."""

    def uniform(self, a: float, b: float) -> float:
        return b


async def test_a_call_is_repeated_until_its_pause_would_end_after_the_time_for_its_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 100.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now_s)
    patience = Patience(lambda error: 60.0 if isinstance(error, Overloaded) else 0.0, rng=Longest())
    assert patience.pause_s(Overloaded("full")) == FIRST_BACKOFF_S
    now_s += 50.0
    assert [patience.pause_s(Overloaded("full")) for _ in range(7)] == [
        min(FIRST_BACKOFF_S * 2**number, MAX_BACKOFF_S) for number in range(1, 8)
    ]
    assert patience.pause_s(Overloaded("full")) == MAX_BACKOFF_S
    now_s += 8.0
    assert patience.pause_s(Overloaded("full")) is None
    now_s -= 58.0
    assert patience.pause_s(CorruptModel("not finite")) is None
    assert patience.pause_s(Overloaded("full")) == MAX_BACKOFF_S


async def test_replies_of_all_calls_come_in_their_order() -> None:
    first_may_end = asyncio.Event()

    async def first() -> int:
        await first_may_end.wait()
        return 1

    async def second() -> int:
        first_may_end.set()
        return 2

    assert await all_of([first(), second()]) == [1, 2]
    assert await all_of([]) == []


async def test_the_first_error_of_several_calls_is_raised_and_the_others_are_cancelled() -> None:
    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def fails() -> None:
        raise Unavailable("away")

    with pytest.raises(Unavailable, match="away"):
        await all_of([waits(), fails(), waits()])
    assert ended == ["cancelled"] * 2


async def test_a_cancellation_that_meets_a_failed_call_is_raised() -> None:
    async def fails() -> None:
        calls.cancel()
        raise Unavailable("away")

    calls = asyncio.ensure_future(all_of([fails()]))
    with pytest.raises(asyncio.CancelledError):
        await calls
    assert calls.cancelled()
