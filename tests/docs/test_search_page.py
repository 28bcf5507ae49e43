"""The page of the search names the presets as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from games.core import make
from zerofleet.presets import preset

PAGE = Path(__file__).parents[2] / "docs" / "search.md"
ROWS = [
    (game, cells)
    for line in PAGE.read_text().splitlines()
    if line.startswith("| `") and len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 7
    for game in re.findall("`([a-z0-9_]+)`", cells[0])
]


def test_the_page_has_games() -> None:
    assert len(ROWS) == 8


@pytest.mark.parametrize(("game", "cells"), ROWS, ids=[game for game, _ in ROWS])
def test_the_search_of_self_play_is_that_of_the_preset(game: str, cells: list[str]) -> None:
    chosen = preset(make(game), "laptop")
    search, half, share = chosen.search, chosen.train.search_value_share == 0.5, chosen.selfplay.deep_opening_share
    fast = "" if search.full_search_share == 1.0 else f" or {search.fast_simulations}"
    assert cells[1:4] == [
        {"gumbel": "Gumbel", "puct": "PUCT"}[search.root_policy],
        f"{search.simulations}{fast}",
        f"{search.full_search_share:.0%}".replace("%", " %"),
    ]
    assert cells[4] == ("those of full searches" if fast else "all")
    assert cells[5] == ("half result, half root value" if half else "result")
    assert cells[6] == ("deep and forked" if share else "uniform")
    assert chosen.selfplay.forked_opening_share == share
