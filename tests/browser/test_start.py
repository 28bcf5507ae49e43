"""The page of play before a game begins: the position where play would begin, drawn as in the game."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

Opener = Callable[..., Page]
Keeper = Callable[[Page, str], None]

SIZES = pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark"), (1440, "dark"), (390, "light")])


def drawn(page: Page, selector: str) -> str:
    """Return the picture at a place of the page, when it is there."""
    page.wait_for_function(
        "(at) => document.querySelector(at).complete && document.querySelector(at).naturalWidth", arg=selector
    )
    return page.request.get(str(page.locator(selector).get_attribute("src"))).text()


def faults(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    listed = [f"{one['id']}: {node['html'][:160]}" for one in found for node in one["nodes"]]
    return listed + ([] if page.evaluate("document.documentElement.scrollWidth <= innerWidth") else ["wider than the window"])


@SIZES
def test_the_starting_board_of_the_chosen_game_is_that_of_the_game(
    open_page: Opener, keep: Keeper, width: int, scheme: str
) -> None:
    page = open_page("/play?game=othello", width=width, scheme=scheme)
    expect(page.get_by_role("img", name="othello: starting board")).to_be_visible()
    start = drawn(page, "#start-board")
    keep(page, f"play-start-{scheme}")
    assert faults(page) == []
    page.locator("#begin [name=game]").select_option("tic_tac_toe")
    expect(page.get_by_role("img", name="tic_tac_toe: starting board")).to_be_visible()
    assert drawn(page, "#start-board") != start
    page.locator("#begin [name=game]").select_option("othello")
    expect(page.get_by_role("img", name="othello: starting board")).to_be_visible()
    page.get_by_role("button", name="Begin").click()
    expect(page.locator("#state")).to_have_text("your move")
    expect(page.locator("#start")).to_be_hidden()
    assert drawn(page, "#board") == start


@pytest.mark.parametrize(("page_of", "sends"), [("play", "Begin"), ("tree", "Search")])
def test_a_form_is_sent_once_its_games_are_there(open_page: Opener, page_of: str, sends: str) -> None:
    page, held = open_page("/api"), []
    page.route("**/api/v1/games", lambda route: held.append(route))  # noqa: PLW0108 - a builtin is refused
    with page.expect_request("**/api/v1/games"):
        page.goto(f"/{page_of}")
    expect(page.get_by_role("button", name=sends)).to_be_disabled()
    held.pop().continue_()
    expect(page.get_by_role("button", name=sends)).to_be_enabled()
    expect(page.locator("#begin [name=game]")).to_have_value("connect_four")


def test_the_board_of_a_run_is_shown_when_the_run_is_chosen(open_page: Opener) -> None:
    page = open_page("/play?game=othello")
    expect(page.get_by_role("img", name="othello: starting board")).to_be_visible()
    page.locator("#begin [name=run]").select_option("golden")
    expect(page.get_by_role("img", name="tic_tac_toe: starting board")).to_be_visible()


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_take_six_is_shown_before_the_deal_without_a_card(open_page: Opener, keep: Keeper, width: int, scheme: str) -> None:
    page = open_page("/play?game=take_six", width=width, scheme=scheme)
    expect(page.get_by_role("img", name="take_six: table before the deal")).to_be_visible()
    expect(page.locator("#start-about")).to_have_text("Hands are dealt when the game begins.")
    texts = re.findall(r"<text[^>]*>([^<]*)<", drawn(page, "#start-board"))
    assert [text for text in texts if re.fullmatch(r"\d+", text)] == []
    keep(page, f"play-start-take-six-{scheme}")
    assert faults(page) == []


def test_moves_before_play_and_a_drawing_move_the_position_where_play_would_begin(open_page: Opener) -> None:
    page = open_page("/play?game=tic_tac_toe&moves=b2,a1", refusal="400 (Bad Request)")
    expect(page.get_by_role("img", name="tic_tac_toe: board after 2 moves, the last one a1")).to_be_visible()
    moves = page.locator("#begin [name=moves]")
    moves.fill("b2 b2")
    moves.press("Tab")
    expect(page.locator("#notice")).to_contain_text("move 2:")
    expect(page.locator("#start")).to_be_hidden()
    moves.fill("")
    moves.press("Tab")
    expect(page.get_by_role("img", name="tic_tac_toe: starting board")).to_be_visible()
    expect(page.locator("#notice")).to_be_hidden()

    page.locator("#begin [name=game]").select_option("othello")
    page.get_by_role("button", name="Draw the position").click()
    expect(page.locator("#start")).to_be_hidden()
    page.get_by_role("button", name="Starting position").click()
    page.get_by_role("button", name="c4: empty", exact=True).click()
    page.get_by_label("Player to move").fill("2")
    page.get_by_role("button", name="Use this position").click()
    expect(page.locator("#found")).to_contain_text("The game can begin at this position")
    page.get_by_role("button", name="Draw the position").click()
    expect(page.get_by_role("img", name="othello: drawn position")).to_be_visible()
    page.get_by_role("button", name="Leave it").click()
    expect(page.get_by_role("img", name="othello: starting board")).to_be_visible()


def test_the_game_that_was_chosen_last_is_shown(open_page: Opener) -> None:
    page, held = open_page("/play?game=othello"), []
    expect(page.get_by_role("img", name="othello: starting board")).to_be_visible()
    page.route(re.compile(r"/start\?game=abalone"), lambda route: held.append(route))  # noqa: PLW0108 - a builtin is refused
    with page.expect_request(re.compile(r"/start\?game=abalone")):
        page.locator("#begin [name=game]").select_option("abalone")
    page.locator("#begin [name=game]").select_option("tic_tac_toe")
    expect(page.get_by_role("img", name="tic_tac_toe: starting board")).to_be_visible()
    with page.expect_response(re.compile(r"/start\?game=abalone")) as answered:
        held[0].continue_()
    answered.value.finished()
    page.evaluate("async () => { for (let i = 0; i < 5; i += 1) await new Promise((done) => requestAnimationFrame(done)); }")
    expect(page.get_by_role("img", name="tic_tac_toe: starting board")).to_be_visible()
