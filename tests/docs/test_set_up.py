"""`make venv`, the first command of a newcomer, with programs in place of Python and pip."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON = """#!/bin/sh
echo "$@" >> called
case "$*" in "-m venv .venv") printf '#!/bin/sh\\n' > .venv/bin/pip && chmod +x .venv/bin/pip ;; esac
"""


def test_an_environment_that_was_left_without_pip_is_completed(tmp_path):
    """As Debian leaves it without the package python3-venv, or an interruption."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("pyproject.toml", "constraints.txt", "hatch_build.py"):
        (tmp_path / name).touch()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for program in (tmp_path / "python", tmp_path / ".venv" / "bin" / "python"):
        program.write_text(PYTHON)
        program.chmod(0o755)
    subprocess.run(["make", "--silent", "venv", "PYTHON=./python"], cwd=tmp_path, check=True, timeout=60)
    assert "-m venv .venv" in (tmp_path / "called").read_text().splitlines()
