"""States of pages beside the usual one: an empty run, errors, a server that is away, searched and played positions, dialogs.

Each state is accessible, as wide as the window, and states its reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from zerofleet.storage.runs import RunDirectory

Opener = Callable[..., Page]
Keeper = Callable[[Page, str], None]

SIZES = pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")])
OF_A_RUN = ("overview", "curves", "ladder", "models", "matches", "games", "watch", "cluster", "compare?first=1&second=2")
ELSEWHERE = ("/", "/play", "/tree", "/solver", "/api")
EMPTY = {
    "overview": "#candidates",
    "curves": "#notice",
    "ladder": "#notice",
    "models": "#notice",
    "matches": "#notice",
    "games": "#notice",
    "watch": "#notice",
    "cluster": "#parts table",
}


def faults(page: Page, state: str) -> list[str]:
    """Return the violations of a state, and whether it is wider than the window."""
    found = Axe().run(page).response["violations"]
    listed = [f"{state}: {one['id']}: {node['html'][:160]}" for one in found for node in one["nodes"]]
    if not page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
        listed.append(f"{state}: wider than the window")
    return listed


@pytest.fixture(scope="module")
def empty(runs: Path) -> str:
    """Return the name of a run whose services have not begun."""
    with RunDirectory.create_or_open(runs / "empty", "tic_tac_toe", {}, preset="tiny", seed=1):
        return "empty"


@SIZES
def test_the_pages_of_an_empty_run_are_accessible(open_page: Opener, keep: Keeper, empty: str, width: int, scheme: str) -> None:
    page, found = open_page("/", width=width, scheme=scheme), []
    for name, selector in EMPTY.items():
        page.goto(f"/runs/{empty}/{name}")
        expect(page.locator(selector).first).not_to_have_text(re.compile("…$"))
        expect(page.locator(selector).first).not_to_be_empty()
        keep(page, f"empty-{name}")
        found += faults(page, name)
        empty_boxes = page.locator(".panel:visible:empty, .panel:visible table:not(:has(tbody tr))").count()
        assert empty_boxes == 0, name
    assert found == []


@SIZES
def test_the_overview_of_a_run_of_seconds_shows_what_its_services_do(
    open_page: Opener, keep: Keeper, empty: str, width: int, scheme: str
) -> None:
    page = open_page("/", width=width, scheme=scheme)
    now = page.request.get(f"/api/v1/runs/{empty}/overview").json() | {"is_live": True, "elapsed_s": 14.0}
    service = {"for_s": 14.0, "restarts": 0, "memory_bytes": 250 << 20, "device": "", "share": None}
    server = service | {"name": "inference_server-0", "state": "ready", "compiling": "", "device": "cuda:0", "share": 0.52}
    now["services"] = [
        server,
        {"name": "trainer", "state": "ready", "compiling": "", **service},
        {"name": "worker-0", "state": "starting", "compiling": "34 functions in 12 of about 20 s", **service},
    ]
    stream = f"event: overview\ndata: {json.dumps(now)}\n\n"
    page.route(f"**/runs/{empty}/events", lambda route: route.fulfill(content_type="text/event-stream", body=stream))
    page.goto(f"/runs/{empty}/overview")
    expect(page.locator("#services")).to_contain_text("compiles: 34 functions in 12 of about 20 s")
    for text in ("inference server-0", "cuda:0", "52"):
        expect(page.locator("#services tbody tr").first).to_contain_text(text)
    expect(page.locator("#candidates")).to_have_text("waiting for the first network")
    keep(page, f"overview-of-seconds-{scheme}")
    assert faults(page, "overview") == []


NEXT = "A stopped run goes on with zerofleet run --run-dir DIR."
MISSING = {
    "curves": "The run has not written metrics yet: the first rows come within a minute of its start.",
    "ladder": "No rated game has been played yet: the gatekeeper plays the first ones when there is a champion.",
    "models": "No model is stored yet: the trainer exports the first one after its first steps.",
    "matches": "No match has been played yet: the gatekeeper plays one when the trainer has exported a further version.",
    "games": "No game is stored yet: the trainer stores the first ones as soon as they end.",
    "watch": "No game is stored yet. The boards begin with the first one.",
    "compare": "A comparison needs two sound versions, and the run has fewer: the trainer exports further ones.",
}


def test_every_page_of_an_empty_run_states_what_is_missing_and_what_to_do(open_page: Opener, empty: str) -> None:
    page = open_page("/")
    for name, line in MISSING.items():
        page.goto(f"/runs/{empty}/{name}")
        expect(page.locator("#notice")).to_have_text(f"{line} {NEXT}")
    page.goto(f"/runs/{empty}/overview")
    expect(page.locator("#notice")).to_have_text(
        f"The run is stopped: its services are away. The files have no figures yet. {NEXT}"
    )


@SIZES
def test_a_page_whose_server_fails_states_the_reason(open_page: Opener, keep: Keeper, width: int, scheme: str) -> None:
    reason = "the journal gatekeeper/journal.jsonl is damaged in line 7,000; restore it from a backup"
    page, found = open_page("/", width=width, scheme=scheme, refusal="409 (Conflict)"), []
    page.route("**/api/v1/**", lambda route: route.fulfill(status=409, json={"error": reason}))
    for path in (
        *ELSEWHERE,
        *(f"/runs/golden/{name}" for name in OF_A_RUN if name != "overview"),
        "/runs/golden/games/0000abab",
    ):
        page.goto(path)
        expect(page.locator("#notice")).to_have_text(reason)
        expect(page.locator("#notice")).to_have_class(re.compile("error"))
        found += faults(page, path)
    keep(page, "failed-replay")
    assert found == []


@SIZES
def test_a_page_whose_server_is_away_says_so(open_page: Opener, keep: Keeper, width: int, scheme: str) -> None:
    page, found = open_page("/", width=width, scheme=scheme, refusal="net::ERR_FAILED"), []
    page.route("**/api/v1/**", lambda route: route.abort())
    for path in (*ELSEWHERE, *(f"/runs/golden/{name}" for name in OF_A_RUN)):
        page.goto(path)
        expect(page.locator("#notice")).to_contain_text("does not answer")
        found += faults(page, path)
    keep(page, "away-compare")
    assert found == []


def test_a_plan_of_an_impossible_fleet_is_refused_with_the_reason(open_page: Opener) -> None:
    page = open_page("/runs/golden/cluster?gpus=0", refusal="400 (Bad Request)")
    expect(page.locator("#notice")).to_contain_text("gpus='0' is out of range")
    expect(page.locator("#state")).to_have_text("not shown")
    assert faults(page, "refused") == []


@SIZES
def test_addresses_of_nothing_and_the_token_page_are_accessible(
    open_page: Opener, keep: Keeper, width: int, scheme: str
) -> None:
    page, found = open_page("/", width=width, scheme=scheme, refusal="404 (Not Found)"), []
    for path, text in (("/nowhere", "nothing at /nowhere"), ("/runs/nothing/overview", "no run called"), ("/login", "Token")):
        page.goto(path)
        expect(page.locator("main")).to_contain_text(text)
        found += faults(page, path)
    keep(page, "login")
    assert found == []


@SIZES
def test_a_folder_without_runs_and_one_with_an_unreadable_run_are_accessible(
    open_page: Opener, keep: Keeper, width: int, scheme: str
) -> None:
    page = open_page("/api", width=width, scheme=scheme)
    unreadable = [{"name": "a" * 80, "fault": "the game 'go' of this run is not installed; install its package"}]
    page.route("**/api/v1/runs", lambda route: route.fulfill(json={"runs": [], "unreadable": unreadable}))
    page.goto("/")
    expect(page.locator("#notice")).to_contain_text("no run here yet")
    expect(page.locator("#faults")).to_contain_text("not installed")
    keep(page, "no-runs")
    assert faults(page, "runs") == []


@SIZES
def test_a_replay_with_its_heat_map_is_accessible(
    open_page: Opener, keep: Keeper, golden: ModuleType, width: int, scheme: str
) -> None:
    page = open_page(f"/runs/golden/games/{golden.uid(8)}#ply=2", width=width, scheme=scheme)
    page.get_by_label("Heat map of visits").check()
    expect(page.locator("#frame svg .heat").first).to_be_visible()
    found = faults(page, "heat")
    page.keyboard.press("End")
    expect(page.locator("#search-about")).to_have_text("The game is over.")
    keep(page, "replay-end")
    assert [*found, *faults(page, "end")] == []


@SIZES
def test_a_searched_position_is_opened_with_the_keyboard_and_accessible(
    open_page: Opener, keep: Keeper, width: int, scheme: str
) -> None:
    page = open_page("/tree?game=tic_tac_toe&model=none&simulations=400", width=width, scheme=scheme)
    expect(page.locator("#state")).to_have_text(re.compile("searched|proven"))
    expect(page.locator("#notice")).to_be_hidden()
    opener = page.get_by_role("button", name="Replies to").first
    opener.focus()
    page.keyboard.press("Enter")
    expect(opener).to_have_attribute("aria-expanded", "true")
    expect(opener).to_be_focused()
    page.get_by_text("Position as text").click()
    keep(page, "tree-searched")
    assert faults(page, "tree") == []
    opener.focus()
    page.keyboard.press("Enter")
    expect(opener).to_have_attribute("aria-expanded", "false")


@SIZES
def test_a_solved_position_with_its_marks_is_accessible(open_page: Opener, keep: Keeper, width: int, scheme: str) -> None:
    page = open_page("/solver?rows=4&columns=4&connect=3&moves=a1,b1", width=width, scheme=scheme)
    expect(page.locator("#verdict")).not_to_be_empty()
    page.locator("#mark").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#marked")).to_contain_text(re.compile(r"of 2 moves"))
    keep(page, "solver-marked")
    assert faults(page, "solver") == []


@SIZES
def test_a_game_in_progress_its_hint_and_its_end_are_accessible(
    open_page: Opener, keep: Keeper, width: int, scheme: str
) -> None:
    page, found = open_page("/play?game=tic_tac_toe", width=width, scheme=scheme), []
    expect(page.locator("#notice")).to_be_hidden()
    page.get_by_text("Set-up").click()
    page.get_by_role("button", name="Draw the position").click()
    expect(page.locator("#drawing")).to_be_visible()
    found += faults(page, "drawing")
    page.get_by_role("button", name="Draw the position").click()
    page.get_by_role("button", name="Begin").click()
    expect(page.locator("#state")).to_have_text("your move")
    page.get_by_text("Legal moves", exact=True).click()
    page.get_by_role("button", name="Hint").click()
    expect(page.locator("#opinion")).not_to_contain_text(re.compile("Ask for a hint|Searching"))
    found += faults(page, "hint")
    keep(page, "play-hint")
    for played in range(0, 9, 2):  # the opponent's replies fill the board too
        page.locator("#frame svg .cell").first.click()
        page.wait_for_function(
            "(before) => document.getElementById('state').textContent === 'over'"
            " || (document.querySelectorAll('#moves li').length >= before + 2 && document.querySelector('#frame svg .cell'))",
            arg=played,
        )
        if page.locator("#state").text_content() == "over":
            break
    expect(page.locator("#state")).to_have_text("over")
    found += faults(page, "over")
    keep(page, "play-over")
    assert found == []


def test_the_confirmation_of_ladder_games_is_accessible_and_escape_returns_the_focus(
    open_page: Opener, keep: Keeper, run_with_champion: str
) -> None:
    page = open_page(f"/runs/{run_with_champion}/ladder", width=390, scheme="dark")
    play, dialog = page.get_by_role("button", name="Play missing games"), page.locator("#climb-confirm")
    page.get_by_label("Games per pair").fill("20")
    page.get_by_label("Games per pair").press("Tab")
    expect(play).to_be_enabled()
    play.focus()
    page.keyboard.press("Enter")
    expect(dialog).to_be_visible()
    assert page.evaluate("document.activeElement.closest('dialog')?.id") == "climb-confirm"
    keep(page, "ladder-dialog")
    assert faults(page, "dialog") == []
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(play).to_be_focused()


@SIZES
def test_a_version_and_the_report_of_its_match_are_accessible(open_page: Opener, keep: Keeper, width: int, scheme: str) -> None:
    page = open_page("/runs/golden/models#v2", width=width, scheme=scheme)
    expect(page.locator("#detail")).to_contain_text("sha256")
    found = faults(page, "version")
    keep(page, "models-detail")
    page.goto("/runs/golden/matches#version=2&opponent=1")
    expect(page.locator("#match")).to_be_visible()
    keep(page, "match-report")
    assert [*found, *faults(page, "match")] == []
