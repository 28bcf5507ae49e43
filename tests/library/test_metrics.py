"""Metrics of a run as columns."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import zerofleet as zf
from zerofleet.library.metrics import COLUMNS, read_metrics


def test_a_run_that_has_written_nothing_has_every_column_without_rows(tmp_path: Path) -> None:
    metrics = read_metrics(tmp_path)
    assert list(metrics) == list(COLUMNS)
    assert {len(column) for column in metrics.values()} == {0}
    assert repr(metrics) == f"<Metrics: {len(COLUMNS)} columns, 0 rows of trainer, 0 rows of run>"


def test_rows_become_columns_and_a_line_cut_short_is_left_out(tmp_path: Path) -> None:
    rows = [{"time": 5.0, "step": 1}, {"time": 6.0, "step": 3, "losses/policy": 1.5, "charts/reuse": 2.0}]
    (tmp_path / "trainer.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"time": 7')
    (tmp_path / "run.jsonl").write_text(
        '{"at": "1970-01-01T00:01:00+00:00", "elapsed_s": 1.5, "champion": null, "memory_trainer": 9}\n'
    )
    metrics = read_metrics(tmp_path)
    np.testing.assert_array_equal(metrics["trainer.step"], [1.0, 3.0])
    np.testing.assert_array_equal(metrics["trainer.loss_policy"], [np.nan, 1.5])
    np.testing.assert_array_equal(metrics["trainer.reuse"], [np.nan, 2.0])
    np.testing.assert_array_equal(metrics["run.time_s"], [60.0])
    np.testing.assert_array_equal(metrics["run.champion"], [np.nan])
    np.testing.assert_array_equal(metrics["run.memory_trainer"], [9.0])
    assert {column.dtype for column in metrics.values()} == {np.dtype(np.float64)}


def test_damaged_lines_are_left_out_and_counted(tmp_path: Path) -> None:
    whole = '{"at": "1970-01-01T00:01:00+00:00", "elapsed_s": 2, "games": 3}\n'
    damaged = ['{"at": "1970-01-01T00:0', "[1, 2]", '{"at": "yesterday", "elapsed_s": 2}', '{"at": 5}', "\x00\x00\x00"]
    damaged += [
        f'{{"at": "1970-01-01T00:01:00+00:00", "elapsed_s": 1{"0" * 400}}}',
        '{"elapsed_s": 2, "games": 4}',
        '{"at": "1970-01-01T00:01:00+00:00", "games": 4}',
    ]
    (tmp_path / "run.jsonl").write_text(whole + "".join(f"{line}\n" for line in damaged) + whole)
    (tmp_path / "trainer.jsonl").write_text('{"step": 9}\n{"time": 5.0, "step": 1}\n{"time": NaN, "step": 9}\n')
    metrics = read_metrics(tmp_path)
    np.testing.assert_array_equal(metrics["run.games"], [3.0, 3.0])
    np.testing.assert_array_equal(metrics["trainer.step"], [1.0])
    assert metrics.damaged_lines == {"run.jsonl": len(damaged), "trainer.jsonl": 2}


@pytest.mark.parametrize("name", ["trainer.jsonl", "run.jsonl"])
def test_a_pipe_is_an_error_and_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(OSError, match="Not a regular file"):
        read_metrics(tmp_path)


@pytest.mark.slow
def test_a_run_writes_every_column_of_the_table(trained: Path) -> None:
    metrics = zf.open_run(trained).metrics()
    assert [name for name in COLUMNS if name.startswith("trainer.") and not np.isfinite(metrics[name]).any()] == []
    written = json.loads((trained / "metrics" / "run.jsonl").read_text().splitlines()[-1])
    always = [name.removeprefix("run.") for name in COLUMNS if name.startswith("run.") and name != "run.time_s"]
    assert [name for name in always if name not in written] == []


def test_a_number_without_a_float_is_nan_and_a_line_nested_too_deeply_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").write_text(
        f'{{"at": "1970-01-01T00:01:00+00:00", "elapsed_s": 2, "games": 1{"0" * 400}}}\n{"[" * 100_000}\n'
    )
    metrics = read_metrics(tmp_path)
    np.testing.assert_array_equal(metrics["run.games"], [np.nan])
    assert metrics.damaged_lines == {"run.jsonl": 1}
