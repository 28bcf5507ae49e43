"""Backups of a run directory, and what is refused; killed at every point, nothing half is ever taken for whole."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import structlog

from zerofleet.errors import RunDirectoryError, Unavailable
from zerofleet.storage.backups import list_backups, restore_backup, room, save, save_backup, verify_backup
from zerofleet.storage.crash_points import VARIABLE
from zerofleet.storage.game_log import GameLog

KEPT = {
    "run.json": b"{}",
    "gatekeeper/journal.jsonl": b'{"a": 1}\n{"b": 2}\n',
    "metrics/trainer.csv": b"time,step\n1,2\n",
    "replay/00000000.games": b"games" * 1000,
    "replay/00000000.index": b"index",
    "replay/00000001.games": b"more",
    "replay/checkpoints/00000007/state.safetensors": b"weights",
    "models/go/champion.json": b"{}",
    "models/go/champion_history.jsonl": b"{}\n",
    "models/go/.last_version": b"2\n",
    "models/go/gatekeeper_lease.json": b"{}",
    "models/go/1/model.pt": b"network",
    "models/go/2/model.pt": b"another",
}
LEFT_OUT = (
    "lock",
    "services/trainer.json",
    "logs/trainer.log",
    "model_cache/go/1/model.pt",
    "replay/lock",
    "models/go/.gatekeeper.lock",
    "models/go/.3.tmp/model.pt",
    "replay/checkpoints/00000006/state.safetensors",
    "replay/checkpoints/00000008.tmp/state.safetensors",
)


def write(root: Path, name: str, content: bytes) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(content)


def tree(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def run(tmp_path) -> Path:
    root = tmp_path / "run"
    for name, content in KEPT.items():
        write(root, name, content)
    for name in LEFT_OUT:
        write(root, name, b"of this moment")
    with closing(sqlite3.connect(root / "games.db")) as games, games:
        games.execute("pragma journal_mode=wal")
        games.execute("create table games (uid text)")
        games.execute("insert into games values ('first')")
    return root


@pytest.fixture
def backups(tmp_path) -> Path:
    return tmp_path / "backups"


def zerofleet(*words: object, crash_at: str = "") -> subprocess.CompletedProcess[str]:
    """Call the command line as a process, to be killed at a point."""
    command = [sys.executable, "-c", "from zerofleet.cli import main; main()", *map(str, words)]
    environment = {**os.environ, **({VARIABLE: crash_at} if crash_at else {})}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_what_is_restored_is_what_was_there(run, backups, tmp_path):
    backup = save_backup(run, backups)
    assert list_backups(backups) == [backup]
    verify_backup(backup)
    restore_backup(backup, tmp_path / "again")
    restored = tree(tmp_path / "again")
    with closing(sqlite3.connect(tmp_path / "again/games.db")) as games:
        assert games.execute("select uid from games").fetchall() == [("first",)]
    assert {name: content for name, content in restored.items() if not name.startswith("games.db")} == KEPT


def test_an_interrupted_restore_is_resumed_with_its_own_parts_alone(run, backups, tmp_path):
    backup, root = save_backup(run, backups), tmp_path / "again"
    assert zerofleet("restore", backup, root, "--part", "models", crash_at="restore_staged").returncode != 0
    for parts in ((), ("replay",)):
        with pytest.raises(RunDirectoryError, match="or with other parts of this one"):
            restore_backup(backup, root, parts=parts)
    restore_backup(backup, root, parts=("models",))
    assert set(tree(root)) == {name for name in KEPT if name.startswith("models/")}


def test_games_that_wait_in_an_open_stream_are_in_the_backup(run, backups):
    with closing(sqlite3.connect(run / "games.db")) as games:
        games.execute("insert into games values ('second')")
        games.commit()
        backup = save_backup(run, backups)
    with closing(sqlite3.connect(backup / "files/games.db")) as games:
        assert games.execute("select count(*) from games").fetchone() == (2,)


@pytest.mark.parametrize("ended", ["stopped", "killed"])
def test_the_stream_of_an_ended_run_is_backed_up_where_nothing_may_be_written(run, backups, tmp_path, ended):
    with closing(sqlite3.connect(run / "games.db")) as games:
        games.execute("insert into games values ('second')")
        games.commit()
        for suffix in ("", "-wal"):
            shutil.copy(run / f"games.db{suffix}", tmp_path)
    if ended == "killed":
        for suffix in ("", "-wal"):
            shutil.move(tmp_path / f"games.db{suffix}", run / f"games.db{suffix}")
    (run / "games.db-shm").symlink_to("nowhere")  # SQLite can neither open nor create it, as on a read-only disk
    before = tree(run)
    backup = save_backup(run, backups)
    verify_backup(backup)
    assert [path.name for path in (backup / "files").glob("games.db*")] == ["games.db"]
    with closing(sqlite3.connect(backup / "files/games.db")) as games:
        assert games.execute("select count(*) from games").fetchone() == (2,)
    assert before.items() <= tree(run).items()


def test_a_stream_that_is_opened_during_its_copy_is_not_backed_up(run, backups, monkeypatch):
    copy_file = save.copy_file

    def open_meanwhile(source, target, **settings):
        if source.name == "games.db":
            (run / "games.db-shm").unlink()
            (run / "games.db-shm").write_bytes(b"")
        return copy_file(source, target, **settings)

    monkeypatch.setattr(save, "copy_file", open_meanwhile)
    (run / "games.db-shm").symlink_to("nowhere")
    with pytest.raises(Unavailable, match=r"games\.db was opened by another process .* try again"):
        save_backup(run, backups)
    assert list_backups(backups) == []


def test_of_a_file_of_lines_only_whole_ones_are_copied(run, backups):
    with (run / "gatekeeper/journal.jsonl").open("ab") as journal:
        journal.write(b'{"c": ')
    backup = save_backup(run, backups)
    assert (backup / "files/gatekeeper/journal.jsonl").read_bytes() == KEPT["gatekeeper/journal.jsonl"]


def test_what_names_others_is_copied_before_them(run, backups):
    names = list(json.loads((save_backup(run, backups) / "backup.json").read_text())["files"])
    order = [
        "games.db",
        "gatekeeper/journal.jsonl",
        "replay/00000000.index",
        "replay/00000000.games",
        "replay/checkpoints/00000007/state.safetensors",
        "replay/00000001.games",
        "models/go/champion_history.jsonl",
        "models/go/champion.json",
        "models/go/2/model.pt",
        "models/go/gatekeeper_lease.json",
    ]
    assert [name for name in names if name in order] == order


class Trainer:
    """A game log and checkpoints, of which old ones are deleted as with `keep_games`."""

    def __init__(self, replay: Path) -> None:
        self.log = GameLog.open(replay, writer=True, segment_bytes=2000)
        self.checkpoints = replay / "checkpoints"
        self.needed: list[int] = []  # first game of each checkpoint

    def go_on(self, games: int) -> None:
        """Store games and write a checkpoint that needs the last 30."""
        for number in range(self.log.end_index, self.log.end_index + games):
            self.log.append([(f"{number:032x}", bytes(200))])
        self.needed.append(max(0, self.log.end_index - 30))
        write(self.checkpoints, f"{len(self.needed):08}/first", str(self.needed[-1]).encode())
        for old in sorted(self.checkpoints.iterdir())[:-2]:
            shutil.rmtree(old)
        self.log.drop_before(self.needed[-2] if len(self.needed) > 1 else 0)


@pytest.fixture
def trainer(run):
    shutil.rmtree(run / "replay")
    trainer = Trainer(run / "replay")
    for _ in range(6):
        trainer.go_on(12)
    yield trainer
    trainer.log.close()


def test_a_checkpoint_has_its_games_although_older_ones_are_deleted_during_the_backup(
    run, backups, tmp_path, trainer, monkeypatch
):
    copied = set()

    def go_on(point):
        found = set(backups.glob(".*.tmp/files/replay/*.games"))
        if point == "backup_after_file" and found > copied and len(copied) < 2:
            copied.update(found)
            trainer.go_on(24)

    monkeypatch.setattr(save, "crash_point", go_on)
    restore_backup(save_backup(run, backups), tmp_path / "again")
    assert len(copied) == 2
    first = int(next((tmp_path / "again/replay/checkpoints").iterdir()).joinpath("first").read_text())
    with GameLog.open(tmp_path / "again/replay", writer=False) as log:
        assert log.start_index <= first
        assert [logged.index for logged in log.scan(first)] == [*range(first, first + 30)]


def test_a_backup_fails_where_games_of_its_checkpoint_may_be_deleted(run, backups, trainer, monkeypatch):
    def go_on(point):
        if point == "backup_after_file" and list(backups.glob(".*.tmp/files/replay/checkpoints/*/*")):
            monkeypatch.undo()
            for _ in range(8):
                trainer.go_on(12)

    monkeypatch.setattr(save, "crash_point", go_on)
    with pytest.raises(Unavailable, match=r"\.games.* try again"):
        save_backup(run, backups)
    assert list_backups(backups) == []


def test_the_directory_of_a_first_backup_is_still_there_after_a_power_loss(run, tmp_path, synced):
    save_backup(run, tmp_path / "kept" / "backups")
    assert {tmp_path, tmp_path / "kept", tmp_path / "kept" / "backups"} <= set(synced)


def test_unchanged_files_take_no_space_in_the_next_backup_which_is_complete_without_the_first(run, backups, tmp_path):
    first = save_backup(run, backups)
    write(run, "replay/00000001.games", b"more and more")
    write(run, "models/go/3/model.pt", b"newer")
    second = save_backup(run, backups)
    shared = {name for name in tree(second / "files") if (first / "files" / name).exists()} - {"games.db"}
    shared = {name for name in shared if (second / "files" / name).samefile(first / "files" / name)}
    assert shared == KEPT.keys() - {"replay/00000001.games"}
    assert not any((run / name).samefile(second / "files" / name) for name in KEPT)
    shutil.rmtree(first)
    verify_backup(second)
    restore_backup(second, tmp_path / "again")
    restored = {**KEPT, "replay/00000001.games": b"more and more", "models/go/3/model.pt": b"newer"}
    assert {name: content for name, content in tree(tmp_path / "again").items() if not name.startswith("games.db")} == restored
    assert not any((tmp_path / "again" / name).samefile(second / "files" / name) for name in KEPT)


@pytest.mark.parametrize("changed", ["in the run", "in the earlier backup", "removed there", "linked there"])
def test_a_file_that_changed_without_its_size_is_copied(run, backups, changed):
    name = "models/go/2/model.pt"
    earlier = save_backup(run, backups) / "files" / name
    if changed == "in the run":
        write(run, name, b"Another")
    elif changed == "in the earlier backup":
        earlier.write_bytes(b"Another")
    else:
        earlier.unlink()
        if changed == "linked there":
            earlier.symlink_to(run / name)
    backup = save_backup(run, backups)
    verify_backup(backup)
    assert (backup / "files" / name).read_bytes() == (run / name).read_bytes()
    assert not (backup / "files" / name).is_symlink()


def test_games_in_the_log_of_a_stream_whose_file_is_unchanged_are_in_the_next_backup(run, backups):
    first = save_backup(run, backups)
    shutil.copy(first / "files/games.db", run / "games.db")
    with closing(sqlite3.connect(run / "games.db")) as games:
        games.execute("pragma journal_mode=wal")
        before = (run / "games.db").read_bytes()
        games.execute("insert into games values ('second')")
        games.commit()
        assert (run / "games.db").read_bytes() == before
        second = save_backup(run, backups)
    with closing(sqlite3.connect(second / "files/games.db")) as games:
        assert games.execute("select count(*) from games").fetchone() == (2,)


@pytest.mark.parametrize("number", [errno.EPERM, errno.EXDEV, errno.ENOTSUP, errno.EMLINK])
def test_where_files_cannot_be_linked_they_are_copied(run, backups, monkeypatch, number):
    tried = []

    def refuse(source, target):
        tried.append(source)
        raise OSError(number, os.strerror(number))

    first = save_backup(run, backups)
    monkeypatch.setattr(os, "link", refuse)
    second = save_backup(run, backups)
    verify_backup(second)
    assert not any((first / "files" / name).samefile(second / "files" / name) for name in KEPT)
    assert len(tried) == 1


def test_the_newest_backups_are_kept(run, backups):
    made = [save_backup(run, backups, keep=2) for _ in range(4)]
    assert list_backups(backups) == sorted(made)[-2:]
    assert made[-1] in list_backups(backups)


def full_while(monkeypatch, is_full, error):
    """Let every copy of a games file fail with an error while the condition holds."""
    copy_file = save.copy_file

    def copy(source, target, **settings):
        if source.suffix == ".games" and is_full():
            raise error
        return copy_file(source, target, **settings)

    monkeypatch.setattr(save, "copy_file", copy)


def sqlite_full() -> sqlite3.OperationalError:
    """The error that SQLite raises on a full disk."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("pragma max_page_count=1")
        try:
            database.execute("create table full (at, once)")
        except sqlite3.OperationalError as error:
            return error
    raise AssertionError("a table was created in no page")


FULL = [OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EDQUOT, "Disk quota exceeded"), sqlite_full()]


@pytest.mark.parametrize("error", FULL, ids=["disk", "quota", "database"])
def test_on_a_full_disk_the_oldest_backups_of_the_run_make_room(run, backups, tmp_path, monkeypatch, error):
    shutil.copytree(run, tmp_path / "other")
    others = save_backup(tmp_path / "other", backups)
    made = [save_backup(run, backups) for _ in range(4)]
    write(run, "replay/00000001.games", b"more and more")
    full_while(monkeypatch, lambda: len(list_backups(backups)) > 3, error)
    with structlog.testing.capture_logs() as logged:
        last = save_backup(run, backups, keep=4)
    assert list_backups(backups) == [others, *made[2:], last]
    assert [(line["event"], line["removed"], line["left"]) for line in logged] == [
        ("backup.older_removed", str(made[0]), 3),
        ("backup.older_removed", str(made[1]), 2),
    ]
    verify_backup(last)


@pytest.mark.parametrize("shared", [True, False])
def test_a_backup_makes_room_only_where_its_removal_frees_enough(run, backups, monkeypatch, shared):
    sizes = [1 << 16] * 3 if shared else [1 << 18, 1 << 16, 1 << 16]  # equal files are one on the disk
    made = []
    for size in sizes:
        write(run, "replay/00000000.games", bytes(size))
        made.append(save_backup(run, backups))
    write(run, "replay/00000001.games", bytes(1 << 17))
    full_while(monkeypatch, lambda: len(list_backups(backups)) > 2, FULL[0])
    nothing_free = shutil.disk_usage(backups)._replace(free=0)
    monkeypatch.setattr(room.shutil, "disk_usage", lambda _: nothing_free)
    if shared:
        with pytest.raises(Unavailable, match="No space left on device; nothing was kept"):
            save_backup(run, backups, keep=8)
        assert list_backups(backups) == made
    else:
        assert list_backups(backups) == made
        assert save_backup(run, backups, keep=8) not in made
        assert list_backups(backups)[:-1] == made[1:]


def test_the_newest_backup_makes_no_room_on_a_full_disk(run, backups, monkeypatch):
    made = [save_backup(run, backups) for _ in range(3)]
    write(run, "replay/00000001.games", b"more and more")
    full_while(monkeypatch, lambda: True, FULL[0])
    with pytest.raises(Unavailable, match=f"to make room: {made[0].name}, {made[1].name}; newer backups are kept"):
        save_backup(run, backups, keep=8)
    assert list_backups(backups) == made[2:]
    with pytest.raises(Unavailable, match="No space left on device; nothing was kept"):
        save_backup(run, backups, keep=8)
    assert list_backups(backups) == made[2:]
    assert not list(backups.glob(".*.tmp"))


@pytest.mark.parametrize(("keep", "error"), [(0, FULL[0]), (8, OSError(errno.EIO, "Input/output error"))])
def test_no_backup_makes_room_where_all_are_kept_or_the_disk_fails(run, backups, monkeypatch, keep, error):
    made = [save_backup(run, backups) for _ in range(3)]
    write(run, "replay/00000001.games", b"more and more")
    full_while(monkeypatch, lambda: True, error)
    with pytest.raises(Unavailable, match="nothing was kept"):
        save_backup(run, backups, keep=keep)
    assert list_backups(backups) == made


def test_a_complete_backup_is_named_where_an_older_one_cannot_be_removed(run, backups, monkeypatch):
    old = save_backup(run, backups)

    def block_the_removal(_):
        write(backups, f".{old.name}.tmp/part", b"which no folder replaces")

    monkeypatch.setattr(save, "crash_point", block_the_removal)
    with pytest.raises(Unavailable, match="is complete, but an older one could not be removed") as caught:
        save_backup(run, backups, keep=1)
    last = list_backups(backups)[-1]
    assert last != old
    assert f"the backup {last} is complete" in str(caught.value)
    verify_backup(last)


def test_a_backup_after_the_clock_was_set_back_is_kept_and_the_newest_others_with_it(run, backups):
    names = ("20390101T000000000Z", "20390102T000000000Z", "20390103T000000000Z")
    of_a_wrong_clock = [save_backup(run, backups).rename(backups / name) for name in names]
    last = save_backup(run, backups, keep=3)
    assert list_backups(backups) == [last, *of_a_wrong_clock[1:]]
    last = save_backup(run, backups, keep=1)
    assert list_backups(backups) == [last]


def test_a_backup_leaves_temporary_files_of_other_programs_alone(run, backups):
    write(backups, ".mirror.tmp/part", b"of another program")
    write(backups, ".index.tmp", b"of another program")
    save_backup(run, backups)
    assert (backups / ".mirror.tmp/part").exists()
    assert (backups / ".index.tmp").exists()


def test_a_backup_that_keeps_one_leaves_those_of_another_run_and_damaged_ones(run, backups, tmp_path):
    shutil.copytree(run, tmp_path / "other")
    others, damaged = save_backup(tmp_path / "other", backups), save_backup(run, backups)
    (damaged / "backup.json").write_text("{")
    first, last = save_backup(run, backups, keep=1), save_backup(run, backups, keep=1)
    assert not first.exists()
    assert list_backups(backups) == sorted([others, damaged, last])


def test_parts_of_a_run_are_restored_onto_mounted_volumes_which_are_empty(run, backups, tmp_path):
    shutil.rmtree(run / "models")
    backup = save_backup(run, backups)
    root = tmp_path / "again"
    (root / "replay/lost+found").mkdir(parents=True)
    (root / "gatekeeper").mkdir()
    restore_backup(backup, root)
    assert (root / "replay/00000001.games").read_bytes() == b"more"


def test_a_part_of_a_run_is_restored_beside_the_others(run, backups, tmp_path):
    backup = save_backup(run, backups)
    shutil.rmtree(run / "replay")
    restore_backup(backup, run, parts=["replay"])
    assert (run / "replay/00000001.games").read_bytes() == b"more"
    with pytest.raises(RunDirectoryError, match="is not empty"):
        restore_backup(backup, run, parts=["models"])
    with pytest.raises(RunDirectoryError, match="has no part modles; it has gatekeeper, metrics, models, replay"):
        restore_backup(backup, run, parts=["modles"])


def test_files_of_another_run_are_not_replaced_by_a_part_with_an_empty_name(run, backups, tmp_path):
    backup, other = save_backup(run, backups), tmp_path / "other"
    write(other, "run.json", b"of another run")
    with pytest.raises(RunDirectoryError, match="has no part with an empty name; it has gatekeeper, metrics, models, replay"):
        restore_backup(backup, other, parts=[""])
    assert tree(other) == {"run.json": b"of another run"}


def test_a_directory_that_is_not_empty_is_refused(run, backups, tmp_path):
    backup = save_backup(run, backups)
    with pytest.raises(RunDirectoryError, match="is not empty"):
        restore_backup(backup, run)
    write(tmp_path, "other/replay/precious", b"mine")
    with pytest.raises(RunDirectoryError, match=r"it has .*precious"):
        restore_backup(backup, tmp_path / "other")
    assert tree(tmp_path / "other") == {"replay/precious": b"mine"}


@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "link"])
def test_a_damaged_backup_puts_nothing_in_place(run, backups, tmp_path, damage):
    backup = save_backup(run, backups)
    victim = backup / "files/models/go/2/model.pt"
    if damage == "flip":
        victim.write_bytes(b"Another")
    elif damage == "cut":
        victim.write_bytes(b"anoth")
    else:
        victim.unlink()
        if damage == "link":
            victim.symlink_to(run / "models/go/2/model.pt")
    with pytest.raises(RunDirectoryError, match="use another"):
        restore_backup(backup, tmp_path / "again")
    assert not (tmp_path / "again/run.json").exists()
    assert not (tmp_path / "again/models/go").exists()
    if damage != "link":
        with pytest.raises(RunDirectoryError):
            verify_backup(backup)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "replay/../../outside", ""])
def test_a_list_that_names_files_outside_of_the_run_is_refused(run, backups, tmp_path, name):
    backup = save_backup(run, backups)
    contents = json.loads((backup / "backup.json").read_text())
    contents["files"][name] = contents["files"]["run.json"]
    (backup / "backup.json").write_text(json.dumps(contents))
    with pytest.raises(RunDirectoryError, match="not a file of a run"):
        restore_backup(backup, tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 99}'])
def test_a_list_that_cannot_be_read_is_refused(run, backups, tmp_path, text):
    backup = save_backup(run, backups)
    (backup / "backup.json").write_text(text)
    with pytest.raises(RunDirectoryError, match="take another backup"):
        restore_backup(backup, tmp_path / "again")


def test_what_is_no_run_is_not_backed_up(tmp_path, backups):
    with pytest.raises(RunDirectoryError, match="is not a directory"):
        save_backup(tmp_path / "nothing", backups)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunDirectoryError, match="holds no files of a run"):
        save_backup(tmp_path / "empty", backups)
    assert list_backups(backups) == []


def test_backups_do_not_lie_in_what_is_backed_up(run):
    with pytest.raises(RunDirectoryError, match="name a directory outside"):
        save_backup(run, run / "backups")


def test_one_backup_is_taken_at_a_time(run, backups):
    backups.mkdir()
    with (backups / ".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match="another backup is in progress"):
            save_backup(run, backups)


def test_a_version_that_is_pruned_under_the_copy_is_left_out(run, backups, monkeypatch):
    copy_file = save.copy_file

    def prune(source, target, **settings):
        if source == run / "models/go/1/model.pt":
            shutil.rmtree(source.parent)
        return copy_file(source, target, **settings)

    monkeypatch.setattr(save, "copy_file", prune)
    backup = save_backup(run, backups)
    verify_backup(backup)
    assert not (backup / "files/models/go/1").exists()
    assert (backup / "files/models/go/2/model.pt").exists()


@pytest.mark.slow
@pytest.mark.parametrize("point", ["backup_after_file:1", "backup_after_file:9", "backup_before_rename"])
def test_a_killed_backup_is_none_and_the_next_removes_what_it_left(run, backups, point):
    assert zerofleet("backup", run, "--to", backups, crash_at=point).returncode == -signal.SIGKILL
    assert list_backups(backups) == []
    assert list(backups.glob(".*.tmp"))
    verify_backup(save_backup(run, backups))
    assert not list(backups.glob(".*.tmp"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        *("restore_after_file:5", "restore_staged", "restore_moved:1", "restore_moved:6"),
        *("restore_finished", "restore_staging_removed"),
    ],
)
def test_a_killed_restore_is_gone_on_with_by_the_same_command(run, backups, tmp_path, point):
    backup, root = save_backup(run, backups), tmp_path / "again"
    assert zerofleet("restore", backup, root, crash_at=point).returncode == -signal.SIGKILL
    done = zerofleet("restore", backup, root)
    assert (done.returncode, "restored" in done.stdout) == (0, True), done.stderr
    assert {name: content for name, content in tree(root).items() if not name.startswith("games.db")} == KEPT
    assert not list(root.rglob("*.tmp"))
    assert zerofleet("restore", backup, root).returncode == 2


@pytest.mark.slow
def test_a_finished_restore_is_not_taken_for_one_of_what_was_deleted_since(run, backups, tmp_path):
    backup, root = save_backup(run, backups), tmp_path / "again"
    assert zerofleet("restore", backup, root, crash_at="restore_finished").returncode == -signal.SIGKILL
    other = save_backup(run, backups)
    with pytest.raises(RunDirectoryError, match="is not empty"):
        restore_backup(other, root)
    for path in root.iterdir():
        if path.is_dir() and not path.name.startswith("."):
            shutil.rmtree(path)
        elif not path.name.startswith("."):
            path.unlink()
    restore_backup(backup, root)
    assert {name: content for name, content in tree(root).items() if not name.startswith("games.db")} == KEPT


@pytest.mark.slow
def test_a_half_restored_directory_takes_no_other_backup(run, backups, tmp_path):
    first, root = save_backup(run, backups), tmp_path / "again"
    write(run, "models/go/3/model.pt", b"newer")
    second = save_backup(run, backups)
    assert zerofleet("restore", first, root, crash_at="restore_moved:2").returncode == -signal.SIGKILL
    with pytest.raises(RunDirectoryError, match="is being restored from another backup"):
        restore_backup(second, root)


def test_a_folder_of_backups_is_refused_with_the_name_of_the_newest(run, backups, tmp_path):
    save_backup(run, backups)
    newest = save_backup(run, backups)
    with pytest.raises(RunDirectoryError, match=f"is a folder of backups; name one of them, the newest is {newest}$"):
        verify_backup(backups)
    with pytest.raises(RunDirectoryError, match=r"\(there is no such folder\); name one"):
        verify_backup(tmp_path / "absent")
    with pytest.raises(RunDirectoryError, match=r"\(No such file or directory\); name one that has a backup.json"):
        verify_backup(run)
