"""Version that a worker plays: adoption, its age, and the time from export to adoption."""

import random
from collections.abc import AsyncIterator

import pytest

from selfplay_worker.champion import AdoptedModel
from zerofleet.contracts.promotions import Champion
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
