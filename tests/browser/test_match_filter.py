"""Filter of the page of matches: by keyboard, in the address, and over several pages of the list."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

import games
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.strength.matches import SequentialTest
from zerofleet.strength.ratings import Sprt
from zerofleet.testing.gate_matches import sample_match

Opener = Callable[..., Page]
Keeper = Callable[[Page, str], None]
RULE = SequentialTest(Sprt(-30.0, 60.0, 0.05, 0.05))
LAST = 210
EVERY_TENTH = 10  # versions that are promoted


@pytest.fixture(scope="module")
def matches(copied: Callable[[str], Path]) -> str:
    """Return the address of the matches of versions 2 to 210, each against the champion before it."""
    root, game, champion, events = copied("filtered"), games.make("tic_tac_toe"), 1, []
    for n in range(2, LAST + 1):
        status = CandidateStatus.REJECTED if n % EVERY_TENTH else CandidateStatus.PROMOTED
        events += sample_match(
            game, RULE, match_id=f"gate/{n}/{champion}/1", version=n, opponent=champion, groups=1, status=status
        )
        champion = champion if n % EVERY_TENTH else n
    EventJournal(root / "gatekeeper" / JOURNAL_FILE, model="tic_tac_toe").rewrite(events)
    return f"/runs/{root.name}/matches"


def verdicts(page: Page) -> set[str]:
    return set(page.locator("#matches tbody td:nth-child(3)").all_text_contents())


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_matches_are_filtered_by_keyboard_and_the_address_keeps_the_filter(
    open_page: Opener, keep: Keeper, matches: str, width: int, scheme: str
) -> None:
    page = open_page(matches, width=width, scheme=scheme)
    expect(page.locator("#count")).to_have_text("100 of 209 matches")
    page.get_by_label("Version", exact=True).focus()
    page.keyboard.press("Tab")
    page.keyboard.type("20")  # the version against which they were played
    page.keyboard.press("Tab")
    page.keyboard.type("rej")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Filter")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#count")).to_have_text("9 of 9 matches that fit the filter")
    assert verdicts(page) == {"rejected"}
    assert page.url.endswith(f"{matches}?opponent=20&verdict=rejected")
    assert Axe().run(page).response["violations"] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    keep(page, "matches-filtered")
    page.get_by_role("button", name="Clear").press("Enter")
    expect(page.locator("#count")).to_have_text("100 of 209 matches")
    assert page.url.endswith(matches)
    page.go_back()
    expect(page.locator("#count")).to_have_text("9 of 9 matches that fit the filter")
    expect(page.get_by_label("Verdict")).to_have_value("rejected")


def test_older_matches_of_a_filtered_list_fit_the_filter_too(open_page: Opener, matches: str) -> None:
    page = open_page(f"{matches}?verdict=rejected")
    expect(page.locator("#count")).to_have_text("100 of 188 matches that fit the filter")
    page.get_by_role("button", name="Older matches").click()
    expect(page.locator("#count")).to_have_text("188 of 188 matches that fit the filter")
    expect(page.get_by_role("button", name="Older matches")).to_be_hidden()
    assert verdicts(page) == {"rejected"}
    names = page.locator("#matches tbody tr td:first-child").all_text_contents()
    assert len(set(names)) == 188


def test_a_match_that_is_shown_stays_beside_the_filter_in_the_address(open_page: Opener, matches: str) -> None:
    page = open_page(f"{matches}?verdict=promoted#version=33")
    expect(page.locator("#match h2").first).to_have_text("Version 33 against 30: rejected")
    expect(page.locator("#count")).to_have_text("21 of 21 matches that fit the filter")
    expect(page.locator("#matches tr.chosen")).to_have_count(0)
    page.get_by_label("Verdict").select_option("rejected")
    page.get_by_label("Version", exact=True).fill("33")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#matches tr.chosen")).to_contain_text("33 : 30")
    expect(page).to_have_url(re.compile(r"\?version=33&verdict=rejected#id=gate%2F33%2F30%2F1&pair=1"))
    page.reload()
    expect(page.locator("#match h2").first).to_have_text("Version 33 against 30: rejected")
    expect(page.locator("#count")).to_have_text("1 of 1 matches that fit the filter")


def test_a_filter_that_no_match_fits_and_one_that_is_wrong_are_answered_in_a_line(open_page: Opener, matches: str) -> None:
    page = open_page(f"{matches}?verdict=weaker", refusal="400 (Bad Request)")
    expect(page.locator("#notice")).to_have_text("No match fits the filter.")
    expect(page.locator("#matches")).to_be_hidden()
    page.goto(f"{matches}?verdict=lost")
    expect(page.locator("#notice")).to_contain_text("verdict='lost' is not accepted; give `promoted`, `rejected`")
