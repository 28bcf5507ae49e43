"""Publishing small files, and dying at named points."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from zerofleet.storage.crash_points import VARIABLE
from zerofleet.storage.files import atomic_publish, drop_unfinished, make_directory


def test_a_published_file_contains_exactly_the_new_content(tmp_path: Path) -> None:
    path = tmp_path / "champion.json"
    atomic_publish(path, b"a long first content")
    atomic_publish(path, "zwölf")
    assert path.read_bytes() == "zwölf".encode()
    assert [p.name for p in tmp_path.iterdir()] == ["champion.json"]


def test_a_failed_write_leaves_the_old_content_and_no_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "champion.json"
    atomic_publish(path, b"old")

    def disk_full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(OSError, match="No space left"):
        atomic_publish(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["champion.json"]


def test_a_file_is_synced_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "champion.json"
    named_at_sync = []
    real = os.fsync

    def watch(descriptor: int) -> None:
        named_at_sync.append(path.exists())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    atomic_publish(path, b"new")
    assert named_at_sync == [False, True]  # the file first, then the directory that names it


def test_a_confirmation_that_fails_leaves_the_old_content_and_no_temporary_files(tmp_path: Path) -> None:
    path = tmp_path / "champion.json"
    atomic_publish(path, b"old")

    def refuse() -> None:
        raise KeyError("not now")

    with pytest.raises(KeyError, match="not now"):
        atomic_publish(path, b"new", confirm=refuse)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["champion.json"]


def test_a_file_whose_temporary_one_was_removed_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "champion.json"
    atomic_publish(path, b"old")
    (tmp_path / "champion.json2.x.tmp").touch()  # of another file
    with pytest.raises(FileNotFoundError):
        atomic_publish(path, b"new", confirm=lambda: drop_unfinished(path))
    assert path.read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["champion.json", "champion.json2.x.tmp"]


def test_the_names_of_a_directory_and_its_parents_are_synced_whether_it_exists_or_not(
    tmp_path: Path, synced: list[Path]
) -> None:
    for _ in range(2):  # a killed process may have created it and synced nothing
        synced.clear()
        make_directory(tmp_path / "run" / "replay")
        assert synced[:2] == [tmp_path / "run", tmp_path]
        assert len(set(synced)) == len(synced)
        assert synced[-1].is_mount() or not os.access(synced[-1].parent, os.R_OK)


SCRIPT = """
from zerofleet.storage.crash_points import crash_point
for i in range(3):
    print(i, flush=True)
    crash_point("here")
    crash_point("elsewhere")
"""


@pytest.mark.parametrize(
    ("armed", "printed", "status"),
    [
        ("here", "0\n", -signal.SIGKILL),
        ("here:3", "0\n1\n2\n", -signal.SIGKILL),
        ("nowhere,here:2", "0\n1\n", -signal.SIGKILL),
        ("nowhere", "0\n1\n2\n", 0),
        ("", "0\n1\n2\n", 0),
    ],
)
def test_a_process_dies_only_at_the_named_crash_point(armed: str, printed: str, status: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**os.environ, VARIABLE: armed}, capture_output=True, text=True, check=False
    )
    assert (ended.stdout, ended.returncode) == (printed, status)
