"""List of moves of a replay: marks of fast and reduced searches, by text and by name, with their legend."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

import games
from zerofleet.contracts.played import FULL_SEARCH, REDUCED
from zerofleet.contracts.records import encode_record
from zerofleet.contracts.records.samples import random_game
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.run_paths import RunPaths

Opener = Callable[..., Page]
Keeper = Callable[[Page, str], None]
DASH = "\N{EN DASH}"
MIXED, FULL, BARE = "a1" * 16, "b2" * 16, "c3" * 16


@pytest.fixture(scope="module")
def marked(copied: Callable[[str], Path]) -> str:
    """Return the address of the games of a run: one with every kind of search, one of full searches, and one without any."""
    root, played = copied("marked"), random_game(games.make("tic_tac_toe"), 3)
    flags = {1: 0, 3: REDUCED, 4: REDUCED | FULL_SEARCH}
    searched = tuple(replace(one, flags=flags.get(one.ply, FULL_SEARCH)) for one in played.searched if one.ply != 2)
    made = {MIXED: replace(played, searched=searched), FULL: played, BARE: replace(played, searched=())}
    with GameLog.open(RunPaths(root).replay, writer=True) as log:
        log.append([(uid, encode_record(one, worker_id="w", uid=uid, finished_at_ms=0)) for uid, one in made.items()])
    return f"/runs/{root.name}/games"


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark"), (1440, "dark"), (390, "light")])
def test_moves_of_fast_and_reduced_searches_are_marked_and_named_with_a_legend(
    open_page: Opener, keep: Keeper, marked: str, width: int, scheme: str
) -> None:
    page = open_page(f"{marked}/{MIXED}#ply=2", width=width, scheme=scheme)
    moves = page.get_by_role("list", name="Moves").get_by_role("button")
    expect(moves.first).to_be_visible()
    assert page.locator("#moves sup").all_text_contents() == ["f", DASH, "r", "r"]
    names = [snapshot.partition('"')[2].rpartition('"')[0] for snapshot in (one.aria_snapshot() for one in moves.all())]
    kinds = ["", ", fast search", ", without a search", ", reduced search", ", reduced search"]
    assert [name.partition(",")[1] + name.partition(",")[2] for name in names[:5]] == kinds
    expect(page.locator("#searches")).to_have_text(
        f"No mark: full search · f: fast search, no policy target · r: reduced search after a resignation · {DASH}: no search"
    )
    assert Axe().run(page).response["violations"] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    keep(page, f"replay-marks-{scheme}")


def test_a_game_of_full_searches_alone_has_no_marks_and_one_without_searches_states_it(open_page: Opener, marked: str) -> None:
    page = open_page(f"{marked}/{FULL}")
    expect(page.locator("#searches")).to_have_text("Every move has a full search.")
    expect(page.locator("#moves sup")).to_have_count(0)
    page.goto(f"{marked}/{BARE}#ply=none")
    expect(page.locator("#position")).to_have_text(re.compile(r"^Position (\d+) of \1, after"))
    expect(page.locator("#searches")).to_have_text("No move has a recorded search.")
    expect(page.locator("#moves sup")).to_have_count(0)
