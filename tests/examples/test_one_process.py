"""The example of the whole loop in one process learns."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path

import pytest

import games

PATH = Path(__file__).parents[2] / "examples" / "one_process.py"


@pytest.mark.slow
def test_the_network_of_the_example_keeps_more_positions_than_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("one_process", PATH)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "one_process", example)  # its dataclasses look their module up
    spec.loader.exec_module(example)
    rows = list(example.learn(games.make("tic_tac_toe"), tmp_path, rounds=2, count=128, steps=60, seed=0))
    assert [row.version for row in rows] == [1, 2, 3]
    assert [row.games for row in rows] == [0, 128, 256]
    assert math.isnan(rows[0].loss)
    assert rows[2].loss < rows[1].loss
    assert rows[2].kept > 1.2 * rows[0].kept
    assert rows[0].positions == rows[2].positions
