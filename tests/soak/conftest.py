"""A soak takes half an hour and a Docker engine: it runs when it is named (make soak)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))


def pytest_addoption(parser):
    group = parser.getgroup("soak")
    group.addoption("--minutes", type=float, default=30.0, help="how long the cluster is hurt")
    group.addoption("--seed", type=int, default=1, help="which fault is made when")
    group.addoption("--every", type=float, default=60.0, help="seconds between faults")
    group.addoption("--faults", default="", help="kinds of faults, with commas between; default: all that this machine makes")
    group.addoption("--disk-mib", type=int, default=20480, help="size of each disk; it takes what is written to it")
    group.addoption("--resume", type=Path, default=None, help="folder of a soak in slices: begin one there, or go on with it")
    group.addoption("--workers", type=int, default=2, help="self-play workers")
    group.addoption("--report", type=Path, default=FOLDER.parents[1] / "build/soak", help="folder of the report")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config):
    """Leave the soak out unless a path below this folder was asked for."""
    if collection_path.name != "test_soak.py":
        return None
    return None if any("tests/soak" in argument for argument in config.args) else True
