"""The example of the whole loop in one process learns."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import structlog

import games

PATH = Path(__file__).parents[2] / "examples" / "one_process.py"


def loaded(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the example as a module."""
    spec = importlib.util.spec_from_file_location("one_process", PATH)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "one_process", example)  # its dataclasses look their module up
    spec.loader.exec_module(example)
    return example


def test_log_lines_are_kept_out_of_the_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    example = loaded(monkeypatch)

    def learn(*_: object, **__: object) -> Iterator[object]:
        structlog.get_logger().info("learner.convolutions")
        yield example.Round(1, 0, math.nan, 90, 200)

    monkeypatch.setattr(example, "learn", learn)
    before = structlog.get_config()
    structlog.reset_defaults()  # as in a program that configures nothing
    try:
        example.main()
    finally:
        structlog.configure(**before)
    assert capsys.readouterr().out.splitlines()[1:] == ["      1      0    nan  45% of 200 positions"]


@pytest.mark.slow
def test_the_network_of_the_example_keeps_more_positions_than_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = loaded(monkeypatch)
    rows = list(example.learn(games.make("tic_tac_toe"), tmp_path, rounds=2, count=128, steps=60, seed=0))
    assert [row.version for row in rows] == [1, 2, 3]
    assert [row.games for row in rows] == [0, 128, 256]
    assert math.isnan(rows[0].loss)
    assert rows[2].loss < rows[1].loss
    assert rows[2].kept > 1.2 * rows[0].kept
    assert rows[0].positions == rows[2].positions
