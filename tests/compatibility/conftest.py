"""Copies of what an earlier version wrote; see `tests/golden/old_formats/README.md`."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from games.core import Game, make
from zerofleet.storage.runs import RunPaths

OLD = Path(__file__).parents[1] / "golden" / "old_formats"


@pytest.fixture
def old(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that copies a file or folder of the fixtures to a place where it may be changed."""

    def copy(name: str) -> Path:
        source, target = OLD / name, tmp_path / name
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
        return target

    return copy


@pytest.fixture
def run(old: Callable[[str], Path]) -> RunPaths:
    """Return a copy of the run directory."""
    return RunPaths(old("run"))


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """Return the backup of the run, unpacked."""
    with tarfile.open(OLD / "backup.tar.xz") as packed:
        packed.extractall(tmp_path / "backups", filter="data")
    (found,) = (tmp_path / "backups").iterdir()
    return found


@pytest.fixture(scope="session")
def game() -> Game:
    """Return the game of the run."""
    return make("tic_tac_toe")
