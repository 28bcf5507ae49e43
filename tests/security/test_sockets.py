"""The sockets of a run have no guard but their directory, so that is its owner's alone."""

from __future__ import annotations

import os

import pytest

from zerofleet.errors import RunDirectoryError
from zerofleet.storage.run_paths import RunPaths
from zerofleet.storage.runs import RunDirectory


def _open(root):
    return RunDirectory.create_or_open(root, "tic_tac_toe", {}, preset="tiny")


def test_the_directory_of_the_sockets_is_closed_to_others_whatever_the_umask(tmp_path):
    former = os.umask(0)
    try:
        _open(tmp_path / "run").close()
    finally:
        os.umask(former)
    assert RunPaths(tmp_path / "run").sockets.stat().st_mode & 0o777 == 0o700


def test_a_socket_directory_with_open_permissions_is_closed(tmp_path):
    _open(tmp_path / "run").close()
    sockets = RunPaths(tmp_path / "run").sockets
    sockets.chmod(0o777)
    _open(tmp_path / "run").close()
    assert sockets.stat().st_mode & 0o777 == 0o700


def test_a_short_directory_for_a_long_path_is_closed_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    root = tmp_path / ("long" * 25)
    _open(root).close()
    sockets = RunPaths(root).sockets
    assert sockets.parent == tmp_path
    assert sockets.stat().st_mode & 0o777 == 0o700


def test_a_socket_directory_of_another_user_is_refused(tmp_path, monkeypatch):
    """In a directory for temporary files anybody can make one of that name first."""
    root = tmp_path / "run"
    _open(root).close()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    RunPaths(root).sockets.rmdir()
    RunPaths(root).sockets.symlink_to(elsewhere)
    with pytest.raises(RunDirectoryError, match="is not a directory of this user's"):
        _open(root)
    RunPaths(root).sockets.unlink()
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(RunDirectoryError, match=f"owner {user}"):
        _open(root)
