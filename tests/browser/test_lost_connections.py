"""Answers that are lost: a page asks again, or ends its wait with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType

import pytest
from playwright.sync_api import Page, Route, expect

Opener = Callable[..., Page]

BEGIN_STUDY = """() => fetch("/api/v1/studies", {
  method: "POST", headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ game: "tic_tac_toe", simulations: 1 }),
}).then((answer) => answer.json())"""


def test_a_tree_that_made_room_before_it_was_shown_ends_the_wait_with_the_reason(open_page: Opener) -> None:
    page = open_page("/", refusal="404 (Not Found)")
    held: list[Route] = []
    page.route("**/studies/*/events", lambda route: held.append(route))  # noqa: PLW0108 - a builtin is refused
    with page.expect_request("**/studies/*/events"):
        page.goto("/tree?game=tic_tac_toe")
    expect(page.locator("#notice")).to_contain_text("Searching…")
    for _ in range(4):
        page.evaluate(BEGIN_STUDY)
    held[0].continue_()
    expect(page.locator("#notice")).to_have_text(
        "this tree is not in memory: it made room for newer ones; search the position again"
    )
    expect(page.locator("#state")).to_have_text("not shown")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()


def test_play_asks_again_for_a_reply_whose_answer_was_lost(open_page: Opener) -> None:
    page = open_page("/play?game=tic_tac_toe", refusal="net::ERR_FAILED")
    expect(page.locator("#notice")).to_be_hidden()
    lost: list[str] = []

    def lose_first(route: Route) -> None:
        if lost:
            route.continue_()
        else:
            lost.append(route.request.url)
            route.abort()

    page.route(re.compile(r"\?wait=1$"), lose_first)
    page.locator("#begin [name=seat]").fill("2")
    page.get_by_role("button", name="Begin").click()
    expect(page.locator("#notice")).to_contain_text("zerofleet ui does not answer")
    expect(page.locator("#state")).to_have_text("your move")
    expect(page.locator("#moves li")).to_have_count(1)
    expect(page.locator("#notice")).to_be_hidden()


def test_play_states_why_a_game_ended_while_the_opponent_chose(open_page: Opener) -> None:
    page = open_page("/play?game=tic_tac_toe", refusal="404 (Not Found)")
    expect(page.locator("#notice")).to_be_hidden()
    gone, asked = {"error": "this game is not in progress: it made room for newer ones; begin another"}, []

    def refuse(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(status=404, json=gone)

    page.route(re.compile(r"\?wait=1$"), refuse)
    page.clock.install()
    page.locator("#begin [name=seat]").fill("2")
    page.get_by_role("button", name="Begin").click()
    expect(page.locator("#notice")).to_have_text(gone["error"])
    page.clock.run_for(10_000)
    expect(page.locator("#notice")).to_have_text(gone["error"])
    assert len(asked) == 1


def test_marks_of_a_replay_that_were_interrupted_are_counted_once(open_page: Opener, golden: ModuleType) -> None:
    page = open_page(f"/runs/golden/games/{golden.uid(8)}")
    expect(page.locator("#replay")).to_be_visible()
    page.evaluate("document.getElementById('solver-line').hidden = false")  # as in Connect Four
    mark = 'event: mark\ndata: {"ply": 2, "best": 1, "score": 1, "is_blunder": false}\n\n'
    end = 'event: end\ndata: {"marked": 2, "blunders": 0}\n\n'
    asked: list[str] = []

    def interrupt(route: Route) -> None:
        asked.append(route.request.url)
        body = f"retry: 1\n\n{mark}{end if len(asked) > 3 else ''}"  # each stream begins again
        route.fulfill(headers={"Content-Type": "text/event-stream"}, body=body)

    page.evaluate(
        """() => new MutationObserver(() => {
          window.said = [...(window.said ?? []), document.getElementById("marked").textContent];
        }).observe(document.getElementById("marked"), { childList: true })"""
    )
    page.route("**/solver/marks*", interrupt)
    page.get_by_role("button", name="Mark blunders").click()
    expect(page.locator("#marked")).to_contain_text("moves change a win")
    said = page.evaluate("window.said")
    counted = {text.removeprefix("Solving… ").split()[0] for text in said if " of " in text and text.startswith("Solving")}
    assert counted == {"1"}
    assert len(asked) == 4


LEAVE = """() => {
  Object.defineProperty(document, "hidden", { get: () => true, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
RETURN = """() => {
  delete document.hidden;
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_older_games_are_asked_for_again_after_a_lost_request(open_page: Opener) -> None:
    page = open_page("/api", refusal="ERR_FAILED")
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) == 2:
            route.abort()
        else:
            route.fulfill(json={**route.fetch().json(), "next_before": 5 if len(asked) == 1 else None})

    page.route("**/api/v1/runs/golden/games?*", answer)
    page.goto("/runs/golden/games")
    older = page.get_by_role("button", name="Older games")
    older.click()
    expect(page.locator("#notice")).to_contain_text("does not answer")
    older.click()
    expect(page.locator("#notice")).to_be_hidden()
    expect(older).to_be_hidden()
    assert len(asked) == 3


def test_matches_are_listed_after_a_request_for_the_games_was_lost(open_page: Opener) -> None:
    page = open_page("/api", refusal="ERR_FAILED")
    lost: list[str] = []

    def answer(route: Route) -> None:
        if lost:
            route.continue_()
        else:
            lost.append(route.request.url)
            route.abort()

    page.route("**/api/v1/games", answer)
    page.goto("/runs/golden/matches")
    expect(page.locator("#notice")).to_contain_text("does not answer")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#matches tbody tr")).to_have_count(1)


@pytest.mark.parametrize("name", ["overview", "cluster"])
def test_pages_in_the_background_leave_their_connections_to_others_and_go_on_when_looked_at(
    open_page: Opener, name: str
) -> None:
    first = open_page(f"/runs/golden/{name}")
    for _ in range(6):  # as many as a browser has to one server
        page = first.context.new_page()
        page.goto(f"/runs/golden/{name}")
        page.evaluate(LEAVE)
    first.evaluate(LEAVE)
    first.context.new_page().goto("/")
    with first.expect_request(re.compile(r"/golden/.*events")):
        first.evaluate(RETURN)
    expect(first.locator("#state")).not_to_have_text("reconnecting…")
