"""Entries of a store that are not the files they should be: pipes, devices, directories, links to them, files without end.

Opening a pipe waits for its other end, so each of these tests would hang where a file is opened without a look at it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from zerofleet.contracts.plain_files import open_plain, read_plain
from zerofleet.errors import CorruptModel, RunDirectoryError, Unavailable
from zerofleet.storage.backups import restore_backup, save_backup, verify_backup
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.runs import RunDirectory, read_header
from zerofleet.testing.models import MODEL, sample_files, sample_manifest

MANIFEST = sample_manifest()

PUT: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "directory": Path.mkdir,
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to itself": lambda path: path.symlink_to(path),
}


@pytest.fixture(params=PUT)
def put(request) -> Callable[[Path], None]:
    def replace(path: Path) -> None:
        path.unlink(missing_ok=True)
        PUT[request.param](path)

    return replace


@pytest.fixture
def store(tmp_path) -> DirectoryStore:
    store = DirectoryStore(tmp_path / "run" / "models")
    store.publish(MODEL, sample_files(), MANIFEST, config="name: 'a'\n")
    store.write_champion(MODEL, 1, epoch=1, reason="first")
    return store


@pytest.fixture
def home(store) -> Path:
    return store.root / MODEL


def test_a_pointer_that_is_not_a_file_is_corrupt_and_names_itself(store, home, put):
    put(home / "champion.json")
    with pytest.raises(CorruptModel, match=r"champion\.json cannot be read .*; restore it"):
        store.champion(MODEL)
    with pytest.raises(CorruptModel, match=r"champion\.json"):
        store.history(MODEL)


def test_a_history_that_is_not_a_file_hides_no_champion_and_is_corrupt_where_all_of_it_is_needed(store, home, put):
    put(home / "champion_history.jsonl")
    assert [champion.version for champion in store.history(MODEL)] == [1]
    with pytest.raises(CorruptModel, match=r"champion_history\.jsonl cannot be read .*; restore it, or remove it"):
        store.history(MODEL, whole=True)


def test_a_promotion_moves_a_history_that_is_not_a_file_aside_and_begins_a_new_one(store, home, put):
    put(home / "champion_history.jsonl")
    version = store.publish(MODEL, sample_files(2.0), MANIFEST)
    store.write_champion(MODEL, version, epoch=2, reason="second")
    assert [champion.version for champion in store.history(MODEL)] == [1, version]
    (aside,) = home.glob("champion_history.jsonl.*.unreadable")
    assert aside.is_symlink() or not aside.is_file()
    with pytest.raises(CorruptModel, match="was the history of champions"):
        store.history(MODEL, whole=True)  # as before versions are deleted
    aside.rename(home.parent / "removed")
    assert [champion.version for champion in store.history(MODEL, whole=True)] == [1, version]


def test_a_configuration_that_is_not_a_file_is_corrupt_and_names_itself(store, home, put):
    put(home / "config.pbtxt")
    with pytest.raises(CorruptModel, match=r"config\.pbtxt cannot be read .*; remove it"):
        store.config(MODEL)


def test_a_counter_that_is_not_a_file_is_corrupt_and_names_itself(store, home, put):
    put(home / ".last_version")
    with pytest.raises(CorruptModel, match=r"\.last_version cannot be read .*; remove it"):
        store.publish(MODEL, sample_files(2.0), MANIFEST)
    assert store.versions(MODEL) == [1]


def test_a_lock_that_is_not_a_file_is_not_waited_for(store, home, put):
    put(home / ".publish.lock")
    with pytest.raises(Unavailable, match=r"\.publish\.lock"):
        store.publish(MODEL, sample_files(2.0), MANIFEST)


def test_a_pointer_without_end_is_corrupt_and_not_read_whole(store, home):
    with (home / "champion.json").open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(CorruptModel, match="Larger than 1048576 bytes"):
        store.champion(MODEL)


def test_the_header_of_a_run_that_is_not_a_file_is_refused(tmp_path, put):
    put(tmp_path / "run.json")
    with pytest.raises(RunDirectoryError, match=r"run\.json cannot be read"):
        read_header(tmp_path)


@pytest.mark.parametrize("text", [b"[" * 200_000, b'{"schema":' * 50_000, b"\xff", b"", b"1", b'"schema"', b"{}"])
def test_a_header_of_a_run_that_is_not_a_header_is_refused(tmp_path, text):
    (tmp_path / "run.json").write_bytes(text)
    with pytest.raises(RunDirectoryError):
        read_header(tmp_path)


def test_the_lock_of_a_run_that_is_not_a_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(OSError, match="Not a regular file"):
        RunDirectory.create_or_open(tmp_path, "tic_tac_toe", {})


def test_files_of_a_game_log_that_are_not_files_are_refused(tmp_path, put):
    with GameLog.open(tmp_path, writer=True) as log:
        log.append([("0" * 32, b"a game")])
    put(tmp_path / "00000000.games")
    with pytest.raises(RunDirectoryError, match=r"00000000\.games cannot be opened .*restore it"):
        GameLog.open(tmp_path, writer=True)


def test_a_run_with_a_pipe_is_not_backed_up_and_not_waited_for(store, home, tmp_path):
    os.mkfifo(home / "notes")
    backup = save_backup(tmp_path / "run", tmp_path / "backups")  # a pipe beside the versions belongs to no run
    assert not list(backup.rglob("notes"))
    os.mkfifo(home / "1" / "more")
    with pytest.raises(Unavailable, match="Not a regular file"):
        save_backup(tmp_path / "run", tmp_path / "backups")


def test_a_backup_with_a_pipe_in_place_of_a_file_is_refused(store, tmp_path):
    backup = save_backup(tmp_path / "run", tmp_path / "backups")
    pipe = next(backup.rglob("model.pt"))
    pipe.unlink()
    os.mkfifo(pipe)
    with pytest.raises(RunDirectoryError, match=r"model\.pt cannot be read"):
        verify_backup(backup)
    with pytest.raises(RunDirectoryError, match="not a regular file"):
        restore_backup(backup, tmp_path / "again")


def test_a_file_is_read_up_to_its_bound_and_a_link_to_one_is_followed(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("file")
    assert read_plain(tmp_path / "link", max_bytes=3) == b"abc"
    with pytest.raises(OSError, match="Larger than 2 bytes"):
        read_plain(tmp_path / "file", max_bytes=2)
    with pytest.raises(FileNotFoundError):
        open_plain(tmp_path / "absent")
