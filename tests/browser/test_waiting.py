"""Pages that wait: the progress of a compilation, and a model that plays by time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Request, Route, expect

from zerofleet.testing.compared_runs import make_compared_run

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
    expect(page.locator("#opinion")).to_contain_text("search of the next 6 plies")


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


def test_a_replay_shows_a_compilation_and_its_marks_and_exports_do(open_page: Opener, golden: ModuleType) -> None:
    page = open_page("/")
    home = f"/runs/golden/games/{golden.uid(8)}"
    held = compiling(page, f"/api/v1{home}$", "/solver/marks", "/export")
    page.goto(home)
    expect(page.locator("#notice")).to_have_text(f"Replaying the game… {PROGRESS}")
    held.pop().continue_()
    expect(page.locator("#replay")).to_be_visible()
    expect(page.locator("#notice")).to_be_hidden()
    page.evaluate("document.getElementById('solver-line').hidden = false")  # as in Connect Four
    page.get_by_role("button", name="Mark blunders").click()
    expect(page.locator("#marked")).to_have_text(f"Solving… {PROGRESS}")
    page.get_by_role("button", name="Cancel the marks").click()
    expect(page.locator("#marked")).to_contain_text("Cancelled after 0 of")
    held.clear()
    page.get_by_role("button", name="JSONL").click()
    expect(page.locator("#exported")).to_have_text(f"Drawing… {PROGRESS}")
    held.pop().continue_()
    expect(page.locator("#exported")).to_contain_text("KiB")


def test_solver_shows_a_compilation_for_its_board_its_solution_and_its_marks(open_page: Opener, keep: Keeper) -> None:
    page = open_page("/")
    held = compiling(page, "/solver/position", r"/api/v1/solver\?", "/solver/marks")
    page.goto("/solver?rows=4&columns=4&connect=3&moves=a1,b1")
    verdict, marked = page.locator("#verdict"), page.locator("#marked")
    expect(page.locator("#notice")).to_have_text(f"Drawing the board… {PROGRESS}")
    held.pop().continue_()
    expect(verdict).to_have_text(f"Solving… {PROGRESS}")
    expect(page.locator("#notice")).to_be_hidden()
    keep(page, "compilation-solver")
    assert Axe().run(page).response["violations"] == []
    page.get_by_role("button", name="Cancel").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#state")).to_have_text("cancelled")
    expect(verdict).to_be_empty()
    expect(page.get_by_role("button", name="Mark the moves")).to_be_focused()
    held.clear()
    page.keyboard.press("Enter")
    expect(marked).to_have_text(f"Solving the position before each move… {PROGRESS}")
    held.pop().continue_()
    expect(marked).to_contain_text("of 2 moves change")


def test_the_drawing_of_a_position_shows_a_compilation(open_page: Opener, keep: Keeper) -> None:
    page = open_page("/play?game=tic_tac_toe")
    expect(page.locator("#notice")).to_be_hidden()
    found = page.locator("#found")
    held = compiling(page, r"/api/v1/setup\?", "/api/v1/setup/moves")
    page.get_by_text("Set-up").click()
    page.get_by_role("button", name="Draw the position").click()
    expect(found).to_have_text(f"Reading the board… {PROGRESS}")
    held.pop().continue_()
    page.get_by_role("button", name="b2: empty").click()
    page.get_by_role("button", name="Use this position").click()
    expect(found).to_have_text(f"Searching the orders of the stones… {PROGRESS}")
    keep(page, "compilation-drawing")
    held.pop().continue_()
    expect(found).to_contain_text("1 move leads to this position")


def test_a_comparison_shows_a_compilation(open_page: Opener, keep: Keeper, runs: Path) -> None:
    make_compared_run(runs / "waited")
    page = open_page("/")
    held = compiling(page, r"/api/v1/runs/waited/compare(/positions)?\?")
    page.goto("/runs/waited/compare?first=1&second=2")
    expect(page.locator("#notice")).to_have_text(f"Comparing… {PROGRESS}")
    with page.expect_request("**/compare/positions?*"):
        held.pop().continue_()
    expect(page.locator("#about")).to_be_visible()
    expect(page.locator("#notice")).to_have_text(f"Comparing… {PROGRESS}")
    keep(page, "compilation-compare")
    held.pop().continue_()
    expect(page.locator("#boards > li")).to_have_count(12)
    expect(page.locator("#notice")).to_be_hidden()
    page.get_by_label("Seed").fill("3")
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_role("button", name="Cancel").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#notice")).to_have_text("The comparison was cancelled.")
    expect(page.get_by_role("button", name="Compare", exact=True)).to_be_focused()


def test_missing_games_of_a_ladder_show_the_compilation_of_their_own_process(
    open_page: Opener, keep: Keeper, run_with_champion: str
) -> None:
    page = open_page("/")
    job = {"run": run_with_champion, "games": 2, "every": 1, "began_at": "2026-11-25T00:00:00Z", "missing": 40, "played": 0}
    job |= {"at": "", "is_done": False, "is_cancelled": False, "fault": "", "compiling": COMPILING}

    def with_job(route: Route) -> None:
        found = route.fetch()
        route.fulfill(response=found, json={**found.json(), "job": job})

    def events(route: Route) -> None:
        route.fulfill(content_type="text/event-stream", body=f"retry: 200\nevent: job\ndata: {json.dumps(job)}\n\n")

    page.route("**/ladder/games?*", with_job)
    page.route("**/ladder/games/events", events)
    page.goto(f"/runs/{run_with_champion}/ladder")
    about = page.locator("#climb-about")
    begins = "The games begin, with an inference server where the models need one…"
    expect(about).to_have_text(f"{begins} {PROGRESS}")
    keep(page, "compilation-ladder")
    assert Axe().run(page).response["violations"] == []
    job["compiling"] = COMPILING | {"is_compiling": False}
    expect(about).to_have_text(re.compile(f"^{begins} [0-9]+ s$"))
    job |= {"played": 3, "at": "model:1"}
    expect(about).to_have_text("3 of 40 games played, now those of version 1.")


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
