"""Version that a worker plays: adoption, its age, and the time from export to adoption."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from selfplay_worker.champion import AdoptedModel
from zerofleet.contracts.promotions import Champion
from zerofleet.errors import InvalidRequest
from zerofleet.telemetry import metrics


class Clock:
    """Wall clock that a test sets."""

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


def promoted(version: int, at_s: float, *, exported_s: float) -> Champion:
    return Champion("tic_tac_toe", version, version, "0" * 64, int(at_s * 1000), "won", int(exported_s * 1000))


async def follow(model: AdoptedModel, clock: Clock, *champions: tuple[float, Champion]) -> None:
    """Let the model follow champions, each announced at its time in seconds."""

    async def announced() -> AsyncIterator[Champion]:
        for at_s, champion in champions:
            clock.now_s = at_s
            yield champion

    await model.follow(announced(), delay_s=0.0, rng=random.Random(1))


def observed() -> tuple[float, float]:
    """Return number and sum of the times from export to adoption."""
    samples = {sample.name: sample.value for family in metrics.ADOPTION.collect() for sample in family.samples}
    name = "zerofleet_export_to_adoption_seconds"
    return samples[f"{name}_count"], samples[f"{name}_sum"]


async def test_the_age_counts_from_the_export_of_the_adopted_version() -> None:
    clock = Clock(1000.0)
    model = AdoptedModel(clock=clock)
    assert model.age_s == 0.0
    await follow(model, clock, (1030.0, promoted(1, 1025.0, exported_s=1010.0)))
    assert model.age_s == pytest.approx(20.0)
    clock.now_s = 1100.0
    assert model.age_s == pytest.approx(90.0)


async def test_without_a_time_of_export_the_age_counts_from_the_promotion() -> None:
    clock = Clock(1000.0)
    model = AdoptedModel(clock=clock)
    await follow(model, clock, (1030.0, promoted(1, 1025.0, exported_s=0.0)))
    assert model.age_s == pytest.approx(5.0)


async def test_a_clock_behind_the_trainers_gives_no_negative_age() -> None:
    clock = Clock(1000.0)
    model = AdoptedModel(clock=clock)
    await follow(model, clock, (1001.0, promoted(1, 1002.0, exported_s=1005.0)))
    assert model.age_s == 0.0


async def test_the_time_from_export_to_adoption_is_measured_for_new_versions() -> None:
    count, total = observed()
    clock = Clock(1000.0)
    await follow(
        AdoptedModel(clock=clock),
        clock,
        (1030.0, promoted(1, 1025.0, exported_s=1010.0)),  # 20 s
        (1100.0, promoted(2, 1099.0, exported_s=1060.0)),  # 40 s
    )
    assert observed() == (count + 2, total + 60.0)


async def test_versions_promoted_before_the_start_and_roll_backs_are_not_measured() -> None:
    before = observed()
    clock = Clock(1000.0)
    await follow(
        AdoptedModel(clock=clock),
        clock,
        (1000.0, promoted(7, 900.0, exported_s=890.0)),  # the champion that a new worker finds
        (1100.0, promoted(6, 1099.0, exported_s=500.0)),  # a roll-back
        (1200.0, promoted(8, 1199.0, exported_s=0.0)),  # promoted by an older gatekeeper
    )
    assert observed() == before


async def at_once(*versions: int, then: Exception | None = None) -> AsyncIterator[Champion]:
    """Announce champions without a pause, then raise an error or stay silent."""
    for version in versions:
        yield promoted(version, 1000.0, exported_s=0.0)
    if then is not None:
        raise then
    await asyncio.Event().wait()


async def test_champions_that_are_replaced_within_the_delay_are_passed_over_for_the_newest() -> None:
    model = AdoptedModel()
    following = asyncio.create_task(model.follow(at_once(1, 2, 4, 3), delay_s=1e-6, rng=random.Random(1)))
    await model.newer_than(1)
    assert model.version == 3  # a roll-back does not wait for version 4 either
    following.cancel()


async def test_the_error_of_a_lost_watch_is_raised_while_a_champion_waits_for_its_delay() -> None:
    model = AdoptedModel()
    with pytest.raises(InvalidRequest):
        await model.follow(at_once(1, 2, then=InvalidRequest("another game")), delay_s=1e6, rng=random.Random(1))
    assert model.version == 1


async def test_a_cancelled_worker_adopts_no_champion_that_waits_for_its_delay() -> None:
    class CancelsAtTheDelay(random.Random):
        def uniform(self, a: float, b: float) -> float:
            following.cancel()
            return 0.0

    model = AdoptedModel()
    following = asyncio.create_task(model.follow(at_once(1, 2), delay_s=1.0, rng=CancelsAtTheDelay()))
    with pytest.raises(asyncio.CancelledError):
        await following
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(1e-6, passed.set)  # due after the delay of 0 s
    await passed.wait()
    assert model.version == 1
