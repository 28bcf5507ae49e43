"""The champion pointer: fencing, history, crashes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from zerofleet.errors import CorruptModel

MODEL = "tic_tac_toe"


@pytest.fixture
def store(store, files, manifest):
    for fill in (1.0, 2.0, 3.0):
        store.publish(MODEL, files(fill), manifest)
    return store


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


def test_a_champion_states_the_export_of_its_version(store):
    written = store.write_champion(MODEL, 2, epoch=1, reason="won")
    assert written.exported_at_ms == store.manifest(MODEL, 2).created_at_ms > 0
    assert store.champion(MODEL) == written


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
