"""The champion pointer: fencing, history, crashes."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from zerofleet.errors import CorruptModel
from zerofleet.storage.model_store.history import History

MODEL = "tic_tac_toe"


@pytest.fixture
def store(store, files, manifest):
    for fill in (1.0, 2.0, 3.0):
        store.publish(MODEL, files(fill), manifest)
    return store


@pytest.mark.parametrize("text", ["", "{", '{"model": "tic_tac_toe"}'])
def test_a_damaged_pointer_is_an_error_and_not_an_absent_champion(store, place, text):
    place.write("champion.json", text.encode())
    with pytest.raises(CorruptModel, match=r"restore it, or write the last line of champion_history\.jsonl into it"):
        store.champion(MODEL)


@pytest.mark.parametrize("number", ["epoch", "promoted_at_ms", "version"])
@pytest.mark.parametrize("value", [b"18446744073709551617", b"-1"])
def test_a_pointer_with_a_number_that_no_message_can_hold_is_refused_with_its_name(store, place, number, value):
    store.write_champion(MODEL, 2, epoch=1, reason="first")
    place.write(
        "champion.json",
        re.sub(rb'"%s": \d+' % number.encode(), b'"%s": %s' % (number.encode(), value), place.read("champion.json")),
    )
    with pytest.raises(CorruptModel, match=number):
        store.champion(MODEL)


def with_a_flipped_bit(pointer: bytes, version: int) -> bytes:
    """Return the pointer to version 2 with one bit of its version changed."""
    assert bin(2 ^ version).count("1") == 1
    changed = pointer.replace(b'"version": 2', b'"version": %d' % version)
    assert changed != pointer
    return changed


def test_a_flipped_bit_of_the_version_makes_no_other_stored_version_champion(store, place):
    written = store.write_champion(MODEL, 2, epoch=1, reason="won")
    sound = place.read("champion.json")
    place.write("champion.json", with_a_flipped_bit(sound, 3))
    for reads in (store.champion, store.settled_champion, store.history):
        for _ in range(2):  # an error is not remembered as a comparison
            with pytest.raises(
                CorruptModel, match=r"champion\.json names version 3 with another manifest .*; restore it, or write"
            ):
                reads(MODEL)
    with pytest.raises(CorruptModel, match=r"champion\.json"):
        store.delete(MODEL, 1)
    assert store.versions(MODEL) == [1, 2, 3]
    place.write("champion.json", sound)
    assert store.champion(MODEL) == written


def test_a_flipped_bit_is_noticed_by_who_knew_the_sound_pointer_and_by_who_did_not(store, place):
    written = store.write_champion(MODEL, 2, epoch=1, reason="won")
    assert store.champion(MODEL) == written
    place.write("champion.json", with_a_flipped_bit(place.read("champion.json"), 3))
    for reader in (store, place.limited(1 << 20)):
        with pytest.raises(CorruptModel, match="names version 3"):
            reader.champion(MODEL)


def test_a_pointer_of_another_model_is_refused(store, place):
    store.write_champion(MODEL, 2, epoch=1, reason="won")
    place.write("champion.json", place.read("champion.json").replace(b'"tic_tac_toe"', b'"tic_tac_tod"'))
    with pytest.raises(CorruptModel, match=r"champion\.json names a champion of 'tic_tac_tod', want tic_tac_toe; restore it"):
        store.champion(MODEL)


def test_a_manifest_that_changed_under_the_champion_is_noticed(store, place):
    store.write_champion(MODEL, 2, epoch=1, reason="won")
    place.write("2/manifest.json", place.read("2/manifest.json") + b"\n")
    with pytest.raises(CorruptModel, match=r"names the same version and hash, restore the manifest"):
        store.champion(MODEL)


def test_the_next_promotion_replaces_a_pointer_with_a_flipped_bit(store, place):
    first = store.write_champion(MODEL, 2, epoch=1, reason="won")
    place.write("champion.json", with_a_flipped_bit(place.read("champion.json"), 3))
    second = store.write_champion(MODEL, 1, epoch=2, reason="won", after=1)
    assert store.champion(MODEL) == second
    assert store.history(MODEL) == [first, second]


def test_a_champion_whose_version_is_gone_is_known_so_that_its_loader_tells(store, place):
    written = store.write_champion(MODEL, 2, epoch=1, reason="won")
    place.remove("2/manifest.json")
    assert place.limited(1 << 20).champion(MODEL) == written


def test_an_unchanged_pointer_is_compared_once(store, place, monkeypatch):
    read = []
    reads = type(store).manifest_sha256
    monkeypatch.setattr(type(store), "manifest_sha256", lambda *told: read.append(told[2]) or reads(*told))
    store.write_champion(MODEL, 1, epoch=1, reason="first")
    read.clear()
    for _ in range(20):
        store.champion(MODEL)
    assert read == [1]
    store.write_champion(MODEL, 2, epoch=2, reason="won")
    read.clear()
    for _ in range(20):
        store.champion(MODEL)
    assert read == [2]


def test_a_truncated_line_of_history_is_repaired_by_the_next_write(store, place):
    first = store.write_champion(MODEL, 1, epoch=1, reason="first")
    second = store.write_champion(MODEL, 2, epoch=2, reason="won")
    place.write("champion_history.jsonl", place.read("champion_history.jsonl")[:-20])
    assert store.history(MODEL) == [first, second]
    third = store.write_champion(MODEL, 3, epoch=3, reason="won")
    assert store.history(MODEL) == [first, second, third]
    assert len(place.read("champion_history.jsonl").splitlines()) == 3


def test_a_promotion_parses_no_line_of_a_whole_history(store, place, monkeypatch):
    first, second = (store.write_champion(MODEL, version, epoch=version, reason="won") for version in (1, 2))

    def refuses(*_: object, **__: object) -> None:
        raise AssertionError("a history of many thousand lines would be parsed")

    with monkeypatch.context() as refusing:
        refusing.setattr(History, "parse", refuses)
        third = store.write_champion(MODEL, 3, epoch=3, reason="won")
    assert store.history(MODEL) == [first, second, third]


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
