"""Charts of the trainer's further measures: there where a run has them, and legible where few rows do."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from zerofleet.storage.run_paths import RunPaths

Opener = Callable[..., Page]
Keeper = Callable[[Page, str], None]
ROWS = 40
TITLES = ["Losses of extra heads", "Held-out games", "Illegal mass", "Pace of training", "Waiting of the trainer"]


@pytest.fixture(scope="module")
def measured(copied: Callable[[str], Path]) -> str:
    """Return the name of a run whose trainer has extra heads, a policy over all actions, and one measure on held-out games."""
    root = copied("measured")
    rows = [
        {"time": 1_795_399_200.0 + 60 * i, "step": 100 * i, "charts/games_ever": 10.0 * i}
        | {"losses/total": 4.0 / (1 + i / 9), "losses/opponents": 2.0 / (1 + i / 9), "losses/plies_left": 0.3 / (1 + i / 5)}
        | {"losses/reply": 2.5 / (1 + i / 12), "charts/illegal_mass": 0.3 / (1 + i)}
        | {"charts/samples_per_second": 900.0 + i % 3, "charts/wait_share": 0.25 if i % 2 else 0.5}
        for i in range(ROWS)
    ]
    rows[20] |= {"charts/accuracy": 0.75, "charts/recall_1": 0.25, "charts/recall_6": 0.5}
    (RunPaths(root).metrics / "trainer.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return root.name


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark"), (1440, "dark"), (390, "light")])
def test_further_measures_of_the_trainer_have_charts(
    open_page: Opener, keep: Keeper, measured: str, width: int, scheme: str
) -> None:
    page = open_page(f"/runs/{measured}/curves", width=width, scheme=scheme)
    for title in TITLES:
        expect(page.get_by_role("heading", name=title)).to_be_visible()
    chart = page.locator("section.chart", has=page.get_by_role("heading", name="Losses of extra heads"))
    assert chart.locator(".u-legend .u-label").all_text_contents()[1:] == ["opponents", "plies left", "reply"]
    assert Axe().run(page).response["violations"] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    keep(page, f"curves-measures-{scheme}")


def test_the_endings_of_games_have_a_chart(open_page: Opener, keep: Keeper, copied: Callable[[str], Path]) -> None:
    root = copied("endings")
    rows = [
        {"at": f"2026-11-25T10:{i:02}:00+00:00", "elapsed_s": 60.0 * i, "step": 100 * i}
        | {"ended_result": 50 * i, "ended_cut": 2 * i * i, "ended_resigned": 20 * i, "ended_soft_resigned": 5 * i}
        for i in range(ROWS)
    ]
    (RunPaths(root).metrics / "run.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = open_page(f"/runs/{root.name}/curves", width=390)
    chart = page.locator("section.chart", has=page.get_by_role("heading", name="Games by ending"))
    expect(chart.locator(".u-legend .u-label")).to_have_text(
        [re.compile("."), "resigned, softly or not", "soft resigned", "cut"]
    )
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    keep(page, "curves-endings")


def test_a_number_is_rounded_before_its_unit_is_chosen(open_page: Opener) -> None:
    page = open_page("/")
    numbers = [999.4, 9994, 12_345, 999_400, 999_700, 999_700_000, 2e12]
    shown = page.evaluate(
        "async (all) => { const { compact } = await import('/static/common.js'); return all.map((one) => compact(one)); }",
        numbers,
    )
    assert shown == ["999", "9994", "12.3 k", "999 k", "1.00 M", "1.00 G", "2.00 T"]


def test_a_single_value_of_a_measure_is_visible_as_a_point(open_page: Opener, measured: str) -> None:
    page = open_page(f"/runs/{measured}/curves")
    chart = page.locator("section.chart", has=page.get_by_role("heading", name="Held-out games"))
    expect(chart.locator("canvas")).to_be_visible()
    colours = chart.locator("canvas").evaluate(
        """(canvas) => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height), seen = new Set();
          for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) seen.add(data.slice(i, i + 3).join());
          return [...seen];
        }"""
    )
    assert {"47,127,184", "200,65,47", "74,154,91"} <= set(colours)  # the first colours of the page, one for each measure


def test_the_csv_of_the_page_has_the_further_measures(open_page: Opener, measured: str, tmp_path: Path) -> None:
    page = open_page(f"/runs/{measured}/curves")
    with page.expect_download() as begun:
        page.get_by_role("link", name="training").click()
    begun.value.save_as(tmp_path / "training.csv")
    rows = [*csv.DictReader((tmp_path / "training.csv").read_text().splitlines())]
    assert len(rows) == ROWS
    assert (rows[20]["held_out_accuracy"], rows[19]["held_out_accuracy"]) == ("0.75", "")
    assert float(rows[0]["loss_reply"]) == 2.5


def test_a_run_without_them_has_no_empty_chart_of_them(open_page: Opener) -> None:
    page = open_page("/runs/golden/curves")
    expect(page.get_by_role("heading", name="Loss", exact=True)).to_be_visible()
    for title in TITLES:
        expect(page.get_by_role("heading", name=title)).to_have_count(0)
