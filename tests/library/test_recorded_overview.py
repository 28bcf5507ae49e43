"""The overview of a run from its files, whose supervisor and trainer write rows of their own."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from zerofleet.library.metrics import read_metrics
from zerofleet.library.overview import describe, recorded_readings
from zerofleet.supervisor.words import UNKNOWN

NOON_S = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()
TRAINED = {"losses/total": 1.2, "losses/policy": 0.9, "charts/games_ever": 64.0, "charts/window_samples": 900.0}
WATCHED = {"elapsed_s": 30.0, "games": 20, "games_stored": 40, "moves": 700, "step": 10, "window": 500, "samples": 500}


def shown(
    folder: Path, *, trainer_s: float | None = None, run_s: float | None = None
) -> tuple[dict[str, str], datetime | None]:
    """Return the overview's figures by label and their time, for rows so many seconds after noon."""
    if trainer_s is not None:
        rows = [{"time": NOON_S + at_s, "step": 80, **TRAINED} for at_s in (0.0, trainer_s)]
        (folder / "trainer.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if run_s is not None:
        at = datetime.fromtimestamp(NOON_S + run_s, UTC).isoformat()
        (folder / "run.jsonl").write_text(json.dumps({"at": at, **WATCHED, "loss_policy": 2.5}) + "\n")
    readings, time = recorded_readings(read_metrics(folder), None, (), ())
    now = describe(readings, at=time, is_live=False, events=(), numbers={})
    return {figure.label: figure.value for panel in now.panels for figure in panel.figures}, time


def test_a_run_with_rows_of_the_trainer_alone_shows_them_and_dashes_for_what_they_lack(tmp_path: Path) -> None:
    figures, at = shown(tmp_path, trainer_s=60.0)
    assert [figures[label] for label in ("stored", "step", "window", "loss policy")] == ["64", "80", "900", "0.900"]
    assert [figures[label] for label in ("games", "moves", "in play")] == [UNKNOWN] * 3
    assert at == datetime.fromtimestamp(NOON_S + 60.0, UTC)


@pytest.mark.parametrize(("run_s", "wanted"), [(10.0, ["64", "80", "900", "0.900"]), (90.0, ["40", "10", "500", "2.500"])])
def test_the_newest_row_decides_what_both_write(tmp_path: Path, run_s: float, wanted: list[str]) -> None:
    figures, at = shown(tmp_path, trainer_s=60.0, run_s=run_s)
    assert [figures[label] for label in ("stored", "step", "window", "loss policy")] == wanted
    assert [figures["games"], figures["moves"]] == ["20", "700"]
    assert at == datetime.fromtimestamp(NOON_S + max(60.0, run_s), UTC)


def test_a_run_without_rows_has_unknown_counts_and_no_time(tmp_path: Path) -> None:
    figures, at = shown(tmp_path)
    assert (figures["games"], figures["step"], at) == (UNKNOWN, UNKNOWN, None)
