"""Two versions beside each other in a browser: reached from Models, with the positions where they differ most."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect

import games
from zerofleet.contracts.gate_events import StatusChanged, Submitted
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.presets.commented import commented
from zerofleet.presets.experiment import Experiment
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.strength.matches import SequentialTest
from zerofleet.strength.ratings import Sprt
from zerofleet.testing.compared_runs import make_compared_run
from zerofleet.testing.gate_matches import sample_match

Opener = Callable[..., Page]
Keeper = Callable[[Page, str], None]

SIZES = [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")]
SETTINGS = {"gate.mode": "sprt", "gate.elo0": "-30", "gate.elo1": "60"}


@pytest.fixture(scope="module")
def pair(runs: Path) -> str:
    """Return the name of a run of two perceptrons that have met in a match of the gate."""
    root, game = runs / "pair", games.make("tic_tac_toe")
    make_compared_run(root)
    (root / "experiment.toml").write_text(commented(Experiment("tic_tac_toe", "tiny", 1, settings=SETTINGS)))
    first = (Submitted(version=1, manifest_sha256="0" * 64), StatusChanged(version=1, status=CandidateStatus.PROMOTED))
    rule = SequentialTest(Sprt(-30.0, 60.0, 0.05, 0.05))
    met = sample_match(game, rule, match_id="gate/2/1/1", version=2, opponent=1, groups=4, status=CandidateStatus.PROMOTED)
    EventJournal(root / "gatekeeper" / JOURNAL_FILE, model="tic_tac_toe").rewrite([*first, *met])
    make_compared_run(runs / "hands", "take_six", games=3)
    return root.name


def cards(page: Page, count: int) -> None:
    """Wait for the cards of the positions, and for their boards."""
    expect(page.locator("#boards > li")).to_have_count(count)
    for index in range(count):
        page.locator("#boards img").nth(index).scroll_into_view_if_needed()
    page.wait_for_function("() => [...document.querySelectorAll('#boards img')].every((one) => one.naturalWidth > 0)")
    page.evaluate("scrollTo(0, 0)")


def test_two_versions_are_chosen_from_models_and_compared(open_page: Opener, pair: str) -> None:
    page = open_page(f"/runs/{pair}/models")
    page.get_by_role("button", name="2", exact=True).click()
    page.get_by_role("link", name="version 1", exact=True).click()
    cards(page, 12)
    assert "first=1&second=2" in page.url
    assert "before=9" in page.url
    expect(page.get_by_role("link", name="Models")).to_have_attribute("aria-current", "page")
    expect(page.locator("#source")).to_contain_text("evaluated in this process")
    expect(page.locator("#manifests")).to_contain_text("train steps")
    expect(page.locator("#manifests")).not_to_contain_text("network: kind")
    page.get_by_label("differences only").uncheck()
    expect(page.locator("#manifests")).to_contain_text("network: kind")

    shown = page.locator("#boards h3").all_text_contents()
    page.reload()
    cards(page, 12)
    assert page.locator("#boards h3").all_text_contents() == shown
    page.get_by_role("link", name="Version 2 against 1").click()
    expect(page.locator("#match h2").first).to_contain_text("Version 2 against 1")


def test_order_line_and_refusal_are_those_of_the_form(open_page: Opener, pair: str) -> None:
    page = open_page(f"/runs/{pair}/compare?first=1&second=2", refusal="400 (Bad Request)")
    cards(page, 12)
    page.get_by_label("values", exact=True).check()
    page.wait_for_url("**order=value**")
    page.get_by_label("or a line of moves").fill("b2 a1")
    page.get_by_role("button", name="Compare").click()
    cards(page, 3)
    expect(page.locator("#boards")).to_contain_text("After b2 a1")
    page.get_by_label("or a line of moves").fill("a1 a1")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("#notice")).to_contain_text("move 2")
    expect(page.locator("#positions")).to_be_hidden()


def test_the_tree_of_a_position_is_searched_at_once(open_page: Opener, pair: str) -> None:
    page = open_page(f"/runs/{pair}/compare?first=1&second=2&positions=24")
    cards(page, 12)
    asked: list[dict[str, object]] = []

    def search_without_model(route: Route) -> None:
        asked.append(route.request.post_data_json)
        route.continue_(post_data=json.dumps(asked[0] | {"model": "none"}))

    page.route("**/api/v1/studies", search_without_model)
    page.locator("#boards li").first.get_by_role("link", name="Tree").click()
    expect(page.locator("#state")).to_have_text(re.compile("searched|proven"))
    assert [(one["model"], "uid" in one) for one in asked] == [("model:1", True)]


def test_a_version_that_is_gone_is_named(open_page: Opener, pair: str) -> None:
    page = open_page(f"/runs/{pair}/compare?first=1&second=9", refusal="404 (Not Found)")
    expect(page.locator("#notice")).to_contain_text("9")


@pytest.mark.parametrize("run", ["pair", "hands"])
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_the_comparison_is_accessible_and_as_wide_as_the_window(
    open_page: Opener, keep: Keeper, pair: str, run: str, width: int, scheme: str
) -> None:
    page = open_page(f"/runs/{run}/compare?first=1&second=2&positions=24", width=width, scheme=scheme)
    cards(page, 12)
    found = Axe().run(page).response["violations"]
    keep(page, f"compare-{run}-{scheme}")
    assert [f"{one['id']}: {node['html'][:120]}" for one in found for node in one["nodes"]] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
