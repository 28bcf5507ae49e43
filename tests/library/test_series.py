"""Series of a run: every figure of its rows is in a chart or has another place, and rare values are not lost."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from trainer.history import FIGURES
from zerofleet.library.metrics import read_metrics
from zerofleet.library.series import RunSeries, as_csv, run_series
from zerofleet.supervisor.child import ChildState
from zerofleet.supervisor.lines import row
from zerofleet.supervisor.readings import Readings, ServiceReading

PAGE = Path(__file__).parents[2] / "docs" / "observability.md"
EXTRA = ("loss_opponents", "loss_plies_left", "loss_reply")
SERVICE = ServiceReading("trainer", ChildState.READY, 1.0, 0, 1 << 20)
SERVER = SERVICE._replace(name="inference_server-0", device="cuda:0", share=0.5)


def series_of(
    directory: Path, *, trainer: Iterable[dict[str, object]] = (), run: Iterable[dict[str, object]] = (), points: int = 1500
) -> RunSeries:
    for name, rows in (("trainer", trainer), ("run", run)):
        (directory / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    return run_series(read_metrics(directory), [], points=points)


def tables_of_the_page() -> tuple[dict[str, str], dict[str, str]]:
    """Return the chart of each figure that has one, and the place of each other figure, from the tables of the documents."""
    section = PAGE.read_text("utf-8").partition("## Rows of metrics")[2].partition("\n## ")[0]
    charts, places = section.split("| figure without a chart | place |")
    return tuple(
        {figure: place for figures, place in _rows(part) for figure in re.findall(r"`([^`]+)`", figures)}
        for part in (charts, places)
    )


def _rows(part: str) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| `")]


def test_the_documents_name_the_place_of_every_figure_that_trainer_and_supervisor_write():
    written = row(Readings(losses={"policy": 1.0}, services=(SERVICE, SERVER)))
    names = {re.sub(r"^loss_.*", "loss_HEAD", re.sub(r"^(memory|share)_.*", r"\1_SERVICE", name)) for name in written}
    charts, places = tables_of_the_page()
    assert charts.keys() | places.keys() == {*FIGURES, *names}
    assert not charts.keys() & places.keys()


def test_a_run_with_every_figure_has_the_charts_that_the_documents_name(tmp_path):
    names = row(Readings(services=(SERVICE,)))
    trainer = [{"time": 10.0 * i, "step": i} | dict.fromkeys(FIGURES, 0.5) for i in range(3)]
    run = [dict.fromkeys(names, 10.0 * i) | {"at": f"2026-11-25T10:0{i}:00+00:00", "elapsed_s": 60.0 * i} for i in range(3)]
    shown = {one.chart for one in series_of(tmp_path, trainer=trainer, run=run).series}
    assert shown == {re.split(r" \(|:", chart)[0] for chart in tables_of_the_page()[0].values()}


def test_losses_of_extra_heads_share_a_chart_apart_from_policy_and_value(tmp_path):
    one = {"time": 1.0, "step": 1, "losses/policy": 2.0, "losses/opponents": 1.5, "losses/plies_left": 0.1, "losses/reply": 2.5}
    found = {series.name: series for series in series_of(tmp_path, trainer=[one]).series}
    assert {found[name].chart for name in EXTRA} == {"Losses of extra heads"}
    assert [found[name].values for name in EXTRA] == [(1.5,), (0.1,), (2.5,)]
    assert found["loss_policy"].chart == "Loss"


def test_a_run_without_extra_heads_held_out_games_or_illegal_mass_has_no_chart_of_them(tmp_path):
    found = series_of(tmp_path, trainer=[{"time": 1.0, "step": 1, "losses/policy": 2.0}])
    assert [one.name for one in found.series] == ["loss_policy"]
    assert as_csv(found, "trainer").splitlines()[0] == "step,games,hours,loss_policy"


def test_measures_on_held_out_games_are_in_the_csv_with_an_empty_cell_where_none_was_taken(tmp_path):
    rows = [
        {"time": 1.0, "step": 1},
        {"time": 2.0, "step": 2, "charts/accuracy": 0.75, "charts/recall_1": 0.25, "charts/illegal_mass": 0.125},
    ]
    first, second = csv.DictReader(as_csv(series_of(tmp_path, trainer=rows), "trainer").splitlines())
    assert (first["held_out_accuracy"], second["held_out_accuracy"], second["held_out_recall_1"]) == ("", "0.75", "0.25")
    assert second["illegal_mass"] == "0.125"


@pytest.mark.parametrize("points", [2, 3, 7, 40])
def test_a_rare_value_is_shown_at_the_next_row_that_a_thinned_chart_has(tmp_path, points):
    rows = [{"time": float(i), "step": i} | ({"charts/accuracy": i / 100} if i in {13, 50} else {}) for i in range(100)]
    found = series_of(tmp_path, trainer=rows, points=points)
    (accuracy,) = found.series
    shown = [
        (step, value) for step, value in zip(found.axes["trainer"].step, accuracy.values, strict=True) if value is not None
    ]
    steps = np.array(found.axes["trainer"].step)
    after = {at: steps[steps >= at].min() for at in (13, 50)}
    assert shown == sorted({step: at / 100 for at, step in after.items()}.items())
