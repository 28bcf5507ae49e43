"""Version that a benchmark measures: the one that was asked for, else the run's champion."""

from __future__ import annotations

import re
import sys

import pytest

import games
from benchmarks import backend_strength, perfect_opening, wins_in_one
from benchmarks.versions import version_or_champion
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.run_paths import RunPaths
from zerofleet.testing.models import sample_files, sample_manifest

GAME = games.make("tic_tac_toe")


def test_without_a_version_it_is_the_champion(tmp_path):
    store = DirectoryStore(RunPaths(tmp_path).models)
    for version in (1, 2, 3):
        assert store.publish("tic_tac_toe", sample_files(float(version)), sample_manifest()) == version
    store.write_champion("tic_tac_toe", 2, epoch=1, reason="stronger")
    assert version_or_champion(tmp_path, GAME, None) == 2
    assert version_or_champion(tmp_path, GAME, 3) == 3


@pytest.mark.parametrize("benchmark", [backend_strength, perfect_opening, wins_in_one], ids=lambda module: module.__name__)
def test_a_run_without_a_champion_ends_a_benchmark_in_one_line(benchmark, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmark", str(tmp_path)])
    with pytest.raises(SystemExit, match=f"^{re.escape(str(tmp_path))} has no champion of connect_four yet; .*$"):
        benchmark.main()
