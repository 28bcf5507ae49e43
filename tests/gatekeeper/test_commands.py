"""Commands of operators: rollback, and promotion by hand beside the matches of candidates."""

import asyncio
from functools import partial
from unittest.mock import Mock

import pytest
from watching_calls import note_version

from gatekeeper.ledger import Ledger
from zerofleet.contracts.lineage import line_of
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.errors import CorruptModel, ModelNotFound, Unavailable

MODEL = "tic_tac_toe"


async def test_rollback_goes_back_one_champion_at_a_time(open_gate):
    async with open_gate(mode="off") as gate:
        with pytest.raises(ModelNotFound, match="no earlier champion"):
            await gate.client.rollback(MODEL, reason="")
        for _ in range(3):
            await gate.offer()
        assert (await gate.client.rollback(MODEL, reason="it plays\nworse")).reason == "rollback: it plays worse"
        assert gate.pointer.champion.version == 2
        assert (await gate.client.rollback(MODEL, reason="")).version == 1
        with pytest.raises(ModelNotFound, match="no earlier champion"):
            await gate.client.rollback(MODEL, reason="")
        assert (await gate.offer()).status is CandidateStatus.PROMOTED
        assert (await gate.client.rollback(MODEL, reason="")).version == 1
        assert [c.epoch for c in gate.pointer.history] == [1, 2, 3, 4, 5, 6, 7]


async def test_a_promotion_by_hand_of_an_older_version_can_be_rolled_back(open_gate):
    async with open_gate(mode="off") as gate:
        for _ in range(3):
            await gate.offer()
        await gate.client.promote(MODEL, 1, reason="nostalgia")
        assert (await gate.client.rollback(MODEL, reason="")).version == 3


@pytest.mark.parametrize("reason", ["rollback of the weak 2 and 3", "rollback", "promoted at once, by me"])
async def test_a_promotion_by_hand_stays_one_whatever_its_reason_begins_with(open_gate, reason):
    async with open_gate(mode="off") as gate:
        for _ in range(3):
            await gate.offer()
        assert (await gate.client.promote(MODEL, 1, reason=reason)).reason == f"by hand: {reason}"
        assert [champion.version for champion in line_of(gate.pointer.history)] == [1, 2, 3, 1]
        assert gate.ledger.candidate(1).status is CandidateStatus.PROMOTED
        assert (await gate.client.rollback(MODEL, reason="")).version == 3


async def test_a_candidate_promoted_by_hand_keeps_its_match(open_gate, inference):
    inference.stubborn = {2}
    async with open_gate() as gate:
        await gate.offer()
        rejected = await gate.offer()
        await gate.client.promote(MODEL, 2, reason="better endgames")
        promoted = gate.ledger.candidate(2)
        assert promoted.status is CandidateStatus.PROMOTED
        assert rejected.match is not None
        assert promoted.match == rejected.match


async def test_promoting_the_champion_has_no_effect(open_gate):
    async with open_gate() as gate:
        await gate.offer()
        assert (await gate.client.promote(MODEL, 1, reason="again")).epoch == 1


async def test_a_damaged_version_cannot_be_promoted_by_hand(open_gate):
    async with open_gate() as gate:
        await gate.offer()
        version, _ = gate.models.publish()
        gate.models.damage(version)
        with pytest.raises(CorruptModel):
            await gate.client.promote(MODEL, version, reason="")
        assert gate.pointer.champion.version == 1


async def test_a_gatekeeper_for_commands_alone_lets_candidates_wait(open_gate, inference):
    async with open_gate(mode="off", by_hand_only=True) as gate:
        (first, sha256), (second, _) = gate.models.publish(), gate.models.publish()
        await gate.client.submit(MODEL, first, sha256)
        assert (await gate.client.promote(MODEL, second, reason="by hand")).version == second
        assert gate.ledger.candidate(first).status is CandidateStatus.QUEUED
        assert inference.served == [second]
    async with open_gate(mode="off") as gate:
        assert (await gate.settled(first)).reason == "version 2, which is newer, became champion first"


async def test_a_rollback_during_a_match_ends_that_match(open_gate, inference):
    inference.stubborn = {1, 2}
    async with open_gate(max_pairs=36) as gate:
        await gate.offer()
        await gate.client.promote(MODEL, gate.models.publish()[0], reason="")
        begun = asyncio.Event()
        inference.on_evaluate = lambda version: note_version(begun, version, 3)
        version, sha256 = gate.models.publish()
        await gate.client.submit(MODEL, version, sha256)
        await begun.wait()
        assert (await gate.client.rollback(MODEL, reason="during a match")).version == 1
        candidate = await gate.settled(version)
        assert candidate.match.champion_version == 1
        assert [c.version for c in gate.pointer.history] == [1, 2, 1, 3]


async def test_a_candidate_promoted_by_hand_during_its_match_stays_promoted(open_gate, inference):
    async with open_gate(max_pairs=36) as gate:
        await gate.offer()
        begun = asyncio.Event()
        inference.on_evaluate = lambda version: note_version(begun, version, 2)
        version, sha256 = gate.models.publish()
        await gate.client.submit(MODEL, version, sha256)
        await begun.wait()
        await gate.client.promote(MODEL, version, reason="by hand")
        assert (await gate.settled(version)).status is CandidateStatus.PROMOTED
        assert gate.pointer.champion.version == version
        assert gate.ledger.boards("gate") == []


@pytest.mark.parametrize("at_the_next_start", [False, True])
async def test_a_match_that_a_promotion_by_hand_broke_off_is_closed_and_never_rated(
    open_gate, inference, monkeypatch, at_the_next_start
):
    async with open_gate(max_pairs=36, elo1=50.0) as gate:
        await gate.offer()

        async def leave_after_four_games(version):
            inference.away = sum(len(board.results()) for board in gate.ledger.boards("gate")) >= 4

        inference.on_evaluate = leave_after_four_games
        await gate.client.submit(MODEL, *gate.models.publish())
        await inference.asked_in_vain.get()
        with monkeypatch.context() as disk:
            if at_the_next_start:
                disk.setattr(Ledger, "close_match", Mock(side_effect=Unavailable("disk full")))
            await gate.client.promote(MODEL, 2, reason="by hand", without_self_test=True)
        assert bool(gate.ledger.boards("gate")) == at_the_next_start
        assert gate.ledger.games_between("model:2", "model:1") == 0
    inference.away, inference.on_evaluate = False, None
    async with open_gate(max_pairs=36, elo1=50.0) as gate:
        await gate.arbiter.idle.wait()
        assert gate.ledger.boards("gate") == []
        assert gate.ledger.games_between("model:2", "model:1") == 0


async def test_a_match_that_a_command_and_the_arbiter_close_at_the_same_time_is_closed_once(open_gate, inference):
    async with open_gate(max_pairs=36) as gate:
        await gate.offer()
        goes_on, begun = asyncio.Event(), asyncio.Event()

        async def hold(version):
            if version == 2:
                begun.set()
                await goes_on.wait()

        inference.on_evaluate = hold
        await gate.client.submit(MODEL, *gate.models.publish())
        await begun.wait()
        close = partial(gate.ledger.close_match, gate.ledger.boards("gate")[0].terms.match_id, rated_groups=0)
        await asyncio.gather(close(), close())
        assert gate.ledger.boards("gate") == []


async def test_concurrent_commands_are_serialised(open_gate):
    async with open_gate(mode="off") as gate:
        versions = [gate.models.publish()[0] for _ in range(6)]
        champions = await asyncio.gather(*(gate.client.promote(MODEL, v, reason="") for v in versions))
        assert sorted(c.epoch for c in champions) == list(range(1, 7))
        last = max(champions, key=lambda c: c.epoch)
        assert gate.models.store.champion(MODEL) == gate.pointer.champion
        assert gate.pointer.champion.version == last.version
