"""Pages used with the keyboard alone: every control is reached with Tab, and keeps or hands on the focus."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from playwright.sync_api import Locator, Page, Route, expect

import games
from zerofleet.contracts.gate_events import StatusChanged, Submitted
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.presets.commented import commented
from zerofleet.presets.experiment import Experiment
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.strength.matches import SequentialTest
from zerofleet.strength.ratings import Sprt
from zerofleet.testing.gate_matches import sample_match

Opener = Callable[..., Page]

MOST_TABS = 120
SETTINGS = {"gate.mode": "sprt", "gate.elo0": "-30", "gate.elo1": "60"}


def tab_to(page: Page, wanted: Locator, key: str = "Tab") -> None:
    """Press Tab until an element, once it can be used, has the focus; it must be seen then."""
    expect(wanted).to_be_enabled()
    for _ in range(MOST_TABS):
        if wanted.evaluate("(one) => one === document.activeElement"):
            expect(wanted).to_be_in_viewport()
            return
        page.keyboard.press(key)
    pytest.fail(f"{wanted} was not reached with {MOST_TABS} times {key}")


def press(page: Page, wanted: Locator, key: str = "Enter", *, tab: str = "Tab") -> None:
    """Reach an element with Tab and press a key there."""
    tab_to(page, wanted, tab)
    page.keyboard.press(key)


def test_a_position_is_drawn_and_played_from_with_the_keyboard(open_page: Opener) -> None:
    page = open_page("/play?game=tic_tac_toe")
    expect(page.locator("#notice")).to_be_hidden()
    found, use = page.locator("#found"), page.get_by_role("button", name="Use this position")
    press(page, page.get_by_text("Set-up"))
    press(page, page.get_by_role("button", name="Draw the position"))
    press(page, page.get_by_role("button", name="b2: empty"))
    expect(page.get_by_role("button", name="b2: player 1")).to_be_focused()
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="b2: player 2")).to_be_focused()
    press(page, use)
    expect(found).to_have_class(re.compile("error-text"))
    press(page, page.get_by_role("button", name="Clear"))
    expect(page.locator("#stones")).to_have_text("player 1: 0 stones, player 2: 0 stones")
    press(page, page.get_by_role("button", name="a1: empty"), tab="Shift+Tab")
    held: list[Route] = []
    page.route("**/api/v1/setup/moves", lambda route: held.append(route))  # noqa: PLW0108 - a builtin is refused
    press(page, use)
    press(page, page.get_by_role("button", name="Cancel"))
    expect(found).to_have_text("Cancelled.")
    expect(use).to_be_focused()
    page.unroute("**/api/v1/setup/moves")
    page.keyboard.press("Enter")
    expect(found).to_contain_text("1 move leads to this position; player 2 is to move.")
    press(page, page.get_by_role("button", name="Begin"), tab="Shift+Tab")
    expect(page.locator("#state")).to_have_text("your move")
    assert page.locator("#moves li").count() == 2


@pytest.mark.parametrize(("game", "first"), [("connect_four", "a1"), ("tic_tac_toe", "b2")])
def test_the_focus_stays_on_the_board_through_a_game(open_page: Opener, game: str, first: str) -> None:
    page = open_page(f"/play?game={game}")
    expect(page.locator("#notice")).to_be_hidden()  # the page is ready
    press(page, page.get_by_role("button", name="Begin"))
    press(page, page.locator("#frame").get_by_role("button", name=first, exact=True))
    focused, plies = page.locator("#frame .cell:focus"), 2
    while True:
        page.wait_for_function("(least) => document.querySelectorAll('#moves li').length >= least", arg=plies - 1)
        expect(page.locator("#state")).to_have_text(re.compile("your move|over"))
        if page.locator("#state").text_content() == "over":
            break
        expect(focused).to_have_count(1)
        if game == "connect_four" and plies == 2:
            expect(focused).to_have_attribute("data-key", re.compile("^a"))  # the column goes on
        assert focused.evaluate("(cell) => getComputedStyle(cell).strokeWidth") == "4px"  # unlike the cells around it
        page.keyboard.press("Enter")
        plies += 2
    expect(page.get_by_role("button", name="Undo")).to_be_focused()


def test_moves_are_typed_one_after_another_while_the_field_keeps_the_focus(open_page: Opener) -> None:
    page = open_page("/play?game=tic_tac_toe")
    expect(page.locator("#notice")).to_be_hidden()  # the page is ready
    press(page, page.get_by_role("button", name="Begin"))
    field, held = page.get_by_label("Move", exact=True), []
    expect(field).to_be_visible()
    tab_to(page, field)
    page.route("**/api/v1/tables/*?wait=1", lambda route: held.append(route))  # noqa: PLW0108 - a builtin is refused
    page.route("**/api/v1/tables/*/moves", _as_thinking)
    page.keyboard.type("b2")
    with page.expect_request("**/api/v1/tables/*?wait=1"):
        page.keyboard.press("Enter")
    expect(field).to_be_focused()
    expect(field).not_to_be_editable()
    page.keyboard.type("a1")
    page.keyboard.press("Enter")  # it is not the player's turn
    expect(field).to_have_value("")
    held[0].continue_()
    expect(field).to_be_editable()
    expect(page.locator("#moves li")).to_have_count(2)
    expect(field).to_be_focused()


def test_the_reply_takes_no_focus_that_was_moved_meanwhile(open_page: Opener) -> None:
    page, held = open_page("/play?game=tic_tac_toe"), []
    press(page, page.get_by_role("button", name="Begin"))
    page.route("**/api/v1/tables/*?wait=1", lambda route: held.append(route))  # noqa: PLW0108 - a builtin is refused
    page.route("**/api/v1/tables/*/moves", _as_thinking)
    cells = page.locator("#frame .cell")
    with page.expect_request("**/api/v1/tables/*?wait=1"):
        press(page, cells.nth(4))
    expect(cells).to_have_count(0)
    save = page.get_by_role("button", name="Save", exact=True)
    tab_to(page, save)
    held[0].continue_()
    expect(cells).to_have_count(7)
    expect(save).to_be_focused()


def test_the_list_of_moves_stays_open_and_keeps_the_focus(open_page: Opener) -> None:
    page = open_page("/play?game=tic_tac_toe")
    press(page, page.get_by_role("button", name="Begin"))
    press(page, page.get_by_text("Legal moves"))
    choices = page.locator("#choices button")
    press(page, choices.nth(4))
    expect(page.locator("#moves li")).to_have_count(2)
    expect(choices).to_have_count(7)
    expect(choices.first).to_be_visible()
    expect(page.locator("#choices button:focus")).to_have_count(1)
    press(page, page.get_by_text("Legal moves"), tab="Shift+Tab")
    expect(choices.first).to_be_hidden()
    press(page, page.locator("#frame .cell").first, tab="Shift+Tab")
    expect(page.locator("#moves li")).to_have_count(4)
    expect(choices.first).to_be_hidden()  # as the player left it


def _as_thinking(route: Route) -> None:
    """Answer a move as when the opponent still thinks, whose reply the page then waits for."""
    view = route.fetch().json()
    thinking = {"is_turn": False, "is_thinking": True, "legal": [], "cells": [], "moves": view["moves"][:1]}
    route.fulfill(json={**view, **thinking, "number": 1})


def test_columns_of_the_solver_are_played_one_after_another(open_page: Opener) -> None:
    page = open_page("/solver?rows=3&columns=3&connect=3")
    expect(page.locator("#state")).to_have_text("solved")
    press(page, page.get_by_role("button", name=re.compile("^a1")))
    for key in ("a2", "a3", "b1"):
        expect(page.locator("#state")).to_have_text("solved")
        expect(page.locator("#frame .cell:focus")).to_have_attribute("data-key", key)
        page.locator("#board").evaluate("(board) => board.decode()")  # the cells are laid once more with the picture
        expect(page.locator("#frame .cell:focus")).to_have_attribute("data-key", key)
        page.keyboard.press("Enter")
    expect(page.locator("#moves li")).to_have_count(4)
    expect(page.locator("#frame .cell:focus")).to_have_attribute("data-key", "b2")


def test_the_list_of_moves_keeps_the_focus_through_the_marks_of_the_solver(open_page: Opener) -> None:
    page = open_page("/solver?rows=3&columns=3&connect=3&moves=a1,b1,a2&marks=1")
    expect(page.locator("#marked")).to_contain_text("change a win, draw or loss")
    press(page, page.get_by_role("button", name="Mark the moves"))
    press(page, page.get_by_role("button", name=re.compile("^2. b1")))
    expect(page.locator("#moves li")).to_have_count(2)
    expect(page.get_by_role("button", name=re.compile("^2. b1"))).to_be_focused()
    expect(page.locator("#state")).to_have_text("solved")
    press(page, page.get_by_role("button", name="Mark the moves"), tab="Shift+Tab")
    tab_to(page, page.get_by_role("button", name=re.compile("^1. a1")))
    expect(page.locator("#marked")).to_contain_text("change a win, draw or loss")
    expect(page.get_by_role("button", name=re.compile("^1. a1"))).to_be_focused()


@pytest.mark.parametrize(
    "place", ["/solver?rows=3&columns=3&connect=3&moves=a1", "/play?game=tic_tac_toe"], ids=["solver", "play"]
)
def test_undoing_the_first_move_leaves_the_focus_on_the_page(open_page: Opener, place: str) -> None:
    page = open_page(place)
    if "play" in place:
        press(page, page.get_by_role("button", name="Begin"))
        press(page, page.locator("#frame .cell").first)
    expect(page.locator("#undo")).to_be_enabled()
    expect(page.locator("#state")).to_have_text(re.compile("solved|your move"))
    press(page, page.get_by_role("button", name="Undo"), tab="Shift+Tab")
    expect(page.locator("#undo")).to_be_disabled()
    expect(page.locator("input:focus, .cell:focus")).to_have_count(1)


def test_a_tree_that_began_on_play_is_left_for_another_position(open_page: Opener) -> None:
    page = open_page("/play?game=take_six")
    press(page, page.get_by_role("button", name="Begin"))
    expect(page.locator("#state")).to_have_text("your move")
    press(page, page.get_by_role("link", name="Tree").last)
    expect(page.locator("#origin")).to_contain_text("your turn in the game")
    game = page.locator("#begin [name=game]")
    expect(game).to_be_disabled()
    press(page, page.get_by_role("button", name="Leave it"))
    expect(page.locator("#begin [name=moves]")).to_be_focused()
    expect(page.locator("#origin")).to_be_hidden()
    expect(page.get_by_role("button", name="Leave it")).to_be_hidden()
    game.select_option("tic_tac_toe")
    press(page, page.get_by_role("button", name="Search"))
    expect(page).to_have_url(re.compile(r"\?game=tic_tac_toe&((?!table=).)*$"))  # the state may be that of the search before
    expect(page.locator("#state")).to_have_text("searched")


def test_watch_is_paused_changed_and_left_for_a_replay_with_the_keyboard(open_page: Opener, golden: ModuleType) -> None:
    page = open_page("/runs/golden/watch?boards=4&speed=0.5")
    boards = page.locator("#boards li:not([hidden])")
    expect(boards).to_have_count(4)
    press(page, page.get_by_role("button", name="Pause"))
    expect(page.get_by_role("button", name="Play")).to_be_focused()
    press(page, page.locator("select[name=boards]"), "6")
    expect(boards).to_have_count(6)
    expect(page.locator("select[name=boards]")).to_be_focused()
    assert "boards=6" in page.url
    press(page, page.get_by_label("finished games"), "ArrowRight", tab="Shift+Tab")
    expect(page.get_by_label("games in progress")).to_be_focused()
    expect(page.get_by_label("games in progress")).to_be_checked()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_label("finished games")).to_be_checked()
    expect(boards).to_have_count(6)
    link = boards.first.get_by_role("link")
    name = link.text_content() or ""
    press(page, link)
    expect(page.locator("#about")).to_contain_text(name)


@pytest.fixture(scope="module")
def with_match(copied: Callable[[str], Path]) -> str:
    """Return the name of a run whose second version was promoted by a match that the journal still holds."""
    root = copied("by-keyboard")
    (root / "experiment.toml").write_text(commented(Experiment("tic_tac_toe", "tiny", 1, settings=SETTINGS)))
    promoted = (Submitted(version=1, manifest_sha256="0" * 64), StatusChanged(version=1, status=CandidateStatus.PROMOTED))
    rule, game = SequentialTest(Sprt(-30.0, 60.0, 0.05, 0.05)), games.make("tic_tac_toe")
    match = sample_match(game, rule, match_id="gate/2/1/1", version=2, opponent=1, groups=4, status=CandidateStatus.PROMOTED)
    EventJournal(root / "gatekeeper" / JOURNAL_FILE, model="tic_tac_toe").rewrite([*promoted, *match])
    return root.name


def test_a_match_its_pairs_and_their_positions_are_read_with_the_keyboard(open_page: Opener, with_match: str) -> None:
    page = open_page(f"/runs/{with_match}/matches")
    opener = page.get_by_role("button", name="2 : 1")
    press(page, opener)
    expect(page.locator("#match h2").first).to_have_text("Version 2 against 1: promoted")
    expect(opener).to_be_focused()
    pair = page.locator("#match .choice-list button").nth(2)
    press(page, pair)
    expect(page.locator("#pair h2")).to_contain_text("Pair 3:")
    expect(pair).to_be_focused()
    press(page, page.get_by_role("button", name="Next position"))
    page.keyboard.press("Enter")
    expect(page.locator("#position")).to_contain_text("position 3 of")
    press(page, page.get_by_role("radio", name="Game 1"), "ArrowRight")
    expect(page.get_by_role("radio", name="Game 2")).to_be_checked()
    assert page.url.endswith("&pair=3&game=2&ply=3")
    press(page, page.get_by_label("Ply", exact=True), "End", tab="Shift+Tab")
    expect(page.locator("#position")).to_contain_text(re.compile(r"position (\d+) of \1"))
    with page.expect_download() as begun:
        press(page, page.get_by_role("button", name="JSONL"))
    assert begun.value.suggested_filename.endswith("-pair-3-game-2.jsonl")


@pytest.mark.parametrize("place", ["games/{uid}#ply=1", "curves", "games"])
def test_the_link_to_the_content_moves_the_focus_and_keeps_page_and_address(
    open_page: Opener, golden: ModuleType, place: str
) -> None:
    page = open_page(f"/runs/golden/{place.format(uid=golden.uid(8))}")
    expect(page.locator("#moves li, #charts canvas, #games tbody tr").first).to_be_visible()
    address = page.url
    page.evaluate("window.isTheSamePage = true")
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    assert page.evaluate("window.isTheSamePage")
    assert page.url == address


def test_the_table_of_a_search_is_scrolled_sideways_with_the_keyboard(open_page: Opener, golden: ModuleType) -> None:
    page = open_page(f"/runs/golden/games/{golden.uid(8)}#ply=1", width=390)
    table = page.locator("#search")
    expect(table.locator("table")).to_be_visible()
    table.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.getElementById('search').scrollLeft > 0")
    expect(page.locator("#position")).to_contain_text("Position 1 of")


def taken(page: Page, held: list[Route]) -> Route:
    """Return a held request, which reaches the handler of the test a moment after the page has sent it."""
    while not held:
        page.evaluate("0")
    return held.pop()


@pytest.mark.parametrize("query", ["", "?max_plies=100"])
def test_the_focus_is_kept_through_older_games(open_page: Opener, query: str) -> None:
    page, held = open_page("/api"), []

    def give(older: int | None) -> None:
        route = taken(page, held)
        listed = route.fetch().json()
        route.fulfill(json={**listed, "games": listed["games"][:1] * 50, "next_before": older})

    page.route("**/api/v1/runs/golden/games?*", lambda route: held.append(route))  # noqa: PLW0108 - a builtin is refused
    with page.expect_request("**/games?*"):
        page.goto(f"/runs/golden/games{query}")
    give(older=5)
    more, games = page.get_by_role("button", name=re.compile("older games", re.IGNORECASE)), page.locator("#games")
    tab_to(page, more)
    for older, heir in ((3, more), (None, games)):
        with page.expect_request("**/games?*"):
            page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Stop") if query else more).to_be_focused()
        give(older=older)
        expect(heir).to_be_focused()
    expect(more).to_be_hidden()


def test_the_focus_of_stop_goes_on_where_a_search_finds_no_game(open_page: Opener) -> None:
    page, held = open_page("/api"), []
    page.route("**/api/v1/runs/golden/games?*", lambda route: held.append(route))  # noqa: PLW0108 - a builtin is refused
    with page.expect_request("**/games?*"):
        page.goto("/runs/golden/games?max_plies=100")
    tab_to(page, page.get_by_role("button", name="Stop"))
    route = taken(page, held)
    route.fulfill(json={**route.fetch().json(), "games": [], "next_before": None})
    expect(page.get_by_role("button", name="Clear")).to_be_focused()
