"""How many cores a process may use."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from zerofleet.strength.processors import usable_cores

Group = Callable[[str, dict[str, str]], int]


@pytest.fixture
def cores_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Group:
    """Return the cores of a process with an affinity of 64, in a group among groups with the given limits."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(64)), raising=False)

    def cores(own: str, limits: dict[str, str]) -> int:
        for group, limit in limits.items():
            folder = tmp_path / "groups" / group
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "cpu.max").write_text(limit)
        (tmp_path / "own").write_text(own)
        return usable_cores(tmp_path / "own", tmp_path / "groups")

    return cores


@pytest.mark.parametrize(
    ("limit", "cores"),
    [("200000 100000", 2), ("150000 100000", 2), ("20000 100000", 1), ("max 100000", 64), ("9900000 100000", 64), ("?", 64)],
)
def test_the_limit_of_a_container_counts_in_whole_cores(cores_in: Group, limit: str, cores: int) -> None:
    assert cores_in("0::/\n", {".": limit}) == cores


def test_the_lowest_limit_of_the_groups_around_counts(cores_in: Group) -> None:
    limits = {"pod": "400000 100000", "pod/box": "max 100000", "other": "100000 100000"}
    assert cores_in("1:cpu:/old\n0::/pod/box\n", limits) == 4


def test_a_group_outside_the_visible_ones_has_no_limit(cores_in: Group) -> None:
    assert cores_in("0::/../elsewhere\n", {"pod": "100000 100000"}) == 64


def test_without_groups_of_version_2_the_affinity_counts(cores_in: Group, tmp_path: Path) -> None:
    assert cores_in("3:cpuset:/\n1:cpu:/\n", {".": "100000 100000"}) == 64
    assert usable_cores(tmp_path / "missing", tmp_path) == 64
