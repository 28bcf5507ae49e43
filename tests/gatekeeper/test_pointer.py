"""The pointer to the champion on a disk that does not sync the directory after the pointer was put into its place."""

import errno
import os
from pathlib import Path

import pytest

from gatekeeper.disk import Disk
from gatekeeper.lease import Lease
from gatekeeper.pointer import ChampionPointer
from zerofleet.errors import CorruptModel, Unavailable
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.testing.models import MODEL, sample_files, sample_manifest


class Syncs:
    """Counts syncs of the model's directory and fails those of some numbers; notes whether the pointer was there."""

    def __init__(self, home):
        self.home, self.failing, self.with_pointer, self.real = home, set(), [], os.fsync

    def __call__(self, descriptor):
        if Path(f"/proc/self/fd/{descriptor}").readlink() == self.home:
            self.with_pointer.append((self.home / "champion.json").exists())
            if sum(self.with_pointer) in self.failing:
                raise OSError(errno.ENOSPC, "No space left on device")
        self.real(descriptor)


@pytest.fixture
def store(tmp_path):
    store = DirectoryStore(tmp_path / "models")
    store.publish(MODEL, sample_files(), sample_manifest())
    return store


@pytest.fixture
def syncs(store, monkeypatch):
    syncs = Syncs((store.root / MODEL).resolve())
    monkeypatch.setattr(os, "fsync", syncs)
    return syncs


async def written(store):
    with Disk() as disk, Lease.acquire(store.root / MODEL) as lease:
        pointer = ChampionPointer(store, MODEL, lease, disk)
        try:
            return await pointer.write(1, reason="first champion")
        finally:
            assert pointer.champion == (store.champion(MODEL) if pointer.history else None)


async def test_a_champion_in_its_place_counts_once_its_directory_is_synced(store, syncs):
    syncs.failing = {1}
    champion = await written(store)
    assert (champion.version, champion.epoch) == (1, 1)
    assert sum(syncs.with_pointer) == 2


async def test_a_champion_that_a_power_loss_would_take_is_not_announced(store, syncs):
    syncs.failing = {1, 2}
    with pytest.raises(Unavailable, match="survives a power loss"):
        await written(store)


async def test_a_start_syncs_the_champion_that_a_killed_gatekeeper_left(store, syncs):
    syncs.failing = {1, 2}
    with pytest.raises(Unavailable):
        await written(store)
    before = sum(syncs.with_pointer)
    with Disk() as disk:
        pointer = ChampionPointer(store, MODEL, None, disk)
    assert pointer.champion == store.champion(MODEL)
    assert sum(syncs.with_pointer) == before + 1


@pytest.mark.parametrize(("is_older", "got"), [(False, "is missing"), (True, "names version 1 of epoch 1")])
def test_a_start_refuses_a_pointer_that_is_missing_or_older_than_its_history(store, is_older, got):
    pointer = store.root / MODEL / "champion.json"
    store.write_champion(MODEL, 1, epoch=1, reason="won")
    older = pointer.read_bytes()
    store.write_champion(MODEL, 1, epoch=2, reason="won")
    pointer.unlink()
    if is_older:
        pointer.write_bytes(older)
    with Disk() as disk:
        with pytest.raises(CorruptModel, match=rf"champion\.json {got}, .* version 1 of epoch 2: .* the last line of"):
            ChampionPointer(store, MODEL, None, disk)
        pointer.write_bytes((store.root / MODEL / "champion_history.jsonl").read_bytes().splitlines()[-1])
        assert ChampionPointer(store, MODEL, None, disk).champion == store.champion(MODEL)
