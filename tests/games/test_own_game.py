"""The page about a game of one's own: its files are written out, installed and run as it says."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

import games
from games import core
from games.kit import svg
from zerofleet.agents import make_agent
from zerofleet.errors import InvalidRequest
from zerofleet.library.seated_game import SeatedGame
from zerofleet.library.solutions import solve_position

PAGE = (Path(__file__).parents[2] / "docs" / "own_game.md").read_text()


def file_on_page(name: str) -> str:
    """The code block that begins with the comment `# name`."""
    blocks = re.findall(r"```\w+\n(.*?)```", PAGE, flags=re.DOTALL)
    return next(block for block in blocks if block.startswith(f"# {name}\n"))


def text_after(name: str) -> str:
    """The output that the page shows below a file."""
    found = re.search(r"```text\n(.*?)```", PAGE[PAGE.index(f"# {name}\n") :], flags=re.DOTALL)
    assert found is not None
    return found[1]


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
    assert shown == text_after("check_nim.py")


def clickable() -> str:
    """The file of the game with the additions of the page for clicks, put where the page says."""
    imports, methods = (file_on_page(name).split("\n", 1)[1] for name in ("imports of nim.py", "methods of Nim"))
    head, rules = file_on_page("nim.py").split("\n\n\n@rule(Nim)\n", 1)
    head = head.replace("\nfrom games.kit.bits", f"\n{imports}from games.kit.bits", 1)
    return f"{head}\n\n{methods}\n\n@rule(Nim)\n{rules}"


@pytest.mark.slow
def test_the_clickable_game_on_the_page_is_played_by_clicks_and_solved(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(core, "_CLASSES", dict(core._CLASSES))
    monkeypatch.delitem(sys.modules, "nim", raising=False)
    (site / "nim.py").write_text(clickable())
    (site / "click_nim.py").write_text(file_on_page("click_nim.py"))
    runpy.run_path(str(site / "click_nim.py"))
    assert capsys.readouterr().out == text_after("click_nim.py")

    game = games.make("nim", piles=2)
    drawn = ElementTree.fromstring(svg.picture(game, games.new_state(game)))
    assert len(drawn.findall("{*}rect[@height='32']")) == 4  # a rectangle for each stick
    seated = SeatedGame(game, seat=0, seed=1)
    for click in ("b2", "b1"):
        cells = {cell.id: cell for cell in seated.cells()}
        assert all(cell.radius <= cell.x <= float(drawn.attrib["width"]) - cell.radius for cell in cells.values())
        assert all(path[0] in cells for path in seated.paths().values())
        by_path = {path: name for name, path in seated.paths().items()}
        assert len(by_path) == len(seated.legal()) == len(cells)
        seated.play(by_path[click,])
        if not seated.is_over:
            seated.moves.append(game.parse_action(seated.state(), "a1"))
    assert seated.is_over
    assert games.final_scores(game, seated.state()) == (1.0, -1.0)
    assert solve_position(game, games.new_state(game)).best == ("b2",)  # leaves one stick in each pile
    assert make_agent("perfect", games.make("nim")).name == "perfect"
    with pytest.raises(InvalidRequest, match=r"too large for perfect play: up to 6\.7e\+8 positions"):
        make_agent("perfect", games.make("nim", piles=8))


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
