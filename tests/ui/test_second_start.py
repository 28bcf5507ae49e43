"""Pages that start again: rows of unchanged stopped runs are those of the first start, and shells need no open run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ui import catalogue
from ui.app import create_app
from ui.catalogue import Catalogue
from ui.service import journal_cache
from ui.settings import UiSettings
from zerofleet.library import cache_files
from zerofleet.library.run_files import OpenRun


@pytest.fixture
def folder(runs: Path, tmp_path: Path) -> Path:
    shutil.copytree(runs / "golden", tmp_path / "runs" / "golden")
    return tmp_path / "runs"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list that receives the name of each run that is opened."""
    names: list[str] = []
    monkeypatch.setattr(
        catalogue, "OpenRun", lambda name, *args, **options: (names.append(name), OpenRun(name, *args, **options))[1]
    )
    return names


def test_rows_of_an_unchanged_run_are_shown_without_opening_it(folder, tmp_path, opened):
    first = Catalogue(folder, None, cache=tmp_path / "cache").runs()
    assert opened == ["golden"]
    assert Catalogue(folder, None, cache=tmp_path / "cache").runs() == first
    assert opened == ["golden"]


def test_a_run_whose_files_have_changed_is_opened_again(folder, tmp_path, opened):
    before = Catalogue(folder, None, cache=tmp_path / "cache").runs()
    with (folder / "golden" / "metrics" / "trainer.jsonl").open("a") as file:
        file.write('{"time": 1795399900.0, "step": 999, "losses/total": 1.0, "charts/games_ever": 20.0}\n')
    after = Catalogue(folder, None, cache=tmp_path / "cache").runs()
    assert opened == ["golden", "golden"]
    assert (before.runs[0].step, after.runs[0].step) == (110, 999)


def test_a_run_that_was_replaced_by_another_of_the_same_name_is_opened_again(folder, tmp_path, opened):
    Catalogue(folder, None, cache=tmp_path / "cache").runs()
    shutil.move(folder / "golden", tmp_path / "old")
    shutil.copytree(tmp_path / "old", folder / "golden")  # the same sizes and times
    Catalogue(folder, None, cache=tmp_path / "cache").runs()
    assert opened == ["golden", "golden"]


def test_a_run_whose_files_have_the_numbers_sizes_and_times_of_the_old_ones_is_opened_again(folder, tmp_path, opened):
    Catalogue(folder, None, cache=tmp_path / "cache").runs()
    header = folder / "golden" / "run.json"
    before = header.stat()
    header.write_text(header.read_text().replace('"seed":1', '"seed":2').replace('"seed": 1', '"seed": 2'))
    os.utime(header, ns=(before.st_atime_ns, before.st_mtime_ns))  # as cp -a does with an inode that is used again
    after = header.stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_size) == (before.st_ino, before.st_mtime_ns, before.st_size)
    Catalogue(folder, None, cache=tmp_path / "cache").runs()
    assert opened == ["golden", "golden"]


def test_rows_whose_fields_are_those_of_another_build_are_read_anew(folder, tmp_path, opened, monkeypatch):
    first = Catalogue(folder, None, cache=tmp_path / "cache").runs()
    (file,) = (tmp_path / "cache").iterdir()
    monkeypatch.setattr(cache_files, "_first_line", lambda key, content: b"right")
    file.write_bytes(b'right\n{"golden": [{"stamps": []}, {"name": "golden"}]}')
    assert Catalogue(folder, None, cache=tmp_path / "cache").runs() == first
    assert opened == ["golden", "golden"]


async def test_a_page_is_answered_before_its_run_is_opened(folder, opened, connected):
    app = create_app(Catalogue(folder, None))
    async with app.router.lifespan_context(app), connected(app) as client:
        for name in ("overview", "curves", "ladder", "models", "matches", "watch", "cluster"):
            answer = await client.get(f"/runs/golden/{name}")
            assert answer.status_code == 200
            assert 'data-game="tic_tac_toe"' in answer.text
        assert opened == []
        assert "player 2 won" in (await client.get("/runs/golden/games")).text
        assert opened == ["golden"]


async def test_a_page_of_a_run_whose_game_is_not_installed_says_so(folder, connected):
    header = folder / "golden" / "run.json"
    header.write_text(header.read_text().replace("tic_tac_toe", "nobodys_game"))
    app = create_app(Catalogue(folder, None))
    async with app.router.lifespan_context(app), connected(app) as client:
        answer = await client.get("/runs/golden/models")
    assert answer.status_code == 400
    assert "nobodys_game" in answer.text


def test_a_user_without_a_home_directory_has_pages_without_a_cache():
    assert journal_cache(UiSettings(journal_cache=Path("~nobody-of-this-name/journals"))) is None
    assert journal_cache(UiSettings(journal_cache=Path("~"))) == Path.home()
