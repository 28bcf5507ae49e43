"""Rows of a file of JSON lines for charts: all of a small file, even blocks of a large one, and what is added later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zerofleet.library.metrics import MetricsReader, read_metrics
from zerofleet.library.sampled_rows import BLOCK_ROWS, RowFile
from zerofleet.library.series import run_series

ROWS = 4000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


def write(path: Path, first: int, end: int, **more: object) -> None:
    with path.open("a") as file:
        file.writelines(
            json.dumps({"step": number, "note": "x" * (number % 50), **more}) + "\n" for number in range(first, end)
        )


def same(row: dict[str, Any]) -> dict[str, Any]:
    return row


def sampled(path: Path, blocks: int = 40) -> RowFile:
    return RowFile(path, same, whole_bytes=0, most_blocks=blocks)


def test_a_small_file_is_read_whole_and_read_on(path: Path) -> None:
    reader = RowFile(path, same)
    assert reader.read().columns == {}
    for end in (3, 3, 5, 9):
        write(path, len(reader.read().kept), end)
        rows = reader.read()
        np.testing.assert_array_equal(rows.columns["step"], np.arange(end))
        np.testing.assert_array_equal(rows.kept, np.arange(end))


def test_a_column_that_begins_later_is_unknown_before(path: Path) -> None:
    write(path, 0, 2)
    reader = RowFile(path, same)
    reader.read()
    write(path, 2, 3, loss=0.5)
    np.testing.assert_array_equal(reader.read().columns["loss"], [np.nan, np.nan, 0.5])


def test_of_a_large_file_even_rows_stand_for_it_each_with_those_before_it(path: Path) -> None:
    write(path, 0, ROWS)
    rows = sampled(path).read()
    steps, kept = rows.columns["step"], rows.kept
    assert 20 <= len(kept) <= 41
    assert (steps[0], steps[-1], kept[-1]) == (0, ROWS - 1, len(steps) - 1)
    assert np.diff(steps).min() > 0
    gaps = np.diff(steps[kept])[:-1]
    assert gaps.max() < 1.5 * gaps.min()
    for place in kept:
        np.testing.assert_array_equal(np.diff(steps[place - BLOCK_ROWS + 1 : place + 1]), 1)


def test_what_is_read_of_a_file_does_not_depend_on_when_it_was_looked_at(path: Path) -> None:
    follower = sampled(path)
    for first in range(0, ROWS, 333):
        write(path, first, min(ROWS, first + 333))
        rows, fresh = follower.read(), sampled(path).read()
        np.testing.assert_array_equal(rows.columns["step"], fresh.columns["step"])
        np.testing.assert_array_equal(rows.kept, fresh.kept)


def test_a_file_that_was_replaced_is_read_again(path: Path) -> None:
    for reader in (RowFile(path, same), sampled(path)):
        write(path, 0, ROWS)
        reader.read()
        path.unlink()
        write(path, 7, 20)
        np.testing.assert_array_equal(reader.read().columns["step"], np.arange(7, 20))
        path.unlink()


@pytest.mark.parametrize("whole_bytes", [0, 1 << 30], ids=["blocks", "whole"])
@pytest.mark.parametrize("end", [50, ROWS, 2 * ROWS], ids=["shorter", "as long", "longer"])
def test_a_file_that_was_written_anew_in_place_is_read_again(path: Path, whole_bytes: int, end: int) -> None:
    write(path, 0, ROWS)
    reader, fresh = (RowFile(path, same, whole_bytes=whole_bytes, most_blocks=40) for _ in range(2))
    reader.read()
    path.write_bytes(b"")
    write(path, 10_000, 10_000 + end)
    rows, expected = reader.read(), fresh.read()
    assert rows.columns["step"].min() == 10_000
    np.testing.assert_array_equal(rows.columns["step"], expected.columns["step"])


@pytest.mark.parametrize("whole_bytes", [0, 1 << 30], ids=["blocks", "whole"])
def test_a_torn_last_line_counts_when_it_is_complete_or_is_replaced(path: Path, whole_bytes: int) -> None:
    write(path, 0, 300)
    reader = RowFile(path, same, whole_bytes=whole_bytes, most_blocks=4)
    for number in (300, 301):
        whole = path.read_bytes()
        with path.open("ab") as file:
            file.write(f'{{"step": {number}'.encode())
        assert reader.read().columns["step"][-1] == number - 1
        if number == 300:
            with path.open("ab") as file:
                file.write(b"}\n")
        else:  # as a writer does that is started again
            path.write_bytes(whole)
            write(path, number, number + 1)
        rows = reader.read()
        assert (rows.columns["step"][-1], rows.damaged) == (number, 0)


def test_a_further_look_reads_what_is_new(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, 0, 2000)
    with path.open("a") as file:
        file.write(json.dumps({"step": 2000, "text": "y" * (3 << 20)}) + "\n")
    write(path, 2001, 4000)
    parsed: list[int] = []

    def counted(row: dict[str, Any]) -> dict[str, Any]:
        parsed.append(row["step"])
        return row

    reader = RowFile(path, counted, whole_bytes=0, most_blocks=400)
    reader.read()
    looked: list[int] = []
    monkeypatch.setattr(reader, "_block", lambda _file, offset: looked.append(offset))
    parsed.clear()
    write(path, 4000, 4001)
    assert reader.read().columns["step"][-1] == 4000
    assert len(looked) <= 1  # the block that begins beyond the last whole one
    assert len(parsed) <= 64  # the last rows of the file


@pytest.mark.parametrize("whole_bytes", [0, 1 << 30])
def test_damaged_and_partial_lines_are_left_out(path: Path, whole_bytes: int) -> None:
    write(path, 0, 300)
    with path.open("ab") as file:
        file.write(b'[1]\n{"step": \n{"step": 300}\n{"step": 301')
    rows = RowFile(path, lambda row: dict(row.items()), whole_bytes=whole_bytes, most_blocks=4).read()
    assert (rows.columns["step"][-1], rows.damaged) == (300, 2)


def test_a_line_longer_than_any_block_costs_that_block_alone(path: Path) -> None:
    write(path, 0, 2000)
    with path.open("a") as file:
        file.write(json.dumps({"step": 2000, "text": "y" * (3 << 20)}) + "\n")
    write(path, 2001, 4000)
    steps = sampled(path, blocks=400).read().columns["step"]
    assert (steps[0], steps[-1]) == (0, 3999)


def test_the_series_of_a_large_file_have_the_values_of_the_whole_one(tmp_path: Path) -> None:
    with (tmp_path / "run.jsonl").open("w") as file:
        for row in range(6000):
            about = {
                "at": f"2026-11-{1 + row // 300:02}T{row // 60 % 5:02}:{row % 60:02}:00+00:00",
                "elapsed_s": 60.0 * (row % 2500),
            }
            file.write(json.dumps({**about, "games": row % 2500, "moves": (row % 2500) ** 2, "games_stored": row}) + "\n")
    whole = run_series(read_metrics(tmp_path), [], points=1 << 40)
    part = run_series(MetricsReader(tmp_path, whole_bytes=0).read(), [])
    (length,) = [one for one in part.series if one.name == "game_length"]
    (every,) = [one for one in whole.series if one.name == "game_length"]
    expected = dict(zip(whole.axes["run"].games, every.values, strict=True))
    assert 700 < len(length.values) <= 1501
    for at, value in zip(part.axes["run"].games, length.values, strict=True):
        assert value == expected[at]
