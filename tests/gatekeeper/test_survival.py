"""One bad candidate is broken with its reason, and the gatekeeper goes on; what is no fault of it is tried again."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from gatekeeper import arbiter
from gatekeeper.verdicts import Verdicts
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.errors import (
    ConfigurationError,
    CorruptModel,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    PermissionRefused,
    Unavailable,
    ZerofleetError,
)
from zerofleet.storage.gate_journal import Journal
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.strength.matches import terms

MODEL = "tic_tac_toe"
STORED = {"sha256": "0" * 64, "size": 0}
BROKEN = CandidateStatus.BROKEN

MANIFESTS = {
    "a file name of 300 characters": {"files": {"x" * 300: STORED}},
    "a file name with a NUL": {"files": {"model\0.pt": STORED}},
    "no files": {"files": {}},
    "a path": {"files": {"../../champion.json": STORED}},
    "no golden positions": {"golden": {"positions": 0, "states": "", "legal": "", "policy": "", "value": ""}},
    "golden positions beyond count": {"golden": {"positions": 10**18, "states": "", "legal": "", "policy": "", "value": ""}},
    "heads nobody knows": {"heads": ["policy", "value", "dreams"]},
}


async def offer_edited(gate, **changes):
    version, _ = gate.models.publish()
    await gate.client.submit(MODEL, version, gate.models.edit(version, **changes))
    return await gate.settled(version)


@pytest.mark.parametrize("name", MANIFESTS)
async def test_a_candidate_with_a_bad_manifest_is_broken_and_the_next_one_is_decided(open_gate, name):
    async with open_gate(mode="off") as gate:
        await gate.offer()
        broken = await offer_edited(gate, **MANIFESTS[name])
        assert broken.status is BROKEN
        assert broken.reason
        with pytest.raises(CorruptModel):
            await gate.client.promote(MODEL, broken.version, reason="")
        assert (await gate.offer()).status is CandidateStatus.PROMOTED
        assert [champion.version for champion in gate.pointer.history] == [1, 3]


async def test_a_start_waits_for_a_journal_that_cannot_be_written(open_gate, monkeypatch):
    tidy_up, failures = Verdicts.tidy_up, iter([Unavailable("No space left on device")] * 2)

    async def flaky(self):
        if (error := next(failures, None)) is not None:
            raise error
        await tidy_up(self)

    monkeypatch.setattr(Verdicts, "tidy_up", flaky)
    async with open_gate(mode="off") as gate:
        assert (await gate.offer()).status is CandidateStatus.PROMOTED
        assert next(failures, None) is None


def refuse_opening(monkeypatch, *parts):
    """Deny access to the files whose path ends so; permissions do not stop root."""
    opened = os.open

    def refuse(path, *arguments, **options):
        if Path(path).parts[-2:] == parts:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)


async def test_a_candidate_without_read_permission_is_broken(open_gate, monkeypatch):
    async with open_gate(mode="off") as gate:
        await gate.offer()
        refuse_opening(monkeypatch, "2", "model.pt")
        broken = await gate.offer()
        assert broken.status is BROKEN
        assert "Permission denied" in broken.reason
        with pytest.raises(CorruptModel, match="Permission denied"):
            await gate.client.promote(MODEL, 2, reason="")
        assert (await gate.offer()).status is CandidateStatus.PROMOTED


async def test_a_manifest_without_read_permission_is_refused_on_submission(open_gate, monkeypatch):
    async with open_gate(mode="off") as gate:
        version, sha256 = gate.models.publish()
        refuse_opening(monkeypatch, "1", "manifest.json")
        with pytest.raises(CorruptModel, match="Permission denied"):
            await gate.client.submit(MODEL, version, sha256)
        assert (await gate.offer()).version == 2


async def test_a_candidate_beside_files_with_undecodable_names_is_broken(open_gate):
    async with open_gate(mode="off") as gate:
        version, sha256 = gate.models.publish()
        (gate.models.store.directory(MODEL, version) / "\udcff").write_bytes(b"")
        await gate.client.submit(MODEL, version, sha256)
        assert (await gate.settled(version)).status is BROKEN


@pytest.mark.parametrize(
    "error", [ZerofleetError("internal error 4711"), InvalidRequest("no such option"), ValueError("surprise")]
)
async def test_a_load_that_keeps_failing_breaks_the_candidate_while_the_champion_is_served(open_gate, inference, error):
    async with open_gate(mode="off") as gate:
        await gate.offer()
        attempts = []
        inference.fault = lambda versions: attempts.append(versions) or error if 2 in versions else None
        broken = await gate.offer()
        assert (broken.status, broken.reason) == (BROKEN, f"{type(error).__name__}: {error}")
        assert len(attempts) >= arbiter.MOST_FAILURES
        assert (await gate.offer()).status is CandidateStatus.PROMOTED


async def test_a_transient_failure_of_the_server_breaks_no_candidate(open_gate, inference):
    async with open_gate(mode="off") as gate:
        await gate.offer()
        failures = iter([ZerofleetError("internal error 1"), ValueError("surprise"), ZerofleetError("internal error 2")])
        inference.fault = lambda versions: next(failures, None) if 2 in versions else None
        assert (await gate.offer()).status is CandidateStatus.PROMOTED


async def test_no_candidate_is_broken_while_the_champion_is_not_served_either(open_gate, inference):
    async with open_gate(mode="off") as gate:
        await gate.offer()
        inference.served, attempts, many = [], [], asyncio.Event()

        def fail(versions):
            attempts.append(versions)
            if len(attempts) > 3 * arbiter.MOST_FAILURES:
                many.set()
            return ZerofleetError("internal error")

        inference.fault = fail
        version, sha256 = gate.models.publish()
        await gate.client.submit(MODEL, version, sha256)
        await many.wait()
        assert gate.ledger.candidate(version).status is CandidateStatus.QUEUED
        inference.fault = lambda versions: None
        assert (await gate.settled(version)).status is CandidateStatus.PROMOTED


@pytest.mark.parametrize("culprit", [1, 2])
async def test_repeated_failures_break_the_candidate_only_if_its_own_evaluations_fail(open_gate, inference, culprit):
    async with open_gate() as gate:
        await gate.offer()
        attempts, many = [], asyncio.Event()

        async def fail(version):
            if version == culprit:
                attempts.append(version)
                if len(attempts) > 3 * arbiter.MOST_FAILURES:
                    many.set()
                raise ZerofleetError("internal error")

        inference.on_evaluate = fail
        version, sha256 = gate.models.publish()
        await gate.client.submit(MODEL, version, sha256)
        if culprit == 1:
            await many.wait()
            assert gate.ledger.candidate(version).status is CandidateStatus.PLAYING
            inference.on_evaluate = None
            assert (await gate.settled(version)).status is CandidateStatus.REJECTED
        else:
            broken = await gate.settled(version)
            assert (broken.status, broken.reason) == (BROKEN, "FailedVersion: evaluation of version 2 failed: internal error")


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("away"),
        Overloaded("full"),
        PermissionRefused("wrong token"),
        ConfigurationError("wrong credentials"),
        OSError(5, "Input/output error"),
        OSError(28, "No space left on device"),
    ],
)
async def test_failures_that_are_not_the_candidates_fault_are_retried_without_limit(open_gate, monkeypatch, error):
    failures = iter([error] * (2 * arbiter.MOST_FAILURES))
    verify = DirectoryStore.verify

    def fail(self, model, version, **options):
        if failure := next(failures, None):
            raise failure
        return verify(self, model, version, **options)

    monkeypatch.setattr(DirectoryStore, "verify", fail)
    async with open_gate(mode="off") as gate:
        assert (await gate.offer()).status is CandidateStatus.PROMOTED
        assert next(failures, None) is None


async def test_a_predecessor_that_was_removed_from_the_store_is_no_longer_served_and_holds_up_nothing(open_gate, inference):
    async with open_gate(mode="off") as gate:
        await gate.offer()
        await gate.offer()
        assert inference.served == [1, 2]

        def as_the_store(versions):
            missing = set(versions) - set(gate.models.store.versions(MODEL))
            return ModelNotFound(f"no version {missing} in the store") if missing else None

        inference.fault = as_the_store
        gate.models.store.delete(MODEL, 1)
        inference.served = []  # it is restarted
        await gate.gatekeeper.serving.apply()
        assert inference.served == [2]
        await gate.client.submit(MODEL, *gate.models.publish(train_steps=7))
        assert (await gate.settled(3)).status is CandidateStatus.PROMOTED


async def test_a_champion_that_was_removed_from_the_store_is_missed(open_gate, inference):
    async with open_gate(mode="off") as gate:
        await gate.offer()
        inference.fault = lambda versions: ModelNotFound("no version 1 in the store")
        shutil.rmtree(gate.models.store.directory(MODEL, 1))
        with pytest.raises(ModelNotFound, match="no version 1"):
            await gate.gatekeeper.serving.apply()


async def test_a_match_for_which_no_opening_can_be_drawn_waits_and_breaks_no_candidate(open_gate, monkeypatch):
    draw, failures = terms.draw_openings, iter(range(1, 2 * arbiter.MOST_FAILURES))
    monkeypatch.setattr(terms, "draw_openings", lambda *game, **how: () if next(failures, 0) else draw(*game, **how))
    async with open_gate() as gate:
        await gate.offer()
        candidate = await gate.offer()
        assert candidate.status is CandidateStatus.REJECTED
        assert sum(candidate.match.pentanomial) > 0


@pytest.mark.parametrize("damage", [b"", b"{", b'{"model": "tic_tac_toe"}'])
async def test_a_promotion_waits_for_a_damaged_pointer_and_breaks_no_candidate(open_gate, monkeypatch, damage):
    write, attempts = DirectoryStore.write_champion, iter(range(2 * arbiter.MOST_FAILURES))
    async with open_gate(mode="off") as gate:
        await gate.offer()
        pointer = gate.models.store.root / MODEL / "champion.json"
        sound = pointer.read_bytes()

        def restored_later(*model, **how):
            pointer.write_bytes(sound if next(attempts, None) is None else damage)
            return write(*model, **how)

        monkeypatch.setattr(DirectoryStore, "write_champion", restored_later)
        with pytest.raises(Unavailable, match=r"version 2 .* is sound, .* the last line of champion_history\.jsonl into it"):
            await gate.client.promote(MODEL, gate.models.publish()[0], reason="by hand")
        assert (await gate.offer()).status is CandidateStatus.PROMOTED
        assert next(attempts, None) is None


async def test_a_verdict_that_cannot_be_written_waits_for_the_disk(open_gate, monkeypatch):
    append, failures = Journal.append, iter([Unavailable("disk full")] * 12)

    def fail(self, event):
        if getattr(event, "status", None) is BROKEN and (failure := next(failures, None)):
            raise failure
        append(self, event)

    async with open_gate(mode="off") as gate:
        await gate.offer()
        monkeypatch.setattr(Journal, "append", fail)
        assert (await offer_edited(gate, files={})).status is BROKEN
        assert next(failures, None) is None


async def test_a_failing_evaluation_in_the_ladder_does_not_stop_the_gatekeeper(open_gate, inference):
    async with open_gate(mode="off", ladder_games=2) as gate:
        failed = asyncio.Event()

        async def fail(version):
            failed.set()
            raise ValueError("surprise")

        inference.on_evaluate = fail
        await gate.offer()
        await failed.wait()
        assert (await gate.offer()).status is CandidateStatus.PROMOTED
