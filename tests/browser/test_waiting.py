"""Pages that wait: the progress of a compilation, and a model that plays by time."""

from __future__ import annotations

import re
from collections.abc import Callable

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Request, Route, expect

Opener = Callable[..., Page]
Keeper = Callable[[Page, str], None]

COMPILING = {"is_compiling": True, "functions": 34, "seconds": 12.0, "expected_s": 20.0}
PROGRESS = "Rules and search compile for this machine, once: 34 functions in 12 of about 20 s."


def compiling(page: Page, *urls: str) -> list[Route]:
    """Let the pages compile, and hold requests of these addresses; return the list of those held."""
    held: list[Route] = []
    page.route("**/api/v1/compilation", lambda route: route.fulfill(json=COMPILING))
    for url in urls:
        page.route(re.compile(url), lambda route: held.append(route))  # noqa: PLW0108 - a builtin is refused
    return held


def test_play_shows_a_compilation_at_the_beginning_and_at_a_hint(open_page: Opener, keep: Keeper) -> None:
    page = open_page("/play?game=tic_tac_toe")
    notice = page.locator("#notice")
    expect(notice).to_be_hidden()
    held = compiling(page, "/api/v1/tables$", "/hint$")
    page.get_by_role("button", name="Begin").click()
    expect(notice).to_have_text(f"Beginning… {PROGRESS}")
    keep(page, "compilation-play")
    assert Axe().run(page).response["violations"] == []
    held.pop().continue_()
    expect(page.locator("#state")).to_have_text("your move")
    expect(notice).to_be_hidden()
    page.locator("#hint").click()
    expect(page.locator("#opinion")).to_have_text(f"Searching… {PROGRESS}")
    held.pop().continue_()
    expect(page.locator("#opinion")).to_contain_text("search of the next plies")


def test_a_wait_without_a_compilation_shows_the_time_that_passes(open_page: Opener) -> None:
    page = open_page("/play?game=tic_tac_toe")
    expect(page.locator("#notice")).to_be_hidden()
    held: list[Route] = []
    page.route(re.compile("/api/v1/tables$"), lambda route: held.append(route))  # noqa: PLW0108 - as above
    page.get_by_role("button", name="Begin").click()
    expect(page.locator("#notice")).to_have_text(re.compile(r"^Beginning… [2-9] s$"))
    held.pop().continue_()
    expect(page.locator("#notice")).to_be_hidden()


def test_tree_shows_a_compilation(open_page: Opener) -> None:
    page = open_page("/tree?game=tic_tac_toe")
    expect(page.locator("#notice")).to_be_hidden()
    held = compiling(page, "/api/v1/studies$", "/events$")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#notice")).to_have_text(f"Beginning… {PROGRESS}")
    held.pop().continue_()
    expect(page.locator("#notice")).to_have_text(f"Searching… {PROGRESS}")
    held.pop().continue_()
    expect(page.locator("#state")).to_have_text(re.compile("searched|proven"))
    expect(page.locator("#notice")).to_be_hidden()


def test_watch_shows_a_compilation_until_the_first_board(open_page: Opener) -> None:
    page = open_page("/")
    held = compiling(page, r"/runs/golden/watch\?", "/runs/golden/watch/.*/0")
    page.goto("/runs/golden/watch")
    expect(page.locator("#notice")).to_have_text(f"Reading the newest games… {PROGRESS}")
    held.pop().continue_()
    expect(page.locator("#notice")).to_have_text(PROGRESS)
    while held:
        held.pop().continue_()
    page.unroute(re.compile("/runs/golden/watch/.*/0"))
    expect(page.locator("#notice")).to_be_hidden()
    expect(page.locator("#boards li").first).to_be_visible()


def test_a_model_plays_by_seconds_and_its_bar_shows_them(open_page: Opener, keep: Keeper, run_with_champion: str) -> None:
    page = open_page(f"/play?run={run_with_champion}")
    expect(page.locator("#notice")).to_be_hidden()
    budget = page.locator("#begin [name=simulations]"), page.locator("#begin [name=seconds]")
    budget[0].fill("50")
    budget[1].fill("2.5")
    expect(budget[0]).to_have_value("")
    budget[0].fill("50")
    expect(budget[1]).to_have_value("")
    budget[1].fill("2.5")
    wishes: list[Request] = []
    page.on("request", lambda request: wishes.append(request) if request.url.endswith("/api/v1/tables") else None)
    page.get_by_role("button", name="Begin").click()
    expect(page.locator("#state")).to_have_text("your move")
    assert {"seconds": 2.5}.items() <= wishes[0].post_data_json.items()
    assert "simulations" not in wishes[0].post_data_json
    page.locator("#hint").click()
    expect(page.locator("#live-text")).to_contain_text(re.compile(r"[\d,]+ simulations in \d\.\d of 2\.5 s"))
    keep(page, "play-by-seconds")
    expect(page.locator("#opinion")).to_contain_text(re.compile(r"champion 1, 2\.5 s, \d+ simulations"))
