"""No version becomes champion that no inference server has loaded, unless an operator accepts the risk."""

import pytest

from zerofleet.contracts.lineage import NOT_SELF_TESTED, was_self_tested
from zerofleet.contracts.promotions import CandidateStatus, Champion
from zerofleet.errors import CorruptModel, Unavailable, ZerofleetError

MODEL = "tic_tac_toe"


async def test_promotion_by_hand_waits_for_the_inference_server(open_gate, inference):
    async with open_gate() as gate:
        inference.away = True
        version, _ = gate.models.publish()
        with pytest.raises(Unavailable, match=r"version 1 was not self-tested: .* --without-self-test"):
            await gate.client.promote(MODEL, version, reason="")
        assert gate.pointer.champion is None
        inference.away = False
        champion = await gate.client.promote(MODEL, version, reason="by hand")
        assert (champion.version, champion.reason) == (version, "by hand")


async def test_promotion_without_a_self_test_needs_the_operators_flag_and_is_noted_in_the_reason(open_gate, inference):
    async with open_gate() as gate:
        inference.away = True
        version, _ = gate.models.publish()
        champion = await gate.client.promote(MODEL, version, reason="the server burnt", without_self_test=True)
        assert (champion.version, champion.reason) == (version, f"the server burnt {NOT_SELF_TESTED}")
        assert gate.models.store.champion(MODEL) == champion


async def test_the_flag_does_not_override_a_detected_fault(open_gate, inference):
    async with open_gate() as gate:
        version, _ = gate.models.publish()
        inference.broken = {version}
        with pytest.raises(CorruptModel, match="cannot be loaded"):
            await gate.client.promote(MODEL, version, reason="", without_self_test=True)
        gate.models.damage(version)
        inference.away = True
        with pytest.raises(CorruptModel, match="sha256"):
            await gate.client.promote(MODEL, version, reason="", without_self_test=True)
        assert gate.pointer.champion is None


async def test_a_load_that_fails_for_unknown_reasons_is_no_self_test(open_gate, inference):
    inference.fault = lambda versions: ZerofleetError("internal error 17")
    async with open_gate() as gate:
        version, _ = gate.models.publish()
        with pytest.raises(Unavailable, match=r"not self-tested: .*internal error 17"):
            await gate.client.promote(MODEL, version, reason="")
        assert gate.pointer.champion is None


async def test_a_former_champion_is_restored_even_while_the_inference_server_is_away(open_gate, inference):
    async with open_gate(mode="off") as gate:
        await gate.offer()
        await gate.offer()
        inference.away = True
        assert (await gate.client.rollback(MODEL, reason="worse")).version == 1
        assert (await gate.client.promote(MODEL, 2, reason="better after all")).reason == "better after all"


async def test_a_former_champion_comes_back_also_while_the_present_one_cannot_be_loaded(open_gate, inference):
    async with open_gate(mode="off") as gate:
        await gate.offer()
        await gate.offer()
        inference.broken = {2}
        assert (await gate.client.rollback(MODEL, reason="it does not load")).version == 1


async def test_a_former_champion_with_another_manifest_or_without_a_self_test_does_not_come_back_untested(open_gate, inference):
    async with open_gate(mode="off") as gate:
        inference.away = True
        await gate.client.promote(MODEL, gate.models.publish()[0], reason="", without_self_test=True)
        inference.away = False
        await gate.offer()
        await gate.offer()
        inference.away = True
        gate.models.edit(2, train_steps=11)
        with pytest.raises(Unavailable, match="version 2 was not self-tested"):
            await gate.client.rollback(MODEL, reason="")
        with pytest.raises(Unavailable, match="version 1 was not self-tested"):
            await gate.client.promote(MODEL, 1, reason="")
        assert gate.pointer.champion.version == 3
        inference.away = False
        assert (await gate.client.rollback(MODEL, reason="")).version == 2


@pytest.mark.parametrize("mode", ["off", "sprt"])
async def test_no_candidate_is_promoted_while_the_inference_server_is_away(open_gate, inference, mode):
    async with open_gate(mode=mode) as gate:
        inference.away = True
        version, sha256 = gate.models.publish()
        await gate.client.submit(MODEL, version, sha256)
        for _ in range(3):
            await inference.asked_in_vain.get()
        assert gate.pointer.champion is None
        inference.away = False
        assert (await gate.settled(version)).status is CandidateStatus.PROMOTED


def test_the_history_shows_which_champions_were_self_tested():
    history = [Champion(MODEL, 1, 1, "ab", 0, f"by hand {NOT_SELF_TESTED}"), Champion(MODEL, 2, 2, "cd", 0, "won")]
    tested = [was_self_tested(history, *known) for known in ((1, "ab"), (2, "cd"), (2, "ab"), (3, "cd"))]
    assert tested == [False, True, False, False]
