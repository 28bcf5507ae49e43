"""From a version on the page of models to its match, with the path of the sequential test, on the page of matches."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect

import games
from zerofleet.contracts.gate_events import ModelPlay, StatusChanged, Submitted
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.presets.commented import commented
from zerofleet.presets.experiment import Experiment
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.runs import RunDirectory
from zerofleet.strength.matches import SequentialTest
from zerofleet.strength.ratings import Sprt
from zerofleet.testing.gate_matches import sample_match
from zerofleet.testing.models import manifest_of, sample_files, uniform_golden

Opener = Callable[..., Page]
Keeper = Callable[[Page, str], None]
RULE = SequentialTest(Sprt(-30.0, 60.0, 0.05, 0.05))
SETTINGS = {"gate.mode": "sprt", "gate.elo0": "-30", "gate.elo1": "60"}
LINK = "Path of the test and games of this match"


@pytest.fixture(scope="module")
def with_match(copied: Callable[[str], Path]) -> str:
    """Return the name of a run whose second version was promoted by a match that the journal still holds."""
    root = copied("rated")
    (root / "experiment.toml").write_text(commented(Experiment("tic_tac_toe", "tiny", 1, settings=SETTINGS)))
    promoted = (Submitted(version=1, manifest_sha256="0" * 64), StatusChanged(version=1, status=CandidateStatus.PROMOTED))
    game = games.make("tic_tac_toe")
    play, status = ModelPlay(simulations=64, leaves_per_game=4, search="root=puct"), CandidateStatus.PROMOTED
    match = sample_match(game, RULE, match_id="gate/2/1/1", version=2, opponent=1, groups=4, status=status, play=play)
    EventJournal(root / "gatekeeper" / JOURNAL_FILE, model="tic_tac_toe").rewrite([*promoted, *match])
    return root.name


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")])
def test_a_version_leads_to_the_path_of_its_test(
    open_page: Opener, keep: Keeper, with_match: str, width: int, scheme: str
) -> None:
    page = open_page(f"/runs/{with_match}/models#v2", width=width, scheme=scheme)
    expect(page.locator("#detail .llr-path")).to_be_visible()
    expect(page.get_by_role("link", name=LINK)).to_be_visible()
    assert Axe().run(page).response["violations"] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    keep(page, "model-with-match")
    page.get_by_role("link", name=LINK).click()
    expect(page).to_have_url(re.compile(f"/runs/{with_match}/matches#"))
    expect(page.locator("#match .llr-path")).to_be_visible()
    expect(page.locator("#match h2").first).to_have_text("Version 2 against 1: promoted")
    expect(page.locator("#match")).to_contain_text("Both versions: 64 simulations a move, 4 leaves a request, root=puct.")
    expect(page.locator("#matches tr.chosen")).to_have_count(1)
    assert page.url.endswith("#id=gate%2F2%2F1%2F1&pair=1&game=1&ply=1")
    keep(page, "match-of-model")
    assert Axe().run(page).response["violations"] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_groups_of_three_players_have_shares_of_points_and_the_number_of_their_games(
    open_page: Opener, runs: Path, with_match: str
) -> None:
    game, root = games.make("take_six"), runs / "cards"
    with RunDirectory.create_or_open(root, "take_six", {}, preset="tiny", seed=1) as made:
        match = sample_match(game, RULE, match_id="gate/2/1/1", version=2, opponent=1, groups=2)
        EventJournal(made.paths.gatekeeper / JOURNAL_FILE, model=model_name(game)).rewrite(match)
        for version in (1, 2):
            manifest = manifest_of(game, uniform_golden(game))
            DirectoryStore(made.paths.models).publish(model_name(game), sample_files(float(version)), manifest)
    page = open_page("/runs/cards/matches#version=2")
    expect(page.locator("#pair h2")).to_have_text(re.compile(r"^Group 1: \d+(\.\d)? % of [36] games$"))
    expect(page.locator("#match button").last).to_have_text(re.compile(r"^2: \d+(\.\d)? %$"))
    expect(page.locator("#matches th").last).to_have_text("groups by points")
    page.goto(f"{page.url.partition('/runs')[0]}/runs/cards/models#v2")
    expect(page.locator("#detail")).to_contain_text("points of a group")
    page.goto(f"{page.url.partition('/runs')[0]}/runs/{with_match}/matches#version=2")
    expect(page.locator("#pair h2")).to_have_text(re.compile(r"^Pair 1: (0|½|1|1½|2) of 2$"))


def test_an_address_opens_the_pair_game_and_ply_that_it_names_and_follows_the_reader(
    open_page: Opener, with_match: str
) -> None:
    page = open_page(f"/runs/{with_match}/matches#id=gate%2F2%2F1%2F1&pair=3&game=2&ply=4")
    expect(page.locator("#pair h2")).to_contain_text("Pair 3:")
    expect(page.locator("#position")).to_contain_text("position 4")
    expect(page.get_by_role("radio", name="Game 2")).to_be_checked()
    expect(page.locator("figure.chosen figcaption")).to_contain_text("Game 2: version 2 on seat")
    page.get_by_role("radio", name="Game 1").check()
    page.get_by_role("button", name="Next position").click()
    assert page.url.endswith("#id=gate%2F2%2F1%2F1&pair=3&game=1&ply=5")
    page.evaluate("location.hash = '#id=gate%2F2%2F1%2F1&pair=2&game=2&ply=0'")
    expect(page.locator("#pair h2")).to_contain_text("Pair 2:")
    expect(page.locator("#pair")).to_contain_text("there is no curve of values")
    expect(page.locator("#to-tree")).to_have_attribute("href", f"/tree?run={with_match}&game=tic_tac_toe&moves=")


def test_a_game_of_a_pair_has_its_own_boards_while_the_game_before_it_goes_on(
    open_page: Opener, copied: Callable[[str], Path]
) -> None:
    root, game = copied("begun"), games.make("tic_tac_toe")
    events = sample_match(game, RULE, match_id="gate/2/1/1", version=2, opponent=1, groups=1, status=None)
    del events[next(place for place, one in enumerate(events) if one.event == "game")]
    EventJournal(root / "gatekeeper" / JOURNAL_FILE, model="tic_tac_toe").rewrite(events)
    page = open_page("/runs/begun/matches#id=gate%2F2%2F1%2F1&pair=1&game=2&ply=2")
    expect(page.locator("#pair figcaption")).to_contain_text("Game 2: version 2 on seat 2")
    expect(page.locator("#position")).to_contain_text("position 2")
    assert page.url.endswith("&pair=1&game=2&ply=2")
    page.wait_for_function("() => document.getElementById('board-0').naturalWidth > 0")


@pytest.mark.parametrize(("kind", "begins"), [("GIF", b"GIF89a"), ("JSONL", b'{"line": "game"')])
def test_the_chosen_game_of_a_match_is_exported(
    open_page: Opener, with_match: str, tmp_path: Path, kind: str, begins: bytes
) -> None:
    page = open_page(f"/runs/{with_match}/matches#id=gate%2F2%2F1%2F1&pair=2&game=2")
    with page.expect_download() as begun:
        page.get_by_role("button", name=kind, exact=True).click()
    assert begun.value.suggested_filename == f"tic_tac_toe-gate-2-1-1-pair-2-game-2.{kind.lower()}"
    begun.value.save_as(tmp_path / "game")
    assert (tmp_path / "game").read_bytes().startswith(begins)


def test_older_matches_are_added_by_a_button_and_opened_by_their_address_before(
    open_page: Opener, copied: Callable[[str], Path]
) -> None:
    root, game = copied("busy"), games.make("tic_tac_toe")
    played = [sample_match(game, RULE, match_id=f"gate/{n}/1/1", version=n, opponent=1, groups=1) for n in range(2, 108)]
    journal = EventJournal(root / "gatekeeper" / JOURNAL_FILE, model="tic_tac_toe")
    journal.rewrite([event for match in played for event in match])
    page = open_page("/runs/busy/matches#version=3")
    expect(page.locator("#match h2").first).to_have_text("Version 3 against 1: rejected")
    expect(page.locator("#count")).to_have_text("100 of 106 matches")
    expect(page.locator("#matches tr.chosen")).to_have_count(0)
    page.get_by_role("button", name="Older matches").click()
    expect(page.locator("#count")).to_have_text("106 of 106 matches")
    expect(page.locator("#matches tr.chosen")).to_contain_text("3 : 1")
    expect(page.locator("#matches")).to_be_focused()  # the button is gone
    row = page.get_by_role("button", name="4 : 1", exact=True)
    row.press("Enter")
    expect(page.locator("#match h2").first).to_have_text("Version 4 against 1: rejected")
    expect(row).to_be_focused()
    assert Axe().run(page).response["violations"] == []


def test_a_question_for_older_matches_that_failed_after_the_next_one_was_answered_shows_nothing(
    open_page: Opener, copied: Callable[[str], Path]
) -> None:
    root, game = copied("asked-twice"), games.make("tic_tac_toe")
    played = [sample_match(game, RULE, match_id=f"gate/{n}/1/1", version=n, opponent=1, groups=1) for n in range(2, 108)]
    journal = EventJournal(root / "gatekeeper" / JOURNAL_FILE, model="tic_tac_toe")
    journal.rewrite([event for match in played for event in match])
    page = open_page("/runs/asked-twice/matches", refusal="404 (Not Found)")
    held: list[Route] = []
    page.route("**/matches?*before=*", lambda route: route.continue_() if held else held.append(route))
    older = page.get_by_role("button", name="Older matches")
    with page.expect_request("**/matches?*before=*"):
        older.click()
    older.click()
    expect(page.locator("#count")).to_have_text("106 of 106 matches")
    with page.expect_response("**/matches?*before=*"):
        held[0].fulfill(status=404, json={"error": "there is no such run"})
    page.get_by_role("button", name="4 : 1", exact=True).click()
    expect(page.locator("#match h2").first).to_have_text("Version 4 against 1: rejected")
    expect(page.locator("#notice")).not_to_contain_text("there is no such run")


def test_of_two_matches_the_one_that_was_opened_last_is_shown(open_page: Opener, copied: Callable[[str], Path]) -> None:
    root, game = copied("two"), games.make("tic_tac_toe")
    played = [sample_match(game, RULE, match_id=f"gate/{n}/1/1", version=n, opponent=1, groups=1) for n in (2, 3)]
    EventJournal(root / "gatekeeper" / JOURNAL_FILE, model="tic_tac_toe").rewrite(
        [event for match in played for event in match]
    )
    page, held = open_page("/runs/two/matches"), []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/match?id=gate%2F2%2F1%2F1", hold)
    page.get_by_role("button", name="2 : 1", exact=True).click()
    expect(page.locator("#match")).to_contain_text("Reading the games")
    page.get_by_role("button", name="3 : 1", exact=True).click()
    expect(page.locator("#match h2").first).to_have_text("Version 3 against 1: rejected")
    with page.expect_response("**/match?id=gate%2F2%2F1%2F1"):
        held[0].continue_()
    page.get_by_role("button", name="Next position").click()
    expect(page.locator("#match h2").first).to_have_text("Version 3 against 1: rejected")
    assert "id=gate%2F3%2F1%2F1" in page.url


def test_a_version_whose_match_has_no_games_yet_says_so(open_page: Opener, copied: Callable[[str], Path]) -> None:
    root = copied("unplayed")
    begun = (Submitted(version=2, manifest_sha256="0" * 64), StatusChanged(version=2, status=CandidateStatus.TRIAL))
    EventJournal(root / "gatekeeper" / JOURNAL_FILE, model="tic_tac_toe").rewrite(begun)
    expect(open_page("/runs/unplayed/models#v2").locator("#test-path")).to_have_text(
        "The journal has no games of the match yet."
    )


def test_a_match_of_which_the_report_alone_remains_says_so(open_page: Opener) -> None:
    page = open_page("/runs/golden/models#v2")
    expect(page.locator("#test-path")).to_contain_text("The games and the path of the test are gone")
    page.get_by_role("link", name=LINK).click()
    expect(page.locator("#match")).to_contain_text("The games and the path of the test are gone")
    expect(page.locator("#match")).to_contain_text("6 won, 2 drawn, 2 lost in 5 pairs: 70 % of the points")
    expect(page.locator("#matches tr.chosen")).to_have_count(1)


def test_a_version_without_a_match_has_no_link_and_its_address_says_so(open_page: Opener) -> None:
    page = open_page("/runs/golden/models#v1")
    expect(page.locator("#detail h2").first).to_have_text("Version 1")
    expect(page.locator("#detail dl")).to_be_visible()
    assert page.get_by_role("link", name=LINK).count() == 0
    page.goto("/runs/golden/matches#version=1")
    expect(page.locator("#notice")).to_have_text("No match of version 1 is recorded.")


def test_the_line_about_a_missing_match_goes_when_another_match_is_opened(open_page: Opener, with_match: str) -> None:
    page = open_page(f"/runs/{with_match}/matches#version=7")
    expect(page.locator("#notice")).to_have_text("No match of version 7 is recorded.")
    page.get_by_role("button", name="2 : 1", exact=True).click()
    expect(page.locator("#match h2").first).to_have_text("Version 2 against 1: promoted")
    expect(page.locator("#notice")).to_be_hidden()
    page.evaluate("location.hash = '#version=8'")
    expect(page.locator("#notice")).to_have_text("No match of version 8 is recorded.")
    page.evaluate("location.hash = '#version=2'")
    expect(page.locator("#match h2").first).to_have_text("Version 2 against 1: promoted")
    expect(page.locator("#notice")).to_be_hidden()
