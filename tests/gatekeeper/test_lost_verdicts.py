"""Lost verdicts: promotions that the journal could not note, and what an operator decided after them."""

import asyncio

import pytest

from gatekeeper.verdicts import Verdicts
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.errors import Unavailable
from zerofleet.storage.gate_journal import EventJournal

MODEL = "tic_tac_toe"


@pytest.mark.parametrize("mode", ["sprt", "share", "off"])
async def test_a_rollback_holds_though_the_verdict_was_lost_in_a_kill(open_gate, inference, monkeypatch, mode):
    inference.stubborn = {1}
    promoted = asyncio.Event()

    async def killed(self, version, status, reason):
        promoted.set()
        await asyncio.Event().wait()

    async with open_gate(mode=mode) as gate:
        await gate.offer()
        with monkeypatch.context() as patch:
            patch.setattr(Verdicts, "settle", killed)
            version, sha256 = gate.models.publish()
            await gate.client.submit(MODEL, version, sha256)
            await promoted.wait()
            assert (gate.pointer.champion.version, gate.ledger.candidate(version).status.settled) == (version, False)
    async with open_gate(mode=mode, by_hand_only=True) as gate:
        assert (await gate.client.rollback(MODEL, reason="it plays nonsense")).version == 1
    async with open_gate(mode=mode) as gate:
        verdict = await gate.settled(version)
        assert (verdict.status, "rolled back or replaced before" in verdict.reason) == (CandidateStatus.REJECTED, True)
        assert gate.pointer.champion.version == 1


async def test_a_rollback_holds_though_the_disk_was_full_when_the_verdict_came(open_gate, monkeypatch):
    refusals, loop = asyncio.Queue(), asyncio.get_running_loop()

    def full(self, event):
        loop.call_soon_threadsafe(refusals.put_nowait, event)
        raise Unavailable("No space left on device")

    async with open_gate(mode="off") as gate:
        await gate.offer()
        write = gate.pointer.write

        async def write_and_fill(version, *, reason):
            written = await write(version, reason=reason)
            monkeypatch.setattr(EventJournal, "append", full)
            return written

        with monkeypatch.context() as patch:
            patch.setattr(gate.pointer, "write", write_and_fill)
            append = EventJournal.append
            version, sha256 = gate.models.publish()
            await gate.client.submit(MODEL, version, sha256)
            await refusals.get()
        assert (await gate.client.rollback(MODEL, reason="it plays nonsense")).version == 1
        while not refusals.empty():
            refusals.get_nowait()
        for _ in range(2):  # the second one is of a decision that began after the rollback
            await refusals.get()
        monkeypatch.setattr(EventJournal, "append", append)
        assert (await gate.settled(version)).status is CandidateStatus.REJECTED
        assert gate.pointer.champion.version == 1
