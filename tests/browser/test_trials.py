"""The overview in a browser of a run whose newest version is measured after its promotion."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

import games
from zerofleet.contracts.gate_events import StatusChanged, Submitted
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.presets.commented import commented
from zerofleet.presets.experiment import Experiment
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.storage.run_paths import RunPaths
from zerofleet.strength.matches import SequentialTest
from zerofleet.strength.ratings import Sprt
from zerofleet.testing.gate_matches import sample_match

MODEL = "tic_tac_toe"
RULE = SequentialTest(Sprt(-75.0, 0.0, 0.05, 0.05))


@pytest.fixture(scope="module")
def on_trial(copied: Callable[[str], Path]) -> Iterator[None]:
    """Make the run `trial`: version 2 is being measured, version 3 is not measured yet."""
    paths = RunPaths(copied("trial"))
    settings = {"gate.mode": "watch", "gate.watch_elo0": "-75", "gate.watch_elo1": "0"}
    paths.experiment.write_text(commented(Experiment(MODEL, "tiny", 1, settings=settings)))
    match = sample_match(games.make(MODEL), RULE, match_id="watch/2/1/2", version=2, opponent=1, groups=8, status=None)
    trial = {"status": CandidateStatus.TRIAL, "reason": "promoted at once"}
    waiting = [Submitted(version=3, manifest_sha256="0" * 64), StatusChanged(version=3, **trial)]
    EventJournal(paths.gatekeeper / JOURNAL_FILE, model=MODEL).rewrite([*match, StatusChanged(version=2, **trial), *waiting])
    yield
    shutil.rmtree(paths.root)


@pytest.mark.usefixtures("on_trial")
@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_versions_on_trial_show_what_is_known(
    open_page: Callable[..., Page], keep: Callable[[Page, str], None], width: int, scheme: str
) -> None:
    page = open_page("/runs/trial/overview", width=width, scheme=scheme)
    row = page.locator("#candidates tbody tr")
    expect(row).to_have_count(2)
    expect(row.nth(0)).to_contain_text("not measured yet")
    expect(row.nth(1).locator("td").nth(3)).to_contain_text("\N{MINUS SIGN}")
    expect(row.nth(1).locator("td").nth(4)).to_contain_text(" to ")
    test = row.nth(1).locator("td").nth(5)
    expect(test).to_have_text(re.compile("^[+\N{MINUS SIGN}][0-9][.][0-9]{2}$"))
    expect(test.get_by_role("img", name=re.compile("between -2.94 and 2.94"))).to_be_visible()
    expect(page.locator("#match-title")).to_have_text("Unfinished match")
    expect(page.locator("#match-body")).to_contain_text("95 % interval")
    assert [one["id"] for one in Axe().run(page).response["violations"]] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    keep(page, "trial")


@pytest.mark.usefixtures("on_trial")
def test_a_version_on_trial_leads_to_its_measurement_in_progress(open_page: Callable[..., Page]) -> None:
    page = open_page("/runs/trial/models#v2")
    page.get_by_role("link", name="Path of the test and games of this match").click()
    expect(page.locator("#match h2").first).to_have_text("Version 2 against 1: in progress")
    expect(page.locator("#match .llr-path")).to_be_visible()


@pytest.fixture
def before_its_first_game(copied: Callable[[str], Path]) -> Iterator[None]:
    """Make the run `first_games`: the measurement of version 2 has opened, and no game of it has ended."""
    paths = RunPaths(copied("first_games"))
    paths.experiment.write_text(commented(Experiment(MODEL, "tiny", 1, settings={"gate.mode": "watch"})))
    submitted, opened, *_, playing = sample_match(
        games.make(MODEL), RULE, match_id="watch/2/1/2", version=2, opponent=1, groups=1, status=None
    )
    EventJournal(paths.gatekeeper / JOURNAL_FILE, model=MODEL).rewrite([submitted, opened, playing])
    yield
    shutil.rmtree(paths.root)


@pytest.mark.usefixtures("before_its_first_game")
def test_a_match_without_a_game_has_no_share_of_the_points(open_page: Callable[..., Page]) -> None:
    page = open_page("/runs/first_games/matches")
    row = page.locator("#matches tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("in progress")
    expect(row).not_to_contain_text("%")
    row.get_by_role("link").or_(row.get_by_role("button")).first.click()
    expect(page.locator("#match")).to_contain_text("No game that counts has ended.")
