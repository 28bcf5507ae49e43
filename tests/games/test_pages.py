"""The pages about the games say what the games say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import games

FOLDER = Path(__file__).parents[2] / "docs" / "games"
PAGES = {path.stem: path.read_text() for path in FOLDER.glob("*.md")}


def table(page: str, heading: str) -> dict[str, list[str]]:
    """The rows of the first table under a heading, by their first cell."""
    section = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in rows[2:]}


def test_every_built_in_game_has_a_page() -> None:
    assert {"connect_four", "tic_tac_toe"} <= set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_the_tables_agree_with_the_specification(name: str) -> None:
    game, page = games.make(name), PAGES[name]
    spec, rows = game.spec(), table(page, "Specification")
    assert {key: int(row[0]) for key, row in rows.items() if row[0].isdigit()} == {
        "players": spec.num_players,
        "actions": spec.num_actions,
        "legal actions at most": spec.max_legal,
        "longest game, plies": spec.max_plies,
        "bytes of an encoded position": spec.packed_bytes,
        "state, 64-bit words": spec.state_size,
    }
    assert rows["planes"][0] == " x ".join(map(str, spec.planes))
    assert rows["information"][0] == spec.information
    assert {key: row[0] for key, row in table(page, "Parameters").items()} == {
        key: str(value) for key, value in games.parameters_of(name).items()
    }
    assert [int(version) for version in table(page, "Versions of the rules")][-1] == spec.rules_version


@pytest.mark.parametrize("name", PAGES)
def test_the_example_prints_the_picture(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = re.search(r"```python\n(.*?)```", PAGES[name], flags=re.DOTALL)
    picture = re.search(r"```text\n(.*?)```", PAGES[name], flags=re.DOTALL)
    assert code is not None
    assert picture is not None
    exec(code[1], {})
    shown = [line.partition("  after")[0].rstrip() for line in picture[1].splitlines()]
    assert capsys.readouterr().out.splitlines() == shown
