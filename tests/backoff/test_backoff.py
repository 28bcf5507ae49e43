"""Pauses between attempts: bounds, growth, jitter."""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest

from zerofleet.rpc.backoff import Backoff

LIMITS_S = [0.2, 0.4, 0.8, 1.0, 1.0]


def limits(share: float = 1.0) -> list[float]:
    return [pytest.approx(share * limit_s) for limit_s in LIMITS_S]


class Extreme(random.Random):
    """Draws one end of every span."""

    def __init__(self, end: int) -> None:
        super().__init__()
        self._end = end

    def uniform(self, a: float, b: float) -> float:
        return (a, b)[self._end]


@pytest.mark.parametrize("least_share", [0.0, 0.5])
def test_each_pause_is_between_a_share_of_its_limit_and_the_limit_which_doubles_up_to_the_longest(least_share: float) -> None:
    for end, share in ((0, least_share), (1, 1.0)):
        backoff = Backoff(0.2, 1.0, rng=Extreme(end), least_share=least_share)
        assert [backoff.next_s() for _ in LIMITS_S] == limits(share)


def test_half_of_the_limit_is_the_shortest_pause_unless_said_otherwise() -> None:
    backoff = Backoff(0.2, 1.0, rng=Extreme(0))
    assert [backoff.next_s() for _ in LIMITS_S] == limits(0.5)


def test_without_randomness_each_pause_is_its_limit() -> None:
    backoff = Backoff(0.2, 1.0, rng=None)
    assert [backoff.next_s() for _ in LIMITS_S] == limits()


def test_a_first_pause_above_the_longest_is_cut() -> None:
    assert Backoff(5.0, 1.0, rng=None).next_s() == 1.0


def test_pauses_begin_again_after_a_reset() -> None:
    backoff = Backoff(0.2, 1.0, rng=None)
    assert [backoff.next_s(), backoff.next_s()] == limits()[:2]
    backoff.reset()
    assert [backoff.next_s(), backoff.next_s()] == limits()[:2]


def test_two_series_with_one_source_of_jitter_do_not_pause_together() -> None:
    rng = random.Random(3)
    pauses = [[backoff.next_s() for _ in range(50)] for backoff in (Backoff(0.1, 5.0, rng=rng), Backoff(0.1, 5.0, rng=rng))]
    assert len(set(itertools.chain(*pauses))) == 100
    assert max(itertools.chain(*pauses)) <= 5.0


def test_the_same_seed_gives_the_same_pauses() -> None:
    first, second = (Backoff(0.1, 5.0, rng=random.Random(3)) for _ in range(2))
    assert [first.next_s() for _ in range(20)] == [second.next_s() for _ in range(20)]


async def test_a_pause_sleeps_as_long_as_was_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def note(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("zerofleet.rpc.backoff.asyncio.sleep", note)
    backoff = Backoff(0.2, 1.0, rng=None)
    for _ in LIMITS_S:
        await backoff.pause()
    assert slept == limits()


async def test_a_pause_ends_with_its_event_or_by_itself() -> None:
    event = asyncio.Event()
    await Backoff(0.001, 1.0, rng=None).pause_unless(event)
    event.set()
    await Backoff(3600.0, 3600.0, rng=None).pause_unless(event)
