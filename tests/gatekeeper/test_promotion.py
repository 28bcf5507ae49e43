import asyncio

import pytest
from structlog.testing import capture_logs
from watching_calls import note_version

from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.errors import InvalidRequest, ModelNotFound
from zerofleet.strength.matches import SequentialTest
from zerofleet.telemetry import metrics

MODEL = "tic_tac_toe"


async def test_the_first_candidate_is_promoted_at_once_after_its_checks(open_gate, inference):
    async with open_gate() as gate:
        assert await gate.client.champion(MODEL) is None
        first = await gate.offer()
        assert (first.status, first.reason) == (CandidateStatus.PROMOTED, "first champion")
        champion = await gate.client.champion(MODEL)
        assert (champion.version, champion.epoch) == (1, 1)
        assert champion.manifest_sha256 == gate.models.store.manifest_sha256(MODEL, 1)
        assert inference.served == [1]


async def test_a_stronger_candidate_replaces_the_champion(open_gate, inference):
    inference.stubborn = {1}
    async with open_gate() as gate:
        await gate.offer()
        second = await gate.offer()
        assert second.status is CandidateStatus.PROMOTED
        assert second.match.champion_version == 1
        assert second.match.share > 0.6
        assert second.match.log_likelihood_ratio > 2.9
        assert sum(second.match.pentanomial) * 2 == second.match.wins + second.match.draws + second.match.losses
        assert gate.pointer.champion.version == 2
        assert "won" in gate.pointer.champion.reason
        listed, champion = await gate.client.models(MODEL)
        assert [c.version for c in listed] == [1, 2]
        assert listed[1] == second
        assert champion.version == 2


async def test_a_weaker_candidate_is_rejected_with_its_result(open_gate, inference):
    inference.stubborn = {2}
    async with open_gate() as gate:
        await gate.offer()
        second = await gate.offer()
        assert second.status is CandidateStatus.REJECTED
        assert second.match.share < 0.4
        assert "not stronger" in second.reason
        assert gate.pointer.champion.version == 1


async def test_a_verdict_examines_each_pair_of_its_match_once(open_gate, inference, monkeypatch):
    examined, decide = [], SequentialTest.decide

    def counted(rule, standing, *, is_last):
        examined.append(standing.groups)
        return decide(rule, standing, is_last=is_last)

    monkeypatch.setattr(SequentialTest, "decide", counted)
    async with open_gate() as gate:
        await gate.offer()
        inference.stubborn = {1}
        second = await gate.offer()
        assert (second.status, sum(second.match.pentanomial)) == (CandidateStatus.PROMOTED, examined[-1])
        assert examined == list(range(examined[-1] + 1))


async def test_an_equal_candidate_is_not_promoted(open_gate):
    async with open_gate(max_pairs=30) as gate:
        await gate.offer()
        assert (await gate.offer()).status is CandidateStatus.REJECTED


@pytest.mark.parametrize(("stubborn", "status"), [(1, CandidateStatus.PROMOTED), (2, CandidateStatus.REJECTED)])
async def test_a_fixed_share_of_points_decides_in_mode_share(open_gate, inference, stubborn, status):
    inference.stubborn = {stubborn}
    async with open_gate(mode="share", share=0.55, max_pairs=6) as gate:
        await gate.offer()
        second = await gate.offer()
        assert second.status is status
        assert "at least 55% wanted" in second.reason
        assert second.match.log_likelihood_ratio == 0.0


async def test_without_a_gate_every_sound_candidate_is_promoted(open_gate, inference):
    inference.stubborn = {2}
    async with open_gate(mode="off") as gate:
        await gate.offer()
        second = await gate.offer()
        assert (second.status, second.reason) == (CandidateStatus.PROMOTED, "promoted without a match")
        gate.models.damage(gate.models.publish()[0])
        sha256 = gate.models.store.manifest_sha256(MODEL, 3)
        await gate.client.submit(MODEL, 3, sha256)
        assert (await gate.settled(3)).status is CandidateStatus.BROKEN


async def test_a_damaged_candidate_is_broken_and_the_champion_stays(open_gate):
    async with open_gate() as gate:
        await gate.offer()
        version, sha256 = gate.models.publish()
        gate.models.damage(version)
        await gate.client.submit(MODEL, version, sha256)
        broken = await gate.settled(version)
        assert broken.status is CandidateStatus.BROKEN
        assert "sha256" in broken.reason
        assert gate.pointer.champion.version == 1


async def test_a_candidate_of_another_encoding_is_broken(open_gate):
    async with open_gate() as gate:
        broken = await gate.offer(encoder="0123456789abcdef")
        assert broken.status is CandidateStatus.BROKEN
        assert "encoder" in broken.reason


async def test_a_candidate_that_cannot_be_loaded_is_broken(open_gate, inference):
    inference.broken = {2}
    async with open_gate() as gate:
        await gate.offer()
        assert (await gate.offer()).reason == "version 2 cannot be loaded"
        assert inference.served == [1]
        assert (await gate.offer()).status is CandidateStatus.REJECTED


async def test_a_broken_version_without_a_champion_is_logged_as_the_end_of_learning(open_gate, inference):
    inference.broken = {1, 3}
    async with open_gate() as gate:
        with capture_logs() as logs:
            for status in (CandidateStatus.BROKEN, CandidateStatus.PROMOTED, CandidateStatus.BROKEN):
                assert (await gate.offer()).status is status
    (found,) = [line for line in logs if line["event"] == "gate.without_champion"]
    assert (found["log_level"], found["version"], found["reason"]) == ("error", 1, "version 1 cannot be loaded")


async def test_a_candidate_with_invalid_evaluations_is_broken(open_gate, inference):
    inference.nonsense = {2}
    async with open_gate() as gate:
        await gate.offer()
        broken = await gate.offer()
        assert (broken.status, broken.reason) == (CandidateStatus.BROKEN, "version 2 answers NaN")


async def test_a_champion_with_invalid_evaluations_blocks_promotion_until_it_is_replaced(open_gate, inference):
    async with open_gate() as gate:
        await gate.offer()
        await gate.offer()
        inference.nonsense = {1}
        asked = asyncio.Event()
        inference.on_evaluate = lambda version: note_version(asked, version, 1)
        version, sha256 = gate.models.publish()
        await gate.client.submit(MODEL, version, sha256)
        await asked.wait()
        assert gate.ledger.candidate(version).status is CandidateStatus.PLAYING
        await gate.client.promote(MODEL, 2, reason="1 is damaged")
        assert (await gate.settled(version)).status is CandidateStatus.REJECTED
        assert gate.pointer.champion.version == 2


async def test_submitting_a_candidate_twice_has_no_effect(open_gate):
    async with open_gate() as gate:
        first = await gate.offer()
        sha256 = gate.models.store.manifest_sha256(MODEL, 1)
        for _ in range(5):
            assert await gate.client.submit(MODEL, 1, sha256) == first
        assert gate.pointer.epoch == 1


async def test_submitting_a_version_that_is_not_stored_is_refused(open_gate):
    async with open_gate() as gate:
        with pytest.raises(ModelNotFound, match="no version 9"):
            await gate.client.submit(MODEL, 9, "ab" * 32)
        with pytest.raises(ModelNotFound, match="no version 9"):
            await gate.client.promote(MODEL, 9, reason="")
        assert gate.ledger.candidates() == []


async def test_another_content_under_the_same_number_is_refused(open_gate):
    async with open_gate() as gate:
        version, _ = gate.models.publish()
        for sha256 in ("", "ab" * 32):
            with pytest.raises(InvalidRequest, match="stored with manifest"):
                await gate.client.submit(MODEL, version, sha256)


async def test_another_game_and_impossible_versions_are_refused(open_gate):
    async with open_gate() as gate:
        for call in (
            gate.client.submit("connect_four", 1, "ab"),
            gate.client.champion("../tic_tac_toe"),
            gate.client.models(""),
            gate.client.promote("tic_tac_toe\0", 1, reason=""),
            gate.client.rollback("go", reason=""),
            gate.client.ladder("go"),
            anext(gate.client.watch("go")),
        ):
            with pytest.raises(InvalidRequest, match="judges tic_tac_toe"):
                await call
        for version in (0, 2**64 - 1):
            with pytest.raises(InvalidRequest, match="versions begin at 1"):
                await gate.client.promote(MODEL, version, reason="")


async def test_the_newest_candidate_is_decided_first_and_supersedes_older_ones(open_gate, inference):
    async with open_gate() as gate:
        await gate.offer()
        inference.away = True
        offers = [gate.models.publish() for _ in range(3)]
        for version, sha256 in offers:
            assert (await gate.client.submit(MODEL, version, sha256)).status is CandidateStatus.QUEUED
        while offers[-1][0] not in await inference.asked_in_vain.get():
            continue
        inference.away = False
        await gate.arbiter.idle.wait()
        statuses = [gate.ledger.candidate(version).status for version, _ in offers]
        assert statuses[:2] == [CandidateStatus.SUPERSEDED] * 2
        assert statuses[2] is CandidateStatus.REJECTED


async def test_the_length_of_the_queue_is_exported_while_a_match_is_played(open_gate, inference):
    async with open_gate() as gate:
        await gate.offer()
        begun, goes_on = asyncio.Event(), asyncio.Event()
        inference.on_evaluate = lambda version: _hold(begun, goes_on)
        await gate.client.submit(MODEL, *gate.models.publish())
        await begun.wait()
        for queued in range(3):
            assert f"zerofleet_gate_queue_candidates {queued}.0" in metrics.exposition("gatekeeper").decode()
            await gate.client.submit(MODEL, *gate.models.publish())
        goes_on.set()
        await gate.arbiter.idle.wait()
    assert "zerofleet_gate_queue_candidates 0.0" in metrics.exposition("gatekeeper").decode()


async def _hold(begun, goes_on):
    begun.set()
    await goes_on.wait()


async def test_a_candidate_older_than_the_champion_is_not_played(open_gate, inference):
    async with open_gate() as gate:
        await gate.offer()
        inference.away = True
        old, sha256 = gate.models.publish()
        await gate.client.submit(MODEL, old, sha256)
        newer, _ = gate.models.publish()
        await gate.client.promote(MODEL, newer, reason="by hand", without_self_test=True)
        inference.away = False
        outrun = await gate.settled(old)
        assert outrun.status is CandidateStatus.REJECTED
        assert "newer" in outrun.reason


async def test_the_champion_itself_is_not_played_as_a_candidate(open_gate):
    async with open_gate() as gate:
        await gate.offer()
        version, sha256 = gate.models.publish()
        await gate.client.promote(MODEL, version, reason="by hand")
        assert (await gate.client.submit(MODEL, version, sha256)).status is CandidateStatus.PROMOTED
        assert gate.ledger.boards("gate") == []


async def test_an_outage_of_the_inference_server_does_not_affect_the_verdict(open_gate, inference):
    inference.stubborn = {1}
    async with open_gate() as gate:
        await gate.offer()
        evaluations = 0
        returned = asyncio.Event()

        async def fail_now_and_then(version):
            nonlocal evaluations
            evaluations += 1
            if evaluations in (40, 80):
                inference.served = []
                returned.set()

        inference.on_evaluate = fail_now_and_then
        assert (await gate.offer()).status is CandidateStatus.PROMOTED
        assert returned.is_set()
        assert len(inference.changes) >= 4


async def test_versions_are_served_while_they_are_needed_and_the_last_two_champions_always(open_gate, inference):
    inference.stubborn = {1, 4}
    async with open_gate(mode="share", max_pairs=4) as gate:
        for _ in range(4):
            await gate.offer()
        assert gate.pointer.champion.version == 2
        assert (1, 2, 3) in inference.changes
        assert (1, 2, 4) in inference.changes
        assert all(len(versions) <= 3 for versions in inference.changes)


async def test_watchers_see_the_present_champion_and_every_later_one(open_gate):
    async with open_gate(mode="off") as gate:
        await gate.offer()
        watching = gate.client.watch(MODEL)
        assert (await anext(watching)).version == 1
        await gate.offer()
        assert (await anext(watching)).version == 2
        await gate.client.rollback(MODEL, reason="")
        seen = await anext(watching)
        assert (seen.version, seen.epoch, seen.reason) == (1, 3, "rollback")
        await watching.aclose()


async def test_watches_end_when_the_gatekeeper_stops(open_gate):
    async with open_gate(mode="off") as gate:
        await gate.offer()
        watching = gate.pointer.watch()
        await anext(watching)
        gate.pointer.close()
        assert [champion async for champion in watching] == []


async def test_a_candidate_is_not_broken_when_another_version_cannot_be_loaded(open_gate, inference):
    async with open_gate(mode="off") as gate:
        await gate.offer()
        await gate.offer()
        inference.broken = {1}  # the predecessor of the champion
        version, sha256 = gate.models.publish()
        await gate.client.submit(MODEL, version, sha256)
        for _ in range(4):  # with the candidate, without it, and both again
            await inference.refusals.get()
        assert gate.ledger.candidate(version).status is not CandidateStatus.BROKEN
        inference.broken = set()
        assert (await gate.settled(version)).status is CandidateStatus.PROMOTED
