"""Files of every chart: rows and pixels of ladder, path of a test, values of a replay, and overlaid curves."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page

import games
from zerofleet.contracts.gate_events import StatusChanged, Submitted, Tallied
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.presets.commented import commented
from zerofleet.presets.experiment import Experiment
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.strength.matches import SequentialTest
from zerofleet.strength.ratings import Sprt
from zerofleet.testing.gate_matches import sample_match

Opener = Callable[..., Page]
Saver = Callable[[Page, str, str], Path]
RULE = SequentialTest(Sprt(-30.0, 60.0, 0.05, 0.05))
SETTINGS = {"gate.mode": "sprt", "gate.elo0": "-30", "gate.elo1": "60"}


@pytest.fixture(scope="module")
def anchored(copied: Callable[[str], Path]) -> str:
    """Return the name of a run with a match and anchored ratings."""
    root = copied("anchored")
    (root / "experiment.toml").write_text(commented(Experiment("tic_tac_toe", "tiny", 1, settings=SETTINGS)))
    promoted = (Submitted(version=1, manifest_sha256="0" * 64), StatusChanged(version=1, status=CandidateStatus.PROMOTED))
    game, status = games.make("tic_tac_toe"), CandidateStatus.PROMOTED
    match = sample_match(game, RULE, match_id="gate/2/1/1", version=2, opponent=1, groups=4, status=status)
    met = [Tallied(first=f"model:{version}", second="random", points=10 + 3 * version, games=20) for version in (1, 2)]
    EventJournal(root / "gatekeeper" / JOURNAL_FILE, model="tic_tac_toe").rewrite([*promoted, *match, *met])
    return root.name


@pytest.fixture
def saved(tmp_path: Path) -> Saver:
    """Return the function that saves a chart by its button and returns the file."""

    def save(page: Page, chart: str, kind: str) -> Path:
        with page.expect_download() as begun:
            page.get_by_role("button", name=f"{kind} of the chart {chart}", exact=True).click()
        path = tmp_path / begun.value.suggested_filename
        begun.value.save_as(path)
        return path

    return save


def rows_of(path: Path) -> list[dict[str, str]]:
    return [*csv.DictReader(path.read_text().splitlines())]


def colours_of(path: Path) -> int:
    """Return the number of colours of a picture."""
    with Image.open(path) as image:
        return len(np.unique(np.asarray(image.convert("RGB")).reshape(-1, 3), axis=0))


def test_the_curve_of_the_ladder_has_files(open_page: Opener, saved: Saver, anchored: str) -> None:
    page = open_page(f"/runs/{anchored}/ladder")
    rows = rows_of(saved(page, "Ladder", "CSV"))
    assert {row["player"] for row in rows} >= {"model:1", "model:2", "random"}
    assert all(float(row["elo_low"]) <= float(row["elo"]) <= float(row["elo_high"]) for row in rows)
    picture = saved(page, "Ladder", "PNG")
    assert picture.name == "anchored-ladder.png"
    assert colours_of(picture) > 8


def test_a_label_of_a_chart_is_no_formula_of_a_spreadsheet(
    open_page: Opener, saved: Saver, copied: Callable[[str], Path], anchored: str
) -> None:
    copied("=1+1")
    rows = rows_of(saved(open_page(f"/runs/{anchored}/curves?with=%3D1%2B1"), "Loss", "CSV"))
    assert "'=1+1: total" in rows[0]
    assert float(rows[-1]["step"]) > 0


def test_the_path_of_a_test_has_files(open_page: Opener, saved: Saver, anchored: str) -> None:
    page = open_page(f"/runs/{anchored}/matches#version=2")
    rows = rows_of(saved(page, "Log-likelihood ratio", "CSV"))
    assert [row["pair"] for row in rows] == ["0", "1", "2", "3", "4"]
    assert float(rows[0]["log_likelihood_ratio"]) == 0.0
    assert float(rows[0]["upper_bound"]) == RULE.sprt.upper
    assert colours_of(saved(page, "Log-likelihood ratio", "PNG")) > 8


def test_the_values_of_a_replay_have_files(open_page: Opener, saved: Saver, golden: ModuleType) -> None:
    page = open_page(f"/runs/golden/games/{golden.uid(8)}")
    rows = rows_of(saved(page, "Values", "CSV"))
    assert len(rows) == page.locator("#moves li").count()
    assert all(row["player"] in {"1", "2"} for row in rows)
    assert any(row["value_shown"] for row in rows)
    assert colours_of(saved(page, "Values", "PNG")) > 8


def test_the_rows_of_overlaid_curves_are_those_of_every_run(open_page: Opener, saved: Saver, anchored: str) -> None:
    page = open_page(f"/runs/{anchored}/curves?with=golden")
    rows = rows_of(saved(page, "Loss", "CSV"))
    assert {"anchored: total", "golden: total"} <= set(rows[0])
    assert [row["golden: total"] for row in rows] == [row["anchored: total"] for row in rows]
    assert len(rows) == 12
    with page.expect_download() as begun:
        page.get_by_role("link", name="training", exact=True).click()
    begun.value.save_as(path := begun.value.path().parent / "whole.csv")
    assert [row["run"] for row in rows_of(path)] == 12 * ["anchored"] + 12 * ["golden"]
