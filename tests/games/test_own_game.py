"""The page about a game of one's own: its files are written out, installed and run as it says."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import games

PAGE = (Path(__file__).parents[2] / "docs" / "own_game.md").read_text()


def file_on_page(name: str) -> str:
    """The code block that begins with the comment `# name`."""
    blocks = re.findall(r"```\w+\n(.*?)```", PAGE, flags=re.DOTALL)
    return next(block for block in blocks if block.startswith(f"# {name}\n"))


def install(folder: Path, name: str, offers: dict[str, str]) -> None:
    """Write what an installer leaves behind for a distribution that offers games."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = "".join(f"{game} = {module}\n" for game, module in offers.items())
    (info / "entry_points.txt").write_text(f"[zerofleet.games]\n{lines}")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the import path, as site-packages is."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_game_on_the_page_is_found_and_keeps_the_laws(site: Path) -> None:
    (site / "nim.py").write_text(file_on_page("nim.py"))
    (site / "check_nim.py").write_text(file_on_page("check_nim.py"))
    project = tomllib.loads(file_on_page("pyproject.toml"))["project"]
    install(site, project["name"].replace("-", "_"), project["entry-points"]["zerofleet.games"])
    assert "nim" in games.available()
    games.check_game(games.make("nim"), games=10)
    shown = subprocess.run(
        [sys.executable, "-c", "import sys; sys.path.insert(0, '.'); import check_nim"],
        cwd=site, capture_output=True, text=True, check=True, timeout=120,
    ).stdout  # fmt: skip
    assert shown == re.search(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)[1]  # type: ignore[index]


def test_a_game_that_cannot_be_imported_is_reported_and_affects_no_other(site: Path) -> None:
    (site / "broken_game_module.py").write_text("import a_module_that_is_not_there\n")
    install(site, "broken_game", {"broken_game": "broken_game_module"})
    assert {"broken_game", "connect_four"} <= set(games.available())
    with pytest.raises(games.UnknownGame, match=r"'broken_game' cannot be loaded from .*a_module_that_is_not_there"):
        games.make("broken_game")
    games.make("connect_four")


def test_a_module_that_registers_no_game_is_reported(site: Path) -> None:
    (site / "empty_game_module.py").write_text("")
    install(site, "empty_game", {"empty_game": "empty_game_module"})
    with pytest.raises(games.UnknownGame, match="registers no game of that name"):
        games.make("empty_game")
