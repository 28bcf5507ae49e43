"""Answers that come late: a page goes on showing what was chosen last, whatever an earlier request brings afterwards."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, Route, expect

import games
from zerofleet.storage.gate_journal import JOURNAL_FILE, EventJournal
from zerofleet.strength.matches import SequentialTest
from zerofleet.strength.ratings import Sprt
from zerofleet.testing.gate_matches import sample_match

Opener = Callable[..., Page]
RULE = SequentialTest(Sprt(-30.0, 60.0, 0.05, 0.05))


def hold(page: Page, address: str) -> list[Route]:
    """Hold the first request whose address fits an expression, and let the others through; return the list for it."""
    held: list[Route] = []
    page.route(re.compile(address), lambda route: route.continue_() if held else held.append(route))
    return held


def release(page: Page, held: list[Route]) -> None:
    """Let a held request be answered, and return once the page has handled the answer."""
    (route,) = held
    with page.expect_response(lambda response: response.request == route.request) as answered:
        route.continue_()
    answered.value.finished()
    handle(page)


def handle(page: Page) -> None:
    """Wait until the page has handled the answers that it has: each takes a few turns of its event loop."""
    page.evaluate("async () => { for (let i = 0; i < 5; i += 1) await new Promise((done) => requestAnimationFrame(done)); }")


def test_models_shows_the_version_that_was_chosen_last(open_page: Opener) -> None:
    page = open_page("/runs/golden/models")
    held = hold(page, "/models/1$")
    page.get_by_role("button", name="1", exact=True).click()
    expect(page.locator("#detail")).to_have_text("Reading version 1…")
    page.get_by_role("button", name="2", exact=True).click()
    expect(page.locator("#detail h2").first).to_have_text("Version 2")
    release(page, held)
    expect(page.locator("#detail h2").first).to_have_text("Version 2")
    assert page.url.endswith("#v2")


def test_models_shows_no_failure_of_a_version_that_was_left(open_page: Opener) -> None:
    page = open_page("/runs/golden/models", refusal="404 (Not Found)")
    held = hold(page, "/models/1$")
    page.get_by_role("button", name="1", exact=True).click()
    page.get_by_role("button", name="2", exact=True).click()
    expect(page.locator("#detail h2").first).to_have_text("Version 2")
    with page.expect_response("**/models/1"):
        held[0].fulfill(status=404, json={"error": "there is no such version"})
    handle(page)
    expect(page.locator("#detail")).not_to_contain_text("there is no such version")


def test_models_opens_a_version_while_the_champions_are_read(open_page: Opener) -> None:
    page = open_page("/runs/golden/models")
    held = hold(page, "champions=1")
    page.get_by_label("champions only").check()
    page.get_by_role("button", name="1", exact=True).click()
    expect(page.locator("#detail h2").first).to_have_text("Version 1")
    release(page, held)
    expect(page.locator("#count")).to_contain_text("champions")


def test_models_shows_no_failure_of_a_list_that_was_left(open_page: Opener) -> None:
    page = open_page("/runs/golden/models", refusal="404 (Not Found)")
    held = hold(page, "champions=1")
    page.get_by_label("champions only").check()
    with page.expect_response(re.compile(r"/models\?limit=100$")):
        page.get_by_label("champions only").uncheck()
    with page.expect_response(re.compile("champions=1")):
        held[0].fulfill(status=404, json={"error": "there is no such run"})
    handle(page)
    expect(page.locator("#notice")).to_be_hidden()


def test_matches_shows_the_row_that_was_chosen_after_the_address_asked_for_a_version(
    open_page: Opener, copied: Callable[[str], Path]
) -> None:
    root, game = copied("answered"), games.make("tic_tac_toe")
    played = [sample_match(game, RULE, match_id=f"gate/{n}/1/1", version=n, opponent=1, groups=1) for n in (2, 3)]
    EventJournal(root / "gatekeeper" / JOURNAL_FILE, model="tic_tac_toe").rewrite([one for match in played for one in match])
    page = open_page("/")
    held = hold(page, r"/matches\?version=2")
    page.goto("/runs/answered/matches#version=2")
    page.get_by_role("button", name="3 : 1", exact=True).click()
    expect(page.locator("#match h2").first).to_have_text("Version 3 against 1: rejected")
    release(page, held)
    expect(page.locator("#match h2").first).to_have_text("Version 3 against 1: rejected")
    expect(page.locator("#matches tr.chosen")).to_contain_text("3 : 1")


def begin_game(page: Page, opponent: str, seat: int) -> None:
    page.locator("#begin [name=opponent]").fill(opponent)
    page.locator("#begin [name=seat]").fill(str(seat))
    page.get_by_role("button", name="Begin").click()


def test_play_shows_the_game_that_was_begun_last(open_page: Opener) -> None:
    page = open_page("/play?game=tic_tac_toe")
    expect(page.locator("#notice")).to_be_hidden()
    held = hold(page, "/tables$")
    begin_game(page, "alpha_beta:1", 1)
    expect(page.locator("#notice")).to_contain_text("Beginning")
    begin_game(page, "random", 1)
    expect(page.locator("#turn")).to_have_text("You are player 1 against random.")
    release(page, held)
    expect(page.locator("#turn")).to_have_text("You are player 1 against random.")


def test_play_shows_no_reply_of_a_game_that_was_left(open_page: Opener) -> None:
    page = open_page("/play?game=tic_tac_toe")
    expect(page.locator("#notice")).to_be_hidden()
    held = hold(page, r"/tables/[^/]+\?wait=1$")
    begin_game(page, "alpha_beta:1", 2)
    expect(page.locator("#turn")).to_contain_text("You are player 2 against")
    begin_game(page, "random", 1)
    expect(page.locator("#turn")).to_have_text("You are player 1 against random.")
    release(page, held)
    expect(page.locator("#turn")).to_have_text("You are player 1 against random.")


def test_tree_shows_the_search_that_was_begun_last(open_page: Opener) -> None:
    page = open_page("/tree?game=tic_tac_toe&model=none&simulations=400")
    expect(page.locator("#state")).to_have_text(re.compile("searched|proven"))
    held = hold(page, "/studies$")
    for moves in ("a1", "b2"):
        page.locator("#begin [name=moves]").fill(moves)
        page.get_by_role("button", name="Search").click()
    expect(page.locator("#where")).to_contain_text("after b2")
    release(page, held)
    expect(page.locator("#where")).to_contain_text("after b2")
    assert "moves=b2" in page.url


def test_tree_shows_the_position_that_was_chosen_last(open_page: Opener) -> None:
    page = open_page("/tree?game=tic_tac_toe&model=none&simulations=400")
    expect(page.locator("#state")).to_have_text(re.compile("searched|proven"))
    moves = page.locator("#nodes tbody")  # whose rows change places while they are read
    held = hold(page, r"/node\?path=a1&")
    moves.get_by_role("button", name="a1", exact=True).click()
    moves.get_by_role("button", name="b2", exact=True).click()
    expect(page.locator("#where")).to_contain_text("b2")
    release(page, held)
    expect(page.locator("#where")).to_contain_text("b2")
    expect(page.locator("#where")).not_to_contain_text("a1")


def test_solver_shows_the_position_that_was_chosen_last(open_page: Opener) -> None:
    page = open_page("/solver?rows=4&columns=4&connect=3")
    expect(page.locator("#verdict")).not_to_be_empty()
    held = hold(page, r"/solver/position\?moves=a1&")
    moves = page.locator("#begin [name=moves]")
    for wanted in ("a1", "b1"):
        moves.fill(wanted)
        moves.press("Enter")
    expect(page.locator("#board")).to_have_attribute("alt", re.compile("the last one b1"))
    release(page, held)
    expect(page.locator("#board")).to_have_attribute("alt", re.compile("the last one b1"))
    expect(moves).to_have_value("b1")


def test_solver_ends_the_marks_of_moves_that_were_undone_before_the_first_mark(open_page: Opener) -> None:
    page = open_page("/api")
    hold(page, r"/api/v1/solver/marks\?")
    page.goto("/solver?rows=3&columns=3&connect=3&moves=a1,b1,a2")
    page.get_by_role("button", name="Mark the moves").click()
    expect(page.locator("#marked")).to_contain_text("Solving the position before each move")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#moves li")).to_have_count(2)
    expect(page.get_by_role("button", name="Mark the moves")).to_be_visible()
    expect(page.locator("#marked")).to_be_empty()


def test_solver_counts_the_moves_that_were_marked_where_the_game_went_on_meanwhile(open_page: Opener) -> None:
    page = open_page("/api")
    held = hold(page, r"/api/v1/solver/marks\?")
    page.goto("/solver?rows=3&columns=3&connect=3&moves=a1,b1")
    page.get_by_role("button", name="Mark the moves").click()
    expect(page.locator("#marked")).to_contain_text("Solving the position before each move")
    page.get_by_role("button", name=re.compile("^a2")).click()
    expect(page.locator("#moves li")).to_have_count(3)
    end = 'event: end\ndata: {"marked": 2, "blunders": 1}\n\n'
    held[0].fulfill(status=200, content_type="text/event-stream", body=end)
    expect(page.locator("#marked")).to_contain_text("1 of 2 moves change a win, draw or loss")


def test_a_comparison_shows_the_manifests_of_the_versions_that_were_chosen_last(open_page: Opener) -> None:
    page = open_page("/runs/golden/compare")
    page.route("**/compare/positions?*", lambda _: None)  # the manifests are there without an answer
    address = re.compile(r"/compare\?first=1&second=2$")
    hold(page, address.pattern)

    def compare(first: str, second: str) -> None:
        page.locator("#begin [name=first]").select_option(first)
        page.locator("#begin [name=second]").select_option(second)
        page.locator("#begin").evaluate("(form) => form.requestSubmit()")

    with page.expect_request(address):
        compare("1", "2")
    with page.expect_event("requestfailed", lambda request: bool(address.search(request.url))):  # the page gives it up
        compare("2", "1")
    expect(page.locator("#manifests")).to_contain_text("A: version 2")
    page.locator("#differences").click()
    expect(page.locator("#manifests")).to_contain_text("A: version 2")


def game_in_progress(uid: str) -> dict[str, object]:
    game = {"uid": uid * 16, "board": 0, "ply": 1, "versions": [1, 1], "values": None, "scores": None}
    return {"worker": "a worker", "reason": "", "players": 2, "is_hidden": False, "games": [game]}


def test_watch_shows_the_later_look_at_the_games_in_progress(open_page: Opener) -> None:
    page = open_page("/")
    page.emulate_media(reduced_motion="reduce")  # a page that is paused looks once
    looks: list[Route] = []
    page.route(re.compile(r"/running\?seat="), lambda route: looks.append(route))  # noqa: PLW0108 - a builtin is refused
    page.route(
        re.compile("/running/[^/]+/1$"),
        lambda route: route.fulfill(content_type="image/svg+xml", body="<svg xmlns='http://www.w3.org/2000/svg'/>"),
    )
    with page.expect_request(re.compile(r"/running\?seat=")):
        page.goto("/runs/golden/watch?games=running")
    with page.expect_request(re.compile(r"/running\?seat=")):
        page.locator("#choices [name=boards]").select_option("4")
    while len(looks) < 2:  # a request is reported before its route is
        handle(page)
    earlier, later = looks
    later.fulfill(json=game_in_progress("b"))
    expect(page.locator("#boards li").first).to_contain_text("Game bbbbbbbb")
    with page.expect_response(lambda response: response.request == earlier.request):
        earlier.fulfill(json=game_in_progress("a"))
    handle(page)
    expect(page.locator("#boards li").first).to_contain_text("Game bbbbbbbb")


def test_play_keeps_the_notice_of_a_file_that_was_refused_while_the_start_was_read(open_page: Opener, tmp_path: Path) -> None:
    page = open_page("/api")
    held = hold(page, r"/start\?")
    with page.expect_request(re.compile(r"/start\?")):
        page.goto("/play")
    (file := tmp_path / "game.json").write_text("null")
    page.locator("#load").set_input_files(file)
    notice = page.locator("#notice")
    expect(notice).to_have_text("game.json is no saved game: it needs game and moves")
    release(page, held)
    expect(page.locator("#start-board")).to_be_visible()
    expect(notice).to_have_text("game.json is no saved game: it needs game and moves")
