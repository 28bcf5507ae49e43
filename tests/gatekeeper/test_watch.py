"""Mode watch: promotion at once, measurement afterwards, rollback of a weaker version."""

import asyncio
from unittest import mock

import pytest

from gatekeeper.watch import Watch
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.errors import ModelNotFound, Unavailable

MODEL = "tic_tac_toe"
WATCH = {"mode": "watch", "watch_elo0": -200.0, "watch_elo1": 0.0, "max_pairs": 20, "watch_share": 0.5}
TRIAL, PROMOTED, UNPROVEN, WEAKER = (
    CandidateStatus.TRIAL,
    CandidateStatus.PROMOTED,
    CandidateStatus.UNPROVEN,
    CandidateStatus.WEAKER,
)


@pytest.fixture
def open_watch(open_gate):
    """Return a function that runs a gatekeeper in mode watch."""
    return lambda **changes: open_gate(**{**WATCH, **changes})


@pytest.fixture
def pause(inference):
    """Return an event; no version but the first is evaluated until it is set."""
    goes_on = asyncio.Event()

    async def wait(version):
        if version > 1:
            await goes_on.wait()

    inference.on_evaluate = wait
    return goes_on


async def measured(gate, *versions):
    """Wait until none of these versions is on trial; return how they stand."""
    await gate.until(lambda: all(gate.ledger.candidate(version).status is not TRIAL for version in versions))
    return [gate.ledger.candidate(version) for version in versions]


def line(gate):
    return [champion.version for champion in gate.pointer.history]


async def test_a_candidate_is_champion_before_its_first_game_and_confirmed_afterwards(open_watch, pause):
    async with open_watch() as gate:
        await gate.offer()
        second = await gate.offer()
        assert (second.status, second.match) == (TRIAL, None)
        assert second.reason == "promoted at once, measured against version 1 afterwards"
        assert (await gate.client.champion(MODEL)).version == 2
        pause.set()
        (second,) = await measured(gate, 2)
        assert second.status is PROMOTED
        assert second.reason.startswith("not weaker than -200 Elo: ")
        assert second.match.champion_version == 1
        assert line(gate) == [1, 2]


async def test_a_weaker_version_is_rolled_back_and_never_promoted_again(open_watch, inference):
    inference.stubborn = {2}
    async with open_watch() as gate:
        await gate.offer()
        await gate.offer()
        (second,) = await measured(gate, 2)
        assert second.status is WEAKER
        assert second.reason.startswith("weaker: ")
        assert second.match.share < 0.4
        assert gate.pointer.champion.version == 1
        assert gate.pointer.champion.reason == f"rollback from 2: {second.reason}"
        again = await gate.client.submit(MODEL, 2, gate.models.store.manifest_sha256(MODEL, 2))
        assert again == second
        listed, champion = await gate.client.models(MODEL)
        assert (listed[1], champion.version) == (second, 1)
        assert line(gate) == [1, 2, 1]


async def test_after_a_rollback_candidates_are_measured_first_until_one_passes(open_watch, inference):
    inference.stubborn = {2, 3}
    async with open_watch() as gate:
        await gate.offer()
        await gate.offer()
        await measured(gate, 2)
        third = await gate.offer()
        assert (third.status, third.match.champion_version) == (CandidateStatus.REJECTED, 1)
        fourth = await gate.offer()
        assert (fourth.status, fourth.match.champion_version) == (PROMOTED, 1)
        fifth = await gate.offer()
        assert fifth.reason == "promoted at once, measured against version 4 afterwards"
        assert line(gate) == [1, 2, 1, 4, 5]


async def test_a_newer_champion_does_not_end_the_measurement_of_its_predecessor(open_watch, inference, pause):
    inference.stubborn = {2}
    async with open_watch() as gate:
        for _ in range(3):
            await gate.offer()
        assert line(gate) == [1, 2, 3]
        pause.set()
        second, third = await measured(gate, 2, 3)
        assert (second.status, second.match.champion_version) == (WEAKER, 1)
        # It recovered: measured against the last confirmed champion, not against the weaker one.
        assert (third.status, third.match.champion_version) == (PROMOTED, 1)
        assert line(gate) == [1, 2, 3]


async def test_a_rollback_goes_past_every_version_found_weaker(open_watch, inference, pause):
    inference.stubborn = {2, 3}
    async with open_watch() as gate:
        for _ in range(3):
            await gate.offer()
        pause.set()
        second, third = await measured(gate, 2, 3)
        assert (second.status, third.status) == (WEAKER, WEAKER)
        assert line(gate) == [1, 2, 3, 1]


async def test_a_version_replaced_before_its_measurement_is_unproven_and_no_reference(open_watch, pause):
    async with open_watch() as gate:
        for _ in range(4):
            await gate.offer()
        pause.set()
        second, third, fourth = await measured(gate, 2, 3, 4)
        assert (second.status, second.match.champion_version) == (PROMOTED, 1)
        assert (third.status, third.reason) == (UNPROVEN, "version 4 replaced it before it was measured")
        assert (fourth.status, fourth.match.champion_version) == (PROMOTED, 2)


async def test_candidates_wait_while_the_champion_after_a_weaker_version_is_measured(open_watch, inference):
    inference.stubborn = {2, 3}
    goes_on = {version: asyncio.Event() for version in (1, 2, 3, 4)}
    goes_on[1].set()
    goes_on[4].set()

    async def wait(version):
        await goes_on[version].wait()

    inference.on_evaluate = wait
    async with open_watch() as gate:
        for _ in range(3):
            await gate.offer()
        goes_on[2].set()
        await measured(gate, 2)
        await gate.client.submit(MODEL, *gate.models.publish())
        assert gate.arbiter._next() is None
        assert gate.ledger.candidate(4).status is CandidateStatus.QUEUED
        goes_on[3].set()
        (third,) = await measured(gate, 3)
        assert third.status is WEAKER
        fourth = await gate.settled(4)
        assert (fourth.status, fourth.match.champion_version) == (PROMOTED, 1)
        assert line(gate) == [1, 2, 3, 1, 4]


async def test_an_undecided_version_stays_and_the_next_is_measured_against_the_same_reference(open_watch):
    async with open_watch(max_pairs=1) as gate:
        await gate.offer()
        await gate.offer()
        (second,) = await measured(gate, 2)
        assert second.status is UNPROVEN
        assert second.reason.startswith("undecided at the last game: ")
        assert gate.pointer.champion.version == 2
        third = await gate.offer()
        assert third.reason == "promoted at once, measured against version 1 afterwards"
        (third,) = await measured(gate, 3)
        assert third.match.champion_version == 1


async def test_small_losses_cannot_add_up_because_the_reference_stays(open_watch, inference):
    """Versions 2 and 3 end undecided; version 4 is compared with version 1, not with its own predecessor."""
    inference.stubborn = {4}
    async with open_watch(max_pairs=2, watch_elo0=-50.0) as gate:
        for _ in range(3):
            await gate.offer()
            await measured(gate, *[version for version in (2, 3) if gate.ledger.candidate(version)])
        fourth = await gate.offer()
        assert "against version 1" in fourth.reason


async def test_a_version_with_invalid_evaluations_is_rolled_back_as_broken(open_watch, inference):
    inference.nonsense = {2}
    async with open_watch() as gate:
        await gate.offer()
        await gate.offer()
        (second,) = await measured(gate, 2)
        assert (second.status, second.reason) == (CandidateStatus.BROKEN, "version 2 answers NaN")
        assert line(gate) == [1, 2, 1]


async def test_a_damaged_or_unloadable_candidate_never_becomes_champion(open_watch, inference):
    inference.broken = {2}
    async with open_watch() as gate:
        await gate.offer()
        assert (await gate.offer()).status is CandidateStatus.BROKEN
        assert line(gate) == [1]


async def test_a_rollback_by_hand_ends_the_measurement(open_watch, pause):
    async with open_watch() as gate:
        await gate.offer()
        await gate.offer()
        assert (await gate.client.rollback(MODEL, reason="looks odd")).version == 1
        pause.set()
        (second,) = await measured(gate, 2)
        assert (second.status, second.reason) == (UNPROVEN, "rolled back before it was measured")
        await gate.until(lambda: not gate.ledger.boards("gate"))
        assert (await gate.offer()).status is TRIAL


async def test_a_version_promoted_by_hand_is_confirmed_and_its_measurement_void(open_watch, inference, pause):
    inference.stubborn = {2}
    async with open_watch() as gate:
        for _ in range(3):
            await gate.offer()
        await gate.client.promote(MODEL, 2, reason="I know better")
        pause.set()
        await gate.until(lambda: not gate.ledger.boards("gate"))
        second = gate.ledger.candidate(2)
        assert (second.status, second.reason) == (PROMOTED, "I know better")
        assert gate.pointer.champion.version == 2


async def test_a_champion_on_trial_that_is_promoted_by_hand_is_confirmed_and_its_measurement_void(open_watch, inference, pause):
    inference.stubborn = {2}
    async with open_watch() as gate:
        for _ in range(2):
            await gate.offer()
        champion = await gate.client.promote(MODEL, 2, reason="I know better")
        assert (champion.version, champion.reason) == (2, "I know better")
        pause.set()
        await gate.until(lambda: not gate.ledger.boards("gate"))
        second = gate.ledger.candidate(2)
        assert (second.status, second.reason) == (PROMOTED, "I know better")
        assert await gate.client.promote(MODEL, 2, reason="once more") == champion
        assert line(gate) == [1, 2, 2]
        assert (await gate.client.rollback(MODEL, reason="I was wrong")).version == 1


async def test_a_champion_without_a_verdict_that_is_promoted_by_hand_is_the_next_reference(open_watch):
    async with open_watch(max_pairs=1) as gate:
        for _ in range(2):
            await gate.offer()
        assert (await measured(gate, 2))[0].status is UNPROVEN
        await gate.client.promote(MODEL, 2, reason="good enough")
        third = await gate.offer()
        assert third.reason == "promoted at once, measured against version 2 afterwards"


async def test_a_promotion_by_hand_holds_although_its_verdict_could_not_be_noted(open_watch, inference, pause, monkeypatch):
    inference.stubborn = {2}
    async with open_watch() as gate:
        for _ in range(3):
            await gate.offer()
        with monkeypatch.context() as full:
            full.setattr(gate.ledger, "set_status", mock.AsyncMock(side_effect=Unavailable("the disk is full")))
            await gate.client.promote(MODEL, 2, reason="I know better")
        pause.set()
        (second,) = await measured(gate, 2)
        assert (second.status, second.reason) == (PROMOTED, "I know better")
        assert line(gate) == [1, 2, 3, 2]


async def test_a_verdict_that_waits_for_a_promotion_by_hand_does_not_undo_it(open_watch, inference, pause, monkeypatch):
    inference.stubborn = {2}
    withdraw, decided = Watch._withdraw, asyncio.Event()

    async def announced(watch, *given):
        decided.set()
        await withdraw(watch, *given)

    monkeypatch.setattr(Watch, "_withdraw", announced)
    async with open_watch() as gate:
        for _ in range(3):
            await gate.offer()
        serve = inference.serve

        async def after_the_match(*given):  # the promotion is under way until then
            pause.set()
            await decided.wait()
            await serve(*given)

        monkeypatch.setattr(inference, "serve", after_the_match)
        await gate.client.promote(MODEL, 2, reason="I know better")
        await gate.until(lambda: gate.ledger.candidate(3).status is not TRIAL)
        second = gate.ledger.candidate(2)
        assert (second.status, second.reason) == (PROMOTED, "I know better")
        assert line(gate) == [1, 2, 3, 2]


async def test_a_rolled_back_version_is_not_promoted_again_although_the_journal_was_lost(open_watch, inference, tmp_path):
    inference.stubborn = {2}
    async with open_watch() as gate:
        await gate.offer()
        await gate.offer()
        await measured(gate, 2)
    (tmp_path / "gatekeeper" / "journal.jsonl").unlink()
    async with open_watch() as gate:
        sha256 = gate.models.store.manifest_sha256(MODEL, 2)
        await gate.client.submit(MODEL, 2, sha256)
        second = await gate.settled(2)
        assert (second.status, gate.pointer.champion.version) == (CandidateStatus.REJECTED, 1)
        assert "rolled back or replaced before" in second.reason


async def test_a_measurement_resumes_after_a_restart_in_any_mode(open_watch, open_gate, inference):
    inference.stubborn = {2}
    async with open_watch() as gate:
        await gate.offer()
        await gate.offer()
        await gate.until(lambda: any(board.results() for board in gate.ledger.boards("gate")) or line(gate) == [1, 2, 1])
    async with open_gate(**{**WATCH, "mode": "sprt"}) as gate:
        (second,) = await measured(gate, 2)
        assert second.status is WEAKER
        assert line(gate) == [1, 2, 1]


async def test_an_absent_inference_server_delays_the_measurement_only(open_watch, inference, pause):
    async with open_watch() as gate:
        await gate.offer()
        await gate.offer()
        inference.away = True
        pause.set()
        await inference.asked_in_vain.get()
        assert gate.ledger.candidate(2).status is TRIAL
        inference.away = False
        (second,) = await measured(gate, 2)
        assert second.status is PROMOTED


async def test_the_measurements_of_a_whole_run_stay_within_their_share(open_watch, inference):
    inference.fleet = 300
    async with open_watch(watch_share=0.1) as gate:
        for _ in range(4):
            await gate.offer()
            await measured(gate, *range(1, 1 + len(gate.ledger.candidates())))
        gate_rows = sum(rows for (_, version), rows in inference.counters.items()) - inference.fleet_rows
        total = sum(inference.counters.values())
        assert 0 < gate_rows <= 0.1 * total + 16 * 40


@pytest.mark.parametrize("mode", ["sprt", "share", "watch"])
async def test_a_champion_that_was_never_trained_is_replaced_without_a_match(open_gate, inference, mode):
    asked = []

    async def note(version):
        asked.append(version)

    inference.on_evaluate = note
    async with open_gate(**{**WATCH, "mode": mode}) as gate:
        await gate.offer(train_steps=0)
        second = await gate.offer(train_steps=1_234)
        assert (second.status, second.match) == (PROMOTED, None)
        assert second.reason == "trained (1,234 steps), and champion 1 never was: no match needed"
        assert gate.pointer.champion.version == 2
        assert asked == []


async def test_an_untrained_candidate_and_one_with_a_parent_must_play(open_gate):
    async with open_gate(max_pairs=4) as gate:
        await gate.offer(train_steps=0)
        assert (await gate.offer(train_steps=0)).match is not None
    async with open_gate(max_pairs=4) as gate:
        await gate.client.promote(MODEL, gate.models.publish(train_steps=0, parent_version=1)[0], reason="")
        assert (await gate.offer()).match is not None


async def test_a_champion_whose_verdict_was_lost_is_measured_although_a_newer_candidate_waits(open_watch, pause):
    async with open_watch() as gate:
        await gate.offer()
        await gate.offer()
    async with open_watch(by_hand_only=True) as gate:
        await gate.ledger.set_status(2, CandidateStatus.QUEUED)  # as after a kill between pointer and verdict
        await gate.client.submit(MODEL, *gate.models.publish())
    async with open_watch() as gate:
        await gate.settled(3)
        assert gate.ledger.candidate(2).status is TRIAL
        assert gate.ledger.candidate(2).reason == "promoted at once, measured against version 1 afterwards"


async def test_nothing_is_rolled_back_to_where_there_is_no_earlier_champion(open_watch):
    async with open_watch() as gate:
        await gate.offer()
        with pytest.raises(ModelNotFound):
            await gate.client.rollback(MODEL, reason="")


async def test_the_ladder_rates_the_confirmed_champion_to_the_end_while_versions_on_trial_play(open_watch, pause):
    async with open_watch(ladder_games=6) as gate:
        await gate.offer()
        for _ in range(3):
            await gate.offer()  # each on trial: `pause` holds up every version but the first
        assert (await gate.client.champion(MODEL)).version == 4
        await gate.until(lambda: gate.ledger.games_between("model:1", "random") == 6)
        assert gate.ledger.games_between("model:4", "random") == 0
        rungs = [rung.name for rung in await gate.client.ladder(MODEL)]
        assert "model:1" in rungs
        assert "model:4" not in rungs
