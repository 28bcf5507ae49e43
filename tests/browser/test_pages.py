"""What a person does in a browser: play by clicks, watch, plan, and read every page, also under a name that is markup."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from urllib.parse import parse_qs, quote, urlparse

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect

from zerofleet.storage.runs import RunDirectory

Opener = Callable[..., Page]
Keeper = Callable[[Page, str], None]

OF_THE_APPLICATION = {
    "/": "#runs .card",
    "/play": "#begin",
    "/tree": "#begin",
    "/solver": "#begin",
    "/api": "#operations .panel",
}
OF_A_RUN = {
    "overview": "#panels .panel",
    "curves": "#charts canvas",
    "ladder": "#players > *",
    "models": "#models table",
    "matches": "#matches > *",
    "games": "#games table",
    "watch": "#boards li:not([hidden])",
    "cluster": "#parts table",
}
SIZES = [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")]


def settled(page: Page, selector: str) -> Page:
    """Wait until a page shows its values."""
    page.wait_for_selector(selector, state="attached")
    page.wait_for_function("() => !/…$/.test(document.getElementById('notice')?.textContent.trim() ?? '')")
    return page


def violations(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{page.url}: {one['id']}: {node['html'][:120]}" for one in found for node in one["nodes"]]


def pages_of(run: str) -> dict[str, str]:
    return {f"/runs/{quote(run, safe='')}/{name}": selector for name, selector in OF_A_RUN.items()}


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_every_page_is_accessible_and_as_wide_as_the_window(open_page: Opener, keep: Keeper, width: int, scheme: str) -> None:
    page = open_page("/", width=width, scheme=scheme)
    found = []
    for path, selector in (OF_THE_APPLICATION | pages_of("golden")).items():
        page.goto(path)
        settled(page, selector)
        found += violations(page)
        keep(page, path.rpartition("/")[2] or "runs")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    assert found == []


def test_a_name_that_is_markup_is_text_on_every_page(open_page: Opener, hostile: str) -> None:
    page = open_page("/")
    settled(page, "#runs .card")
    assert hostile in page.locator("#runs h2").all_text_contents()
    for path, selector in pages_of(hostile).items():
        page.goto(path)
        settled(page, selector)
        assert page.locator(".run-name").text_content() == f"{hostile} tic_tac_toe"
        assert hostile in page.title()
        assert page.locator("img[src=x]").count() == 0
    page.goto(f"/play?run={quote(hostile)}")
    settled(page, "#begin")
    expect(page.locator("select[name=run] option:checked")).to_have_text(f"{hostile} (tic_tac_toe)")
    assert page.locator("img[src=x]").count() == 0


def moves(page: Page) -> list[str]:
    return page.locator("#moves li").all_text_contents()


def test_a_game_of_connect_four_is_played_by_clicks_with_undo_and_hint(open_page: Opener) -> None:
    page = settled(open_page("/play?game=connect_four"), "#begin")
    page.get_by_role("button", name="Begin").click()
    state, column = page.locator("#state"), page.locator("#frame svg .cell")
    expect(state).to_have_text("your move")

    column.first.click()
    expect(page.locator("#moves li")).to_have_count(2)
    expect(state).to_have_text("your move")
    page.get_by_role("button", name="Hint").click()
    expect(page.locator("#opinion")).not_to_contain_text("Ask for a hint")
    expect(page.locator("#opinion")).not_to_contain_text("Searching")

    assert moves(page)[0].startswith("1. a")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#moves li")).to_have_count(0)
    expect(page.locator("#lines-panel")).to_be_visible()

    played = 0
    while state.text_content() != "over":  # at most 42 moves: the board is full then
        assert played < 42
        column.first.click()
        page.wait_for_function(
            "(before) => { const over = document.getElementById('state').textContent === 'over';"
            " return over || (document.querySelectorAll('#moves li').length >= before + 2"
            " && document.querySelector('#frame svg .cell')); }",
            arg=played,
        )
        played = len(moves(page))
    assert re.search(r"You win|wins|A draw", page.locator("#turn").text_content() or "")
    assert column.count() == 0
    assert violations(page) == []


def test_a_move_is_played_with_the_keyboard_alone(open_page: Opener) -> None:
    page = settled(open_page("/play?game=tic_tac_toe"), "#begin")
    page.get_by_role("button", name="Begin").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#frame svg .cell")
    page.locator("#frame svg .cell").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#moves li")).to_have_count(2)


def test_a_new_game_flows_onto_a_board_and_a_pause_stops_them(open_page: Opener, runs: Path, golden: ModuleType) -> None:
    page = open_page("/api")
    page.clock.install()
    page.goto("/runs/golden/watch?boards=4&speed=8")
    settled(page, "#boards li:not([hidden])")
    positions = page.locator("#boards .card-head .dim")
    first = positions.all_text_contents()
    page.clock.run_for(1_000)
    expect(positions.first).not_to_have_text(first[0])
    golden.append(runs / "golden", 9)
    expect(page.get_by_role("link", name="Game 9")).to_be_visible()

    page.get_by_role("button", name="Pause").click()
    before, changes = [""], 0
    while (now := positions.all_text_contents()) != before:  # a game that was asked for before the pause may still come
        before, changes = now, changes + 1
        assert changes < 5
        page.clock.run_for(10_000)  # 80 positions at this speed
    page.get_by_role("button", name="Play").click()
    page.clock.run_for(1_000)
    page.wait_for_function(
        "(before) => [...document.querySelectorAll('#boards .card-head .dim')].some((one, i) => one.textContent !== before[i])",
        arg=before,
    )
    page.get_by_role("link", name="Game 9").click()
    expect(page.locator("#about")).to_contain_text("Game 9")


def test_boards_begin_with_the_first_game_of_a_run(open_page: Opener, runs: Path, golden: ModuleType) -> None:
    with RunDirectory.create_or_open(runs / "late", "tic_tac_toe", {}, preset="tiny", seed=1) as run:
        run.paths.replay.rmdir()  # as before the trainer's start
    page = open_page("/runs/late/watch?boards=4&speed=8")
    expect(page.locator("#notice")).to_contain_text("No game is stored yet")
    golden.append(runs / "late", 0)
    expect(page.get_by_role("link", name="Game 0")).to_be_visible()
    expect(page.locator("#notice")).to_be_hidden()


def test_boards_show_the_games_of_a_run_that_was_made_again(
    open_page: Opener, runs: Path, copied: Callable[..., Path], golden: ModuleType
) -> None:
    root = copied("remade")
    page = open_page("/runs/remade/watch?boards=4&speed=8", refusal="status of 4")
    expect(page.get_by_role("link", name="Game 8")).to_be_visible()
    shutil.rmtree(root)
    with RunDirectory.create_or_open(root, "tic_tac_toe", {}, preset="tiny", seed=2):
        golden.append(root, 3)
    expect(page.locator("#boards .card-head a").first).to_have_text("Game 0")
    expect(page.locator("#state")).to_have_text("1 game stored")


RATED = {"champion": 2, "rated_version": 2, "elo": 489.2, "elo_low": 300.4, "elo_high": 651.8, "elo_trend": [120.0, 480.0]}


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({}, "Rating over the run: not anchored"),
        (RATED, "Rating over the run: 489 Elo (300 to 652)"),
        (RATED | {"rated_version": 1}, "Rating over the run: not anchored; version 1: 489 Elo (300 to 652)"),
    ],
)
def test_the_label_of_a_course_of_ratings_is_not_anchored_or_a_number_with_its_interval(
    open_page: Opener, changes: dict[str, object], label: str
) -> None:
    page = open_page("/api")

    def changed(route: Route) -> None:
        found = route.fetch()
        told = found.json()
        told["runs"] = [{**row, **changes} for row in told["runs"] if row["name"] == "golden"]
        route.fulfill(response=found, json=told)

    page.route("**/api/v1/runs", changed)
    page.goto("/")
    assert settled(page, "#runs .card").locator(".trends svg").last.get_attribute("aria-label") == label


def test_recorded_accuracy_has_a_chart_of_its_own(open_page: Opener) -> None:
    page = settled(open_page("/runs/golden/curves"), "#charts canvas")
    chart = page.locator("#charts .chart", has_text="Accuracy")
    expect(chart.locator(".u-legend .u-series")).to_have_count(3)  # the axis, and two modes
    expect(page.get_by_role("link", name="accuracy")).to_have_attribute("href", re.compile("group=accuracy"))


def test_the_plan_follows_the_numbers_of_the_form(open_page: Opener) -> None:
    page = settled(open_page("/runs/golden/cluster"), "#parts table")
    page.get_by_label("Workers").fill("7")
    page.get_by_role("button", name="Plan").click()
    expect(page.locator("#notice")).to_contain_text("zerofleet bench")  # no costs of this game: the command that measures them
    assert "workers=7" in page.url


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")])
def test_games_are_filtered_by_a_form_whose_state_is_the_address(
    open_page: Opener, keep: Keeper, width: int, scheme: str
) -> None:
    page = settled(open_page("/runs/golden/games?model=3", width=width, scheme=scheme), "#games table")
    rows, count = page.locator("#games tbody tr"), page.locator("#count")
    total = page.request.get("/api/v1/runs/golden/games?limit=1").json()["total"]  # other tests store games
    expect(page.get_by_label("Model")).to_have_value("3")
    expect(rows).to_have_count(1)
    expect(count).to_have_text(f"1 found, {total} of {total} games searched")
    page.get_by_role("button", name="Clear").click()
    expect(rows).to_have_count(total)
    expect(count).to_have_text(f"{total} games stored")
    assert urlparse(page.url).query == ""

    page.get_by_label("Result").focus()
    page.keyboard.type("player 1")
    page.get_by_label("Plies from").fill("6")
    page.get_by_label("Worker").fill("worker-0")
    page.keyboard.press("Enter")
    expect(count).to_contain_text(f"found, {total} of {total} games searched")
    assert urlparse(page.url).query == "result=1&min_plies=6&worker=worker-0"
    kept = rows.count()
    assert 0 < kept < total
    assert all("6" <= text <= "9" for text in page.locator("#games tbody td:nth-child(3)").all_text_contents())
    keep(page, f"games-filter-{scheme}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(page) == []
    page.reload()
    expect(rows).to_have_count(kept)
    page.go_back()
    expect(rows).to_have_count(total)

    page.get_by_label("Ending").select_option("cut")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#notice")).to_have_text("No stored game fits the filter.")
    expect(rows).to_have_count(0)


def test_a_search_for_games_in_parts_goes_on_by_itself_and_is_stopped(open_page: Opener) -> None:
    page = settled(open_page("/runs/golden/games"), "#games table")
    asked: list[str] = []

    def in_parts(route: Route) -> None:
        asked.append(parse_qs(urlparse(route.request.url).query).get("before", ["none"])[0])
        rest = {"total": 90, "searched": 30, "unreadable": 0, "games": []}
        if len(asked) <= 3:
            route.fulfill(json={**rest, "next_before": 90 - 30 * len(asked) or None})
        elif len(asked) == 4:
            route.fulfill(json={**rest, "next_before": 60})
        # the fifth answer never comes

    page.route("**/api/v1/runs/golden/games?*", in_parts)
    page.get_by_label("Worker").fill("nobody")
    page.keyboard.press("Enter")
    expect(page.locator("#notice")).to_have_text("No stored game fits the filter.")
    expect(page.locator("#count")).to_have_text("0 found, 90 of 90 games searched")
    assert asked == ["none", "60", "30"]
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#count")).to_have_text("0 found, 30 of 90 games searched")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Search older games")).to_be_focused()
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()


def test_an_address_with_a_wrong_condition_shows_the_reason(open_page: Opener) -> None:
    page = open_page("/runs/golden/games?ending=lost", refusal="400 (Bad Request)")
    expect(page.locator("#notice")).to_contain_text("ending='lost' is not accepted")


def test_a_replay_is_saved_as_an_animation(open_page: Opener, golden: ModuleType, tmp_path: Path) -> None:
    page = open_page(f"/runs/golden/games/{golden.uid(8)}")
    page.wait_for_selector("#replay:not([hidden])")
    with page.expect_download() as begun:
        page.get_by_role("button", name="GIF").click()
    begun.value.save_as(tmp_path / "game.gif")
    assert begun.value.suggested_filename == f"tic_tac_toe-{golden.uid(8)[:12]}.gif"
    assert (tmp_path / "game.gif").read_bytes().startswith(b"GIF89a")
    expect(page.locator("#exported")).to_contain_text("KiB")


def test_a_replay_lays_a_heat_map_of_visits_over_the_board_by_keyboard(open_page: Opener, golden: ModuleType) -> None:
    page = open_page(f"/runs/golden/games/{golden.uid(8)}#ply=0")
    switch, layer = page.get_by_label("Heat map of visits"), page.locator("#frame svg")
    expect(switch).to_be_visible()
    expect(layer).to_have_count(0)
    switch.focus()
    page.keyboard.press("Space")
    expect(layer.locator(".heat")).to_have_count(9)
    expect(page.locator("#heat-about")).to_contain_text(re.compile(r"[abc][123] \d+\s%.*6 more cells"))
    expect(page.get_by_role("img", name="Heat map of visits")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("ArrowRight")  # the focus is still on the switch
    expect(layer.locator(".heat")).to_have_count(8)
    page.keyboard.press("End")
    expect(page.locator("#heat-about")).to_have_text("No visits are recorded for this position.")
    expect(layer).to_have_count(0)
    page.keyboard.press("Home")
    expect(layer.locator(".heat")).to_have_count(9)
    page.keyboard.press("Space")
    expect(layer).to_have_count(0)


def test_missing_games_of_a_ladder_are_played_after_a_confirmation(open_page: Opener, run_with_champion: str) -> None:
    page = open_page(f"/runs/{run_with_champion}/ladder")
    page.get_by_label("Games per pair").fill("2")
    page.get_by_label("Games per pair").press("Tab")
    about, play = page.locator("#climb-about"), page.get_by_role("button", name="Play missing games")
    expect(about).to_have_text(re.compile(r"^\d+ games are missing\. $"))
    missing = (about.text_content() or "").split()[0]
    play.click()
    expect(page.locator("#climb-question")).to_have_text(f"Play {missing} missing games of {run_with_champion}?")
    assert violations(page) == []
    page.get_by_role("button", name="Back").click()
    expect(play).to_be_enabled()  # nothing has begun

    play.click()
    page.get_by_role("button", name="Play", exact=True).click()
    expect(about).to_contain_text(f"{missing} games were played.")
    expect(page.locator("#climb-table tbody tr")).to_have_count(1)
    expect(play).to_be_disabled()
    assert violations(page) == []


def test_moments_name_their_time_zone(open_page: Opener) -> None:
    page = open_page("/runs/golden/models#v2")
    for name in ("Exported", "Promoted"):
        fact = page.locator("#detail dt", has_text=name).locator("xpath=following-sibling::dd[1]")
        expect(fact).to_have_text(re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$"))
    page.goto("/")
    expect(page.locator("#runs time").first).to_have_text(re.compile(r"\d\d:\d\d:\d\d UTC \(.* ago\)$"))


@pytest.mark.parametrize("content", ["null", "no JSON", "[1]", '{"game": "othello"}'])
def test_a_file_that_is_no_saved_game_is_refused_with_a_sentence(open_page: Opener, tmp_path: Path, content: str) -> None:
    page = settled(open_page("/play"), "#begin")
    (file := tmp_path / "game.json").write_text(content)
    page.locator("#load").set_input_files(file)
    expect(page.locator("#notice")).to_have_text("game.json is no saved game: it needs game and moves")


def test_an_illegal_move_of_the_address_of_the_solver_stays_in_its_field(open_page: Opener) -> None:
    page = open_page("/solver?moves=d1+d9", refusal="400 (Bad Request)")
    expect(page.locator("#notice")).to_contain_text("move 2:")
    expect(page.locator("#begin [name=moves]")).to_have_value("d1 d9")


def test_the_form_of_the_solver_offers_no_board_that_the_solver_refuses(open_page: Opener) -> None:
    page = open_page("/solver?rows=31&columns=2&connect=31")
    expect(page.locator("#solved")).to_be_visible()  # the highest board
    assert page.locator("#begin").evaluate("(form) => form.checkValidity()")
    page.goto("/solver?rows=2&columns=21&connect=2")
    expect(page.locator("#solved")).to_be_visible()  # the widest one
    for name, refused in (("rows", "32"), ("columns", "22"), ("connect", "32")):
        page.locator(f"[name={name}]").fill(refused)
        assert not page.locator(f"[name={name}]").evaluate("(field) => field.checkValidity()")
