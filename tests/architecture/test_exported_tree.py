"""`make check` in a tree without a repository, where no tool reads `.gitignore`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_ruff_leaves_out_unpacked_servers_and_runs_where_there_is_no_repository(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copy(ROOT / ".gitignore", tmp_path)
    for name in ("games/kept.py", ".cache/triton-venv/lib/other.py", "runs/one/other.py", "build/other.py", ".venv/other.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    command = [sys.executable, "-m", "ruff", "check", "--show-files"]
    listed = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split()
    assert {Path(name).name for name in listed} == {"kept.py", "pyproject.toml"}
