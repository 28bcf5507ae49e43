"""Games in progress in a browser: boards follow a worker, and show finished games while it is away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from zerofleet.contracts.games_in_progress import GameInProgress
from zerofleet.storage.run_paths import RunPaths

A, B, C = "a" * 32, "b" * 32, "c" * 32


def moved(uid: str, *moves: int, board: int = 0, scores: tuple[float, ...] | None = None) -> GameInProgress:
    values = (0.25, -0.25) if moves else None
    return GameInProgress(
        board=board, uid=uid, versions=(3, 3), ply=len(moves), moves=moves, seed=0, values=values, scores=scores
    )


@pytest.fixture
def worker(copied: Callable[[str], Path], stand_in_worker: ModuleType) -> Iterator[Any]:
    """Return the worker of a run of its own, which stays: a page may still ask for it."""
    made = stand_in_worker.StandInWorker(RunPaths(copied("watched", is_numbered=True)), "tic_tac_toe")
    yield made
    made.stop()


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_boards_follow_a_worker_and_show_finished_games_while_it_is_away(
    width: int, scheme: str, open_page: Callable[..., Page], keep: Callable[[Page, str], None], worker: Any
) -> None:
    worker.games = [moved(A, 4), moved(C, 0, 8, board=1)]
    worker.start()
    page = open_page(f"/runs/{worker.run}/watch?boards=4&speed=8", width=width, scheme=scheme)
    boards, notice = page.locator("#boards li:not([hidden])"), page.locator("#notice")
    expect(page.get_by_role("link", name="Game 8")).to_be_visible()  # a finished one, at first

    page.get_by_label("games in progress").check()
    first, second = boards.nth(0), boards.nth(1)
    expect(boards).to_have_count(2)
    expect(first).to_contain_text("ply 1")
    expect(first).to_contain_text("value +0.25 for player 1 · model 3")
    expect(second).to_contain_text("ply 2")
    expect(page.locator("#state")).to_have_text("2 games of worker-0")
    expect(page.get_by_label("Moves per second")).to_be_hidden()
    assert "games=running" in page.url
    expect(first.get_by_role("link")).to_have_count(0)  # its replay is not stored yet

    worker.games = [moved(A, 4, 0, 2), moved(C, 0, 8, board=1)]
    expect(first).to_contain_text("ply 3")
    page.wait_for_function(
        "() => [...document.querySelectorAll('#boards img')].slice(0, 2).every((one) => one.naturalWidth > 0)"
    )
    found = Axe().run(page).response["violations"]
    assert [f"{one['id']}: {node['html'][:120]} {node['any']}" for one in found for node in one["nodes"]] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    keep(page, "watch-running")

    worker.games = [moved(A, 4, 0, 2, 1, 6, scores=(1.0, -1.0)), moved(B, board=0), moved(C, 0, 8, board=1)]
    expect(first).to_contain_text("+1 -1")
    expect(first.get_by_role("link", name="Game aaaaaaaa")).to_have_attribute("href", f"/runs/{worker.run}/games/{A}")
    expect(first).to_contain_text("Game bbbbbbbb")  # after the end was to be seen for two seconds
    expect(first).to_contain_text("in progress · model 3")
    expect(first.get_by_role("link")).to_have_count(0)

    worker.stop()
    expect(notice).to_contain_text("does not answer")
    expect(notice).to_contain_text("Finished games are shown meanwhile")
    expect(page.get_by_role("link", name="Game 8")).to_be_visible()
    worker.start()
    expect(boards).to_have_count(2)
    expect(notice).to_be_hidden()

    page.get_by_label("finished games").check()
    expect(page.get_by_role("link", name="Game 8")).to_be_visible()
    expect(page.get_by_label("Moves per second")).to_be_visible()


def test_a_page_that_is_paused_or_shows_finished_games_has_no_stream_of_a_worker(
    open_page: Callable[..., Page], worker: Any
) -> None:
    worker.games = [moved(A, 4)]
    worker.start()
    page = open_page("/api")
    streams: list[str] = []
    page.on("request", lambda request: streams.append("begun") if request.url.endswith("/events?seat=1") else None)
    page.on("requestfailed", lambda request: streams.append("ended") if request.url.endswith("/events?seat=1") else None)
    page.goto(f"/runs/{worker.run}/watch?boards=4&games=running")
    expect(page.locator("#boards li").first).to_contain_text("ply 1")
    assert streams == ["begun"]
    page.get_by_role("button", name="Pause").click()
    page.wait_for_function("() => document.getElementById('pause').textContent === 'Play'")
    worker.games = [moved(A, 4, 0)]
    page.get_by_role("button", name="Play").click()
    expect(page.locator("#boards li").first).to_contain_text("ply 2")
    assert streams == ["begun", "ended", "begun"]
    page.get_by_label("finished games").check()
    expect(page.get_by_role("link", name="Game 8")).to_be_visible()
    assert streams == ["begun", "ended", "begun", "ended"]


def test_a_paused_page_shows_the_present_position_of_the_games_that_are_chosen(
    open_page: Callable[..., Page], worker: Any
) -> None:
    worker.games = [moved(A, 4), moved(C, 0, board=5)]
    worker.start()
    page = open_page(f"/runs/{worker.run}/watch?boards=4")
    expect(page.get_by_role("link", name="Game 8")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    page.get_by_label("games in progress").check()
    boards = page.locator("#boards li:not([hidden])")
    expect(boards).to_have_count(1)
    expect(boards).to_contain_text("ply 1")
    expect(page.locator("#notice")).to_be_hidden()
    page.locator("select[name=boards]").select_option("6")
    expect(boards).to_have_count(2)
    page.get_by_label("finished games").check()
    expect(page.get_by_role("link", name="Game 8")).to_be_visible()
    expect(boards).to_have_count(6)
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_boards_of_a_worker_that_is_away_are_not_kept_beside_those_of_another(
    open_page: Callable[..., Page], worker: Any, stand_in_worker: ModuleType
) -> None:
    worker.games = [moved(A, 4), moved(B, 0, board=1)]
    worker.start()
    page = open_page(f"/runs/{worker.run}/watch?boards=4&games=running")
    boards = page.locator("#boards li:not([hidden])")
    expect(boards).to_have_count(2)
    other = stand_in_worker.StandInWorker(worker.paths, "tic_tac_toe", name="worker-1")
    other.games = [moved(C, 0, 8)]
    other.start()
    try:
        worker.stop()
        expect(boards).to_have_count(1)
        expect(page.locator("#state")).to_have_text("1 game of worker-1")
    finally:
        other.stop()
