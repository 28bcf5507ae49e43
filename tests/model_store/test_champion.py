"""The champion pointer: fencing, history, crashes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from zerofleet.errors import CorruptModel, ModelNotFound, StaleEpoch

MODEL = "tic_tac_toe"


@pytest.fixture
def store(store, files, manifest):
    for fill in (1.0, 2.0, 3.0):
        store.publish(MODEL, files(fill), manifest)
    return store


def test_there_is_no_champion_at_first(store):
    assert store.champion(MODEL) is None
    assert store.history(MODEL) == []


def test_a_champion_is_written_with_its_manifests_hash_and_kept_in_the_history(store):
    first = store.write_champion(MODEL, 1, epoch=1, reason="first model")
    second = store.write_champion(MODEL, 3, epoch=2, reason="won")
    assert store.champion(MODEL) == second
    assert store.history(MODEL) == [first, second]
    assert second.manifest_sha256 == store.manifest_sha256(MODEL, 3)


@pytest.mark.parametrize("epoch", [1, 4, 5])
def test_a_stale_epoch_is_refused(store, epoch):
    store.write_champion(MODEL, 1, epoch=5, reason="first")
    with pytest.raises(StaleEpoch, match="epoch 5"):
        store.write_champion(MODEL, 2, epoch=epoch, reason="late")
    assert store.champion(MODEL).version == 1


def test_a_champion_unknown_to_the_writer_is_not_replaced(store):
    store.write_champion(MODEL, 1, epoch=1, reason="first", after=0)
    with pytest.raises(StaleEpoch, match="epoch 1, not 0"):
        store.write_champion(MODEL, 2, epoch=7, reason="late", after=0)
    assert store.champion(MODEL).version == 1
    store.write_champion(MODEL, 3, epoch=7, reason="won", after=1)
    assert [champion.version for champion in store.history(MODEL)] == [1, 3]


def test_a_corrupt_version_never_becomes_champion(store, place):
    store.write_champion(MODEL, 1, epoch=1, reason="first")
    place.write("2/model.pt", b"")
    with pytest.raises(CorruptModel):
        store.write_champion(MODEL, 2, epoch=2, reason="won")
    assert store.champion(MODEL).version == 1


def test_a_missing_version_never_becomes_champion(store):
    with pytest.raises(ModelNotFound):
        store.write_champion(MODEL, 9, epoch=1, reason="?")


@pytest.mark.parametrize("text", ["", "{", '{"model": "tic_tac_toe"}'])
def test_a_damaged_pointer_is_an_error_and_not_an_absent_champion(store, place, text):
    place.write("champion.json", text.encode())
    with pytest.raises(CorruptModel):
        store.champion(MODEL)


def test_a_truncated_line_of_history_is_repaired_by_the_next_write(store, place):
    first = store.write_champion(MODEL, 1, epoch=1, reason="first")
    second = store.write_champion(MODEL, 2, epoch=2, reason="won")
    place.write("champion_history.jsonl", place.read("champion_history.jsonl")[:-20])
    assert store.history(MODEL) == [first, second]
    third = store.write_champion(MODEL, 3, epoch=3, reason="won")
    assert store.history(MODEL) == [first, second, third]
    assert len(place.read("champion_history.jsonl").splitlines()) == 3


CRASHING = """
import sys
from zerofleet.storage.model_store import open_model_store
open_model_store(sys.argv[1]).write_champion("tic_tac_toe", 2, epoch=2, reason="won")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("point", "version"), [("store_before_champion", 1), ("store_after_champion_before_history", 2)])
def test_a_gatekeeper_killed_while_writing_leaves_the_old_pointer_or_the_new(store, place, point, version):
    store.write_champion(MODEL, 1, epoch=1, reason="first")
    environment = {**os.environ, "ZEROFLEET_TEST_CRASH_AT": point}
    command = [sys.executable, "-c", CRASHING, place.location]
    assert subprocess.run(command, env=environment, timeout=60, check=False).returncode == -9
    assert store.champion(MODEL).version == version
    assert [champion.version for champion in store.history(MODEL)] == [1, version][:version]
    store.write_champion(MODEL, 3, epoch=3, reason="won")
    assert [champion.version for champion in store.history(MODEL)] == [1, 2, 3][:version] + ([3] if version < 3 else [])
