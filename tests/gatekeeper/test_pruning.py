"""Pruning: what nobody needs goes, whole or not at all; what somebody may need stays."""

import asyncio
import os
import subprocess
import sys

import pytest

from gatekeeper.pruning import superfluous
from zerofleet.errors import CorruptModel, ModelNotFound, Unavailable
from zerofleet.presets import ModelSettings
from zerofleet.storage.crash_points import VARIABLE
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.telemetry import metrics

MODEL = "tic_tac_toe"


def test_the_newest_the_needed_and_every_nth_version_are_kept():
    versions = list(range(1, 13))
    assert superfluous(versions, {2, 5}, ModelSettings(keep=3)) == [1, 3, 4, 6, 7, 8, 9]
    assert superfluous(versions, (), ModelSettings(keep=3, keep_every=4)) == [1, 2, 3, 5, 6, 7, 9]
    assert superfluous(versions, (), ModelSettings(keep=12)) == []
    assert superfluous(versions, (), ModelSettings(keep=20)) == []
    assert superfluous(versions, (), ModelSettings(keep=1)) == versions[:-1]


def test_with_keep_0_no_version_is_superfluous():
    assert superfluous(list(range(1, 1000)), (), ModelSettings(keep=0)) == []


def publish(models, count):
    for _ in range(count):
        models.publish()


async def test_past_and_present_champions_are_kept_and_others_pruned(models, open_gate):
    publish(models, 7)
    for epoch, version in enumerate((1, 3, 4, 3), start=1):
        models.store.write_champion(MODEL, version, epoch=epoch, reason="again" if epoch == 4 else "promoted")
    async with open_gate(mode="off") as gate:
        assert await keep(gate, 1).prune() == [2, 5, 6]
        assert models.store.versions(MODEL) == [1, 3, 4, 7]
        assert not list((models.store.root / MODEL).glob(".*.tmp"))
        assert (await gate.client.rollback(MODEL, reason="worse")).version == 4


async def test_the_verdict_on_a_rejected_version_survives_its_deletion(models, open_gate):
    async with open_gate(mode="off") as gate:
        for _ in range(3):
            await gate.offer()
        await gate.client.submit(MODEL, 1, models.store.manifest_sha256(MODEL, 1))
        publish(models, 2)
        assert await keep(gate, 1).prune() == [4]
        assert [candidate.version for candidate in gate.ledger.candidates()] == [1, 2, 3]


async def test_pinned_versions_are_kept_also_while_none_is_served(models, open_gate):
    publish(models, 4)
    async with open_gate(mode="off") as gate:
        assert await keep(gate, 1, pinned=(2,)).prune() == [1, 3]


def keep(gate, newest, every=0, pinned=()):
    """Return the gate's pruner with another setting."""
    gate.gatekeeper.pruner._settings = ModelSettings(keep=newest, keep_every=every, pinned=pinned)
    return gate.gatekeeper.pruner


async def test_waiting_candidates_and_served_versions_are_kept(models, open_gate, inference):
    publish(models, 6)
    models.store.write_champion(MODEL, 1, epoch=1, reason="first")
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def hold(version):
        reached.set()
        await go_on.wait()

    inference.on_evaluate = hold
    async with open_gate() as gate:
        await gate.client.submit(MODEL, 3, models.store.manifest_sha256(MODEL, 3))
        await reached.wait()  # 3 is in its match
        await gate.client.submit(MODEL, 4, models.store.manifest_sha256(MODEL, 4))
        before = metrics.MODELS_PRUNED._value.get()
        assert await keep(gate, 1).prune() == [2, 5]
        assert models.store.versions(MODEL) == [1, 3, 4, 6]
        assert metrics.MODELS_PRUNED._value.get() == before + 2
        async with gate.gatekeeper.serving.including(6):
            models.publish()
            assert 6 in models.store.versions(MODEL)
            assert await keep(gate, 1).prune() == []
        go_on.set()
        await gate.settled(4)


async def test_a_version_promoted_during_pruning_is_kept(models, open_gate):
    publish(models, 4)
    models.store.write_champion(MODEL, 1, epoch=1, reason="first")
    async with open_gate() as gate:
        async with gate.pointer.command():
            pruning = asyncio.create_task(keep(gate, 1).prune())
            promoting = asyncio.create_task(gate.arbiter.promote(3, reason="by hand"))
            await gate.gatekeeper.pruner._disk.run(lambda: None)
            await asyncio.sleep(0)
        gone, champion = await asyncio.gather(pruning, promoting, return_exceptions=True)
        versions = models.store.versions(MODEL)
        if isinstance(champion, ModelNotFound):  # it had gone before its turn
            assert 3 in gone
            assert gate.pointer.champion.version == 1
        else:
            assert 3 in versions
        assert gate.pointer.champion.version in versions


async def test_pruning_is_retried_after_an_error_of_the_store(models, open_gate, monkeypatch):
    publish(models, 4)
    models.store.write_champion(MODEL, 4, epoch=1, reason="first")
    delete, refusals, done = (
        DirectoryStore.delete,
        iter([Unavailable("the store is away"), OSError(30, "Read-only")]),
        asyncio.Event(),
    )

    def refuse_twice(self, model, version):
        if error := next(refusals, None):
            raise error
        delete(self, model, version)
        if version == 2:
            loop.call_soon_threadsafe(done.set)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(DirectoryStore, "delete", refuse_twice)
    monkeypatch.setattr("gatekeeper.pruning.EVERY_S", 0.001)
    async with open_gate() as gate:
        keep(gate, 2)
        work = asyncio.create_task(gate.gatekeeper.pruner.run())
        async with asyncio.timeout(60):
            await done.wait()
        work.cancel()
        assert models.store.versions(MODEL) == [3, 4]


KILLED_WHILE_DELETING = """
import os, shutil, signal, sys
from pathlib import Path
from zerofleet.storage.model_store import DirectoryStore
shutil.rmtree = lambda path, **_: [next(Path(path).iterdir()).unlink(), os.kill(os.getpid(), signal.SIGKILL)]
DirectoryStore(Path(sys.argv[1])).delete("tic_tac_toe", 3)
"""


@pytest.mark.slow
def test_a_kill_during_a_deletion_leaves_no_visible_half_version(models):
    publish(models, 3)
    command = [sys.executable, "-c", KILLED_WHILE_DELETING, str(models.store.root)]
    assert subprocess.run(command, timeout=60, check=False).returncode == -9
    assert models.store.versions(MODEL) == [1, 2]
    assert [path.name for path in (models.store.root / MODEL).glob(".*.tmp")] != []
    with pytest.raises(ModelNotFound):
        models.store.verify(MODEL, 3)
    assert models.publish()[0] == 4
    assert list((models.store.root / MODEL).glob(".*.tmp")) == []


@pytest.mark.slow
def test_a_gatekeeper_killed_between_two_deletions_finishes_them_after_a_restart(tmp_path, models):
    publish(models, 6)
    models.store.write_champion(MODEL, 6, epoch=5, reason="first")
    command = [sys.executable, "-m", "gatekeeper", "--run-dir", str(tmp_path), "--game", MODEL, "--preset", "tiny"]
    for kill, left in ((2, [2, 3, 4, 5, 6]), (2, [3, 4, 5, 6])):
        environment = {**os.environ, VARIABLE: f"gatekeeper_before_prune:{kill}", "ZEROFLEET_MODELS__KEEP": "2"}
        done = subprocess.run(command, env=environment, capture_output=True, timeout=120, check=False)
        assert done.returncode == -9, done.stderr
        assert models.store.versions(MODEL) == left
        for version in left:
            models.store.verify(MODEL, version)


async def test_an_unreadable_line_of_the_history_stops_the_pruning_alone(models, open_gate):
    publish(models, 5)
    for epoch, version in enumerate((1, 2, 3), start=1):
        models.store.write_champion(MODEL, version, epoch=epoch, reason="promoted")
    path = models.store.root / MODEL / "champion_history.jsonl"
    first, _, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + b'{"version": \xff\n' + third)
    async with open_gate(mode="off") as gate:
        assert (await gate.client.champion(MODEL)).version == 3
        with pytest.raises(CorruptModel, match=r"champion_history\.jsonl line 2"):
            await keep(gate, 1).prune()
        assert models.store.versions(MODEL) == [1, 2, 3, 4, 5]
        assert (await gate.client.rollback(MODEL, reason="worse")).version == 1
