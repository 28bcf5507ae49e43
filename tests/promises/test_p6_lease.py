"""P6 in one process: the lease names one holder, and the pointer accepts one line of epochs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from promise_tools import borrowed

from gatekeeper.disk import Disk
from gatekeeper.lease import Lease
from gatekeeper.pointer import ChampionPointer
from zerofleet.contracts.gate_events import Submitted
from zerofleet.errors import StaleEpoch, Unavailable
from zerofleet.storage.files import atomic_publish
from zerofleet.storage.gate_journal import EventJournal

gatekeeper_tests = borrowed("promise_gatekeeper", "gatekeeper/conftest.py")
MODEL = gatekeeper_tests.MODEL


@pytest.fixture
def store(tmp_path):
    models = gatekeeper_tests.Models(tmp_path / "models")
    for _ in range(3):
        models.publish()
    return models.store


def test_p6_a_second_gatekeeper_gets_no_lease_while_the_first_one_runs(tmp_path):
    with Lease.acquire(tmp_path) as first:
        with pytest.raises(Unavailable, match=first.holder):
            Lease.acquire(tmp_path)
        assert first.next_epoch() == 1
    Lease.acquire(tmp_path).release()


def test_p6_a_suspended_gatekeeper_draws_no_epoch_after_its_replacement(tmp_path):
    sleeper = Lease.acquire(tmp_path)
    sleeper.next_epoch()
    (tmp_path / ".gatekeeper.lock").unlink()
    with Lease.acquire(tmp_path) as successor:
        for _ in range(2):
            with pytest.raises(StaleEpoch, match="not by"):
                sleeper.next_epoch()
        assert successor.next_epoch() == 2
    sleeper.release()


def test_p6_epochs_grow_over_holders_and_restarts(tmp_path):
    epochs = []
    for _ in range(3):
        with Lease.acquire(tmp_path) as lease:
            epochs += [lease.next_epoch(), lease.next_epoch()]
    assert epochs == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(("epoch", "after"), [(5, None), (4, None), (5, 5), (6, 4), (6, 0), (7, 6)])
def test_p6_the_pointer_refuses_an_old_epoch_and_an_unexpected_predecessor(store, epoch, after):
    store.write_champion(MODEL, 1, epoch=5, reason="", after=0)
    with pytest.raises(StaleEpoch):
        store.write_champion(MODEL, 2, epoch=epoch, reason="", after=after)
    assert store.champion(MODEL).version == 1
    store.write_champion(MODEL, 2, epoch=6, reason="", after=5)
    assert store.champion(MODEL).version == 2


@pytest.mark.parametrize("moment", ["before it begins its file", "before it replaces the file"])
def test_p6_a_gatekeeper_suspended_while_it_draws_an_epoch_does_not_take_the_lease_back(tmp_path, monkeypatch, moment):
    sleeper, taken = Lease.acquire(tmp_path), []
    (tmp_path / ".gatekeeper.lock").unlink()  # as on a file system whose locks do not reach other machines
    publish, replace = atomic_publish, Path.replace

    def replaced_by_another() -> None:
        monkeypatch.undo()
        taken.append(Lease.acquire(tmp_path))

    def suspended_before_begin(*content: object, **settings: Any) -> None:
        replaced_by_another()
        publish(*content, **settings)

    def suspended_before_replace(path: Path, target: Path) -> Path:
        replaced_by_another()
        return replace(path, target)

    if moment == "before it begins its file":
        monkeypatch.setattr("gatekeeper.lease.atomic_publish", suspended_before_begin)
    else:
        monkeypatch.setattr(Path, "replace", suspended_before_replace)
    with pytest.raises((StaleEpoch, Unavailable)):
        sleeper.next_epoch()
    (successor,) = taken
    with pytest.raises(StaleEpoch):
        sleeper.next_epoch()
    assert successor.next_epoch() == 1
    for lease in (sleeper, successor):
        lease.release()


def test_p6_a_lease_that_a_resumed_gatekeeper_takes_back_during_the_takeover_is_refused(tmp_path, monkeypatch):
    sleeper = Lease.acquire(tmp_path)
    (tmp_path / ".gatekeeper.lock").unlink()
    monkeypatch.setattr("gatekeeper.lease.drop_unfinished", lambda path: sleeper._write(7))  # its rename comes just before
    with pytest.raises(Unavailable, match="resumed"):
        Lease.acquire(tmp_path)
    monkeypatch.undo()
    assert sleeper.next_epoch() == 8
    sleeper.release()


async def test_p6_a_gatekeeper_that_missed_a_promotion_writes_nothing_and_stops(store):
    lease = Lease.acquire(store.root / MODEL, above=10)
    with Disk() as disk, lease:
        pointer = ChampionPointer(store, MODEL, lease, disk)
        async with pointer.command():
            await pointer.write(1, reason="own")
        lost = asyncio.create_task(pointer.until_lost())
        store.write_champion(MODEL, 2, epoch=12, reason="of another holder")
        lease._write(20)  # the epoch alone would be accepted
        async with pointer.command():
            with pytest.raises(StaleEpoch):
                await pointer.write(3, reason="late")
        async with asyncio.timeout(60):
            with pytest.raises(StaleEpoch, match="another gatekeeper"):
                await lost
    assert store.champion(MODEL).version == 2


def test_p6_a_suspended_gatekeeper_leaves_the_journal_to_its_replacement(tmp_path):
    path, events = tmp_path / "journal.jsonl", [Submitted(version=version, manifest_sha256="ab") for version in (1, 2, 3)]
    sleeper = Lease.acquire(tmp_path)
    former = EventJournal(path, model=MODEL, require_held=sleeper.require_held)
    former.rewrite([])
    former.append(events[0])
    (tmp_path / ".gatekeeper.lock").unlink()  # as on a file system whose locks do not reach other machines
    with Lease.acquire(tmp_path) as lease:
        successor = EventJournal(path, model=MODEL, require_held=lease.require_held)
        successor.rewrite(successor.read())
        successor.append(events[1])
        with pytest.raises(StaleEpoch):
            former.append(events[2])
        successor.append(events[2])
    assert EventJournal(path, model=MODEL).read() == events
    sleeper.release()
