"""Files of every chart: rows and pixels of ladder, path of a test, values of a replay, and overlaid curves."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Page, expect

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
Keeper = Callable[[Page, str], None]
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


LONG = "alpha_beta:2,evaluation=material_and_more"


@pytest.mark.parametrize("width", [390, 1440])
def test_a_single_champion_has_an_error_bar_and_long_names_stay_within_the_picture(
    open_page: Opener, keep: Keeper, copied: Callable[..., Path], width: int
) -> None:
    root = copied("single", is_numbered=True)
    events = [Submitted(version=1, manifest_sha256="0" * 64), StatusChanged(version=1, status=CandidateStatus.PROMOTED)]
    met = [Tallied(first="model:1", second=name, points=11, games=20) for name in ("random", "alpha_beta:2", LONG)]
    EventJournal(root / "gatekeeper" / JOURNAL_FILE, model="tic_tac_toe").rewrite([*events, *met])
    page = open_page(f"/runs/{root.name}/ladder", width=width)
    page.wait_for_selector(".rating-curve")
    assert page.locator(".rating-curve .interval").bounding_box()["height"] > 20
    ends = "all => all.map((one) => one.getBBox().x + one.getBBox().width - one.ownerSVGElement.viewBox.baseVal.width)"
    assert max(page.locator(".rating-curve .rung-name").evaluate_all(ends)) <= 0
    expect(page.locator(".rating-curve .rung-name title").filter(has_text=LONG)).to_have_count(1)
    keep(page, "ladder-of-one")
    page = open_page(f"/runs/{root.name}/overview", width=width)
    expect(page.locator("#ladder")).to_contain_text(LONG)


def test_the_games_of_a_player_of_the_ladder_are_in_sight_once_they_are_chosen(open_page: Opener, anchored: str) -> None:
    page = open_page(f"/runs/{anchored}/ladder", width=390)
    page.set_viewport_size({"width": 390, "height": 160})
    row = page.locator("#players").get_by_role("button", name="version 2")
    row.click()
    expect(page.get_by_role("heading", name="Games of version 2")).to_be_in_viewport()
    expect(row).to_be_focused()
    assert Axe().run(page).response["violations"] == []


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


@pytest.fixture(scope="module")
def of_two_games(runs: Path, copied: Callable[[str], Path], untrained: Callable[[Path, str], Path]) -> list[str]:
    """Return the names of six runs of tic-tac-toe, and of one of Othello at the end."""
    return [*(copied(f"beside-{number}").name for number in range(6)), untrained(runs, "othello").name]


def test_a_run_that_cannot_be_read_is_named_and_the_others_are_drawn(open_page: Opener, saved: Saver, anchored: str) -> None:
    page = open_page(f"/runs/{anchored}/curves?with=nope&with=golden", refusal="404 (Not Found)")
    expect(page.locator("#legend .swatch")).to_have_count(2)
    expect(page.locator("#notice")).to_contain_text("nope is not shown: ")
    assert {"anchored: total", "golden: total"} <= set(rows_of(saved(page, "Loss", "CSV"))[0])
    expect(page.get_by_label("golden (tic_tac_toe)", exact=True)).to_be_checked()
    with page.expect_download() as begun:  # of the runs that are shown
        page.get_by_role("link", name="training", exact=True).click()
    assert {row["run"] for row in rows_of(begun.value.path())} == {"anchored", "golden"}


def test_a_page_of_a_run_that_cannot_be_read_shows_the_reason(open_page: Opener, anchored: str) -> None:
    page = open_page("/api", refusal="404 (Not Found)")
    page.route(f"**/runs/{anchored}/curves", lambda route: route.fulfill(status=404, json={"error": "it is gone"}))
    page.goto(f"/runs/{anchored}/curves?with=golden")
    expect(page.locator("#notice")).to_have_text("it is gone")
    assert page.locator("#charts canvas").count() == 0


def test_six_runs_at_most_are_chosen_and_further_ones_of_an_address_are_named(
    open_page: Opener, keep: Callable[[Page, str], None], of_two_games: list[str]
) -> None:
    first, *others = of_two_games[:6]
    page = open_page(f"/runs/{first}/curves?{'&'.join(f'with={name}' for name in others[:4])}")
    sentence, last = page.get_by_text("six runs at most"), page.get_by_label(f"{others[4]} (tic_tac_toe)", exact=True)
    expect(last).to_be_enabled()
    expect(sentence).to_be_hidden()
    last.check()
    expect(sentence).to_be_visible()
    expect(page.locator("#legend .swatch")).to_have_count(6)
    expect(page.get_by_label("golden (tic_tac_toe)", exact=True)).to_be_disabled()
    expect(last).to_be_checked()
    keep(page, "curves-six")
    page.goto(f"{page.url}&with=golden")
    expect(page.locator("#legend .swatch")).to_have_count(6)
    expect(page.locator("#notice")).to_have_text("Six runs at most are shown; left out: golden.")
    page.get_by_label(others[0], exact=False).uncheck()
    expect(page.locator("#legend .swatch")).to_have_count(5)
    expect(page.get_by_label("golden (tic_tac_toe)", exact=True)).to_be_enabled()


def test_the_display_of_curves_is_in_the_address_and_kept_when_another_run_is_chosen(
    open_page: Opener, of_two_games: list[str]
) -> None:
    page = open_page(f"/runs/{of_two_games[0]}/curves")
    page.wait_for_selector("#charts canvas")
    page.get_by_label("hours").check()
    page.get_by_label("smooth").check()
    page.get_by_label("promotions").uncheck()
    assert page.url.endswith("/curves?axis=hours&smooth=yes&promotions=no")
    page.get_by_text("Compare with other runs").click()
    page.get_by_label("golden (tic_tac_toe)", exact=True).press("Space")
    expect(page.locator("#legend .swatch")).to_have_count(2)
    expect(page.get_by_label("golden (tic_tac_toe)", exact=True)).to_be_focused()
    assert page.url.endswith("/curves?with=golden&axis=hours&smooth=yes&promotions=no")
    page.go_back()
    expect(page.get_by_label("golden (tic_tac_toe)", exact=True)).not_to_be_checked()
    page.go_forward()
    expect(page.locator("#legend .swatch")).to_have_count(2)
    expect(page.get_by_label("hours")).to_be_checked()
    expect(page.get_by_label("smooth")).to_be_checked()
    expect(page.get_by_label("promotions")).not_to_be_checked()
    expect(page.get_by_label("golden (tic_tac_toe)", exact=True)).to_be_visible()  # the list is open
    page.get_by_label("hours").press("ArrowLeft")
    page.get_by_label("games", exact=True).press("ArrowLeft")
    page.get_by_label("smooth").uncheck()
    page.get_by_label("promotions").check()
    assert page.url.endswith("/curves?with=golden")


def test_the_image_of_overlaid_curves_names_every_game(open_page: Opener, of_two_games: list[str]) -> None:
    page = open_page("/api")
    page.add_init_script("""{
      const { fillText } = CanvasRenderingContext2D.prototype;
      window.written = [];
      CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
        window.written.push(text);
        return fillText.call(this, text, ...place);
      };
    }""")
    page.goto(f"/runs/{of_two_games[0]}/curves?with={of_two_games[-1]}")
    expect(page.get_by_label(f"{of_two_games[-1]} (othello)", exact=True)).to_be_checked()
    with page.expect_download():
        page.get_by_role("button", name="PNG of the chart Loss", exact=True).click()
    assert "tic_tac_toe, othello" in page.evaluate("window.written")
