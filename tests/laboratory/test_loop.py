"""A trial depends on its seed and settings alone, and ends when its budget is spent."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from laboratory import loop
from laboratory.clock import ProcessorClock
from laboratory.loop import Loop
from zerofleet.evaluators.base import Evaluator
from zerofleet.presets.trial import Trial
from zerofleet.strength.learning.judges import Measure

pytestmark = pytest.mark.slow

SETTINGS = {
    "search.simulations": "8",
    "search.fast_simulations": "4",
    "network.channels": "8",
    "selfplay.slots": "32",
    "train.batch_size": "32",
    "train.min_samples": "100",
    "train.samples_per_candidate": "150",
    "train.candidate_growth": "0",
}
TIMES = ("cpu_seconds", "cpu_seconds_used", "start_cpu_seconds", "wall_seconds")


class CountingJudge:
    """Judge whose measure is the version."""

    async def judge(self, evaluator: Evaluator, version: int) -> list[Measure]:
        return [Measure("version", version, version, version, 1)]


async def run(folder: Path, *, clock: ProcessorClock | None = None, **fields: Any) -> list[dict[str, Any]]:
    """Return the events of a small trial."""
    terms = {"game": "tic_tac_toe", "preset": "tiny", "settings": SETTINGS, "judge_every": 200.0, "simulations": 0, **fields}
    events: list[dict[str, Any]] = []
    await Loop(Trial.model_validate(terms), folder, judge=CountingJudge(), emit=events.append, clock=clock).run()
    return [event for event in events if event["event"] != "progress"]


def without_times(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in event.items() if name not in TIMES} for event in events]


@pytest.fixture(scope="module")
def events(tmp_path_factory) -> list[dict[str, Any]]:
    """Return the events of a trial of 450 samples."""
    return asyncio.run(run(tmp_path_factory.mktemp("trial"), samples=450))


async def test_two_trials_with_equal_seeds_agree_in_every_figure_and_weight(tmp_path, events):
    assert without_times(await run(tmp_path / "a", samples=450)) == without_times(events)
    other = await run(tmp_path / "b", samples=450, seed=1)
    assert other[-1]["weights"] != events[-1]["weights"]


async def test_the_judgements_do_not_change_what_is_learnt(tmp_path, events):
    often = await run(tmp_path / "a", samples=450, judge_every=60.0)
    assert len(often) > len(events)
    assert often[-1]["weights"] == events[-1]["weights"]


def test_judgements_fall_on_their_planned_places_and_count_what_happened(events):
    assert [event["event"] for event in events] == ["judgement", "judgement", "judgement", "end"]
    assert [event["planned"] for event in events[:-1]] == [200, 400, 450]
    for event in events[:-1]:
        assert event["done"] == event["samples"] >= event["planned"]
        assert event["evaluations"] == pytest.approx(event["evaluations_per_sample"] * event["samples"])
        assert event["samples_trained"] == 32 * event["steps"] <= event["reuse"] * event["samples"] + 1
    parts = [event["since_last"] for event in events[:-1]]
    for name in ("games", "samples"):  # finished games that wait for the trainer's turn are diagnosed, and not yet its own
        assert events[-1][name] <= sum(part[name] for part in parts) < 1.5 * events[-1][name]
    assert all(0 < part["new_positions"] <= part["positions"] for part in parts)
    assert all(0 < part["target_entropy_nat"] < 2.2 for part in parts)  # ln 9 = 2.197
    assert all(0 <= part["wins_in_one_overlooked"] <= part["wins_in_one"] for part in parts)


def test_a_candidate_is_adopted_at_once(events):
    assert [event["measures"][0]["value"] for event in events[:-1]] == [event["version"] for event in events[:-1]]
    assert events[-1]["version"] == 3  # random weights, then a candidate at 150 samples and one at 300 at the earliest
    assert events[-1]["version_samples"] >= 300
    assert 0 <= events[-1]["samples"] - events[-1]["version_samples"] < 150  # no further one was due and not adopted


async def test_a_budget_of_processor_seconds_counts_every_part_and_no_judgement(tmp_path):
    ticks = itertools.count()
    clock = ProcessorClock(lambda: 0.02 * next(ticks))  # each look at the clock takes a fiftieth of a second
    events = await run(tmp_path / "a", clock=clock, cpu_seconds=16.0, judge_every=8.0)
    assert [event["planned"] for event in events[:-1]] == [8, 16]
    last = events[-2]
    assert 16 <= last["cpu_seconds_used"] < 17
    assert sum(last["cpu_seconds"].values()) == pytest.approx(last["cpu_seconds_used"], abs=0.1)
    assert set(last["cpu_seconds"]) == {"search", "evaluation", "self_play", "intake", "learning", "adoption"}


async def test_the_wall_clock_time_of_a_trial_is_without_its_compilation(tmp_path, monkeypatch):
    now_s, warm_up = [0.0], Loop._warm_up

    def compiled(self: Loop, *given: Any) -> None:
        warm_up(self, *given)
        now_s[0] += 1000.0

    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    monkeypatch.setattr(Loop, "_warm_up", compiled)
    events = await run(tmp_path / "a", samples=200)
    assert [event["wall_seconds"] for event in events] == [0.0] * len(events)


@pytest.mark.parametrize("budget", [{"cpu_seconds": 15.0, "judge_every": 5.0}, {"samples": 450, "judge_every": 150.0}])
async def test_a_schedule_over_the_plan_falls_over_the_budget(tmp_path, budget):
    falling = {"train.schedule": "linear", "train.schedule_over": "plan", "train.schedule_floor": "0"}
    settings = SETTINGS | falling | {"train.warmup_steps": "0", "train.learning_rate": "0.004"}
    ticks = itertools.count()
    clock = ProcessorClock(lambda: 0.02 * next(ticks))
    *judged, _end = await run(tmp_path / "a", clock=clock, settings=settings, **budget)
    assert len(judged) > 1
    whole, begin = judged[-1]["planned"], 0.0
    for event in judged:
        lowest, highest = (0.004 * max(0.0, 1.0 - done / whole) for done in (event["done"], begin))
        assert lowest - 1e-9 <= event["learning_rate"] < highest
        begin = event["done"]


async def test_running_games_switch_to_a_new_version_or_finish_on_theirs(tmp_path):
    finish = SETTINGS | {"selfplay.staleness": "finish"}
    results = [
        (await run(tmp_path / name, samples=450, settings=terms))[-1] for name, terms in (("a", SETTINGS), ("b", finish))
    ]
    assert results[0]["weights"] != results[1]["weights"]


async def test_a_warm_start_trains_the_first_version_before_self_play(tmp_path):
    warm = SETTINGS | {"warm_start.games": "70", "warm_start.agents": "random", "warm_start.policy": "one_hot"}
    first, second = [await run(tmp_path / name, samples=700, judge_every=100.0, settings=warm) for name in "ab"]
    assert without_times(first) == without_times(second)
    judged = first[:-1]
    assert judged[0]["version"] == 1
    assert judged[0]["samples"] == judged[0]["version_samples"]  # the first version is as old as the last game of the agents
    assert judged[0]["games"] == 70
    assert judged[0]["evaluations"] == 0
    assert judged[0]["since_last"]["games"] == 0  # diagnosis is of self-play
    assert judged[-1]["version"] > 1
    assert judged[-1]["evaluations"] > 0


@pytest.mark.parametrize("games", [30, 70])
async def test_a_trial_killed_in_its_warm_start_continues_with_the_games_that_were_played(tmp_path, monkeypatch, games):
    monkeypatch.setattr(loop, "REPORT_EVERY_S", 0.0)
    warm = SETTINGS | {"warm_start.games": "70", "warm_start.agents": "random"}
    terms = {"game": "tic_tac_toe", "preset": "tiny", "settings": warm, "samples": 700, "judge_every": 300, "simulations": 0}
    trial = Trial.model_validate(terms)

    def killed(event: dict[str, Any]) -> None:
        if event["games"] >= games:
            raise KeyError("killed")

    with pytest.raises(KeyError, match="killed"):
        await Loop(trial, tmp_path, judge=CountingJudge(), emit=killed).run()
    events: list[dict[str, Any]] = []
    await Loop(trial, tmp_path, judge=CountingJudge(), emit=events.append, start=2).run()
    assert min(event["games"] for event in events) >= games
    first = next(event for event in events if event["event"] == "judgement")
    assert first["version"] >= 1
    assert first["games"] >= 70
    assert events[-1]["samples"] >= 700


async def test_a_budget_that_ends_during_the_warm_start_judges_nothing(tmp_path):
    warm = SETTINGS | {"warm_start.games": "70", "warm_start.agents": "random"}
    (end,) = await run(tmp_path / "a", samples=20, settings=warm)
    assert (end["event"], end["version"]) == ("end", 0)
    assert 20 <= end["samples"] < 40
