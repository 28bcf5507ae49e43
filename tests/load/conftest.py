"""Proofs under load take minutes and want a quiet machine: they run when they are named (make overload, make swap)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
for folder in (FOLDER, FOLDER.parent / "contract"):
    sys.path.insert(0, str(folder))


def pytest_addoption(parser):
    group = parser.getgroup("load")
    group.addoption("--seconds", type=float, default=60.0, help="how long the server is flooded")
    group.addoption("--clients", type=int, default=200, help="clients that flood it")
    group.addoption("--fronts", type=int, default=0, help="front ends of the server that is flooded; 0 for none")
    group.addoption("--fronts-nice", type=int, default=0, help="by how much their priority is lower than the device's")
    group.addoption("--promotions", type=int, default=100, help="promotions in a row")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config):
    """Leave the proofs out unless a path below this folder was asked for."""
    if collection_path.name not in ("test_overload.py", "test_swap.py"):
        return None
    return None if any("tests/load" in argument for argument in config.args) else True
