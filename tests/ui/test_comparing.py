"""Comparison of two versions in the API: the values of the command line, its bounds, and one comparison at a time."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import jsonschema
import pytest

from ui import comparing
from ui.app import create_app
from ui.catalogue import Catalogue
from ui.comparing import Comparisons, Wish
from ui.model_servers import ModelServers
from zerofleet.cli import main
from zerofleet.library.chosen_positions import Sample
from zerofleet.library.run_files import OpenRun
from zerofleet.storage.run_paths import RunPaths
from zerofleet.testing.compared_runs import game_uid, make_compared_run

ROOT = "/api/v1/runs/pair/compare"
PAIR = {"first": "1", "second": "2"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run of two perceptrons, and one of a game with hidden hands."""
    made = tmp_path_factory.mktemp("compared")
    make_compared_run(made / "pair")
    make_compared_run(made / "hands", "take_six", games=2)
    return made


@pytest.fixture
async def pages(folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Catalogue(folder, None))
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://localhost") as made:
        yield made


@pytest.mark.slow
async def test_the_answers_are_those_of_the_command_line(pages, folder, capsys):
    words = ("models", "compare", "tic_tac_toe", "1", "champion", "--run-dir", str(folder / "pair"), "--seed", "3", "--json")
    with pytest.raises(SystemExit):
        await asyncio.to_thread(main, list(words))
    printed = json.loads(capsys.readouterr().out)
    assert (await pages.get(ROOT, params=PAIR)).json() == printed["versions"]
    positions = (await pages.get(f"{ROOT}/positions", params={**PAIR, "seed": 3})).json()
    assert positions == printed["opinions"]
    assert positions["rows"][0]["total_variation"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(("path", "schema"), [("", "VersionComparison"), ("/positions", "OpinionComparison")])
async def test_the_answers_are_those_of_the_openapi_document(pages, path, schema):
    document = (await pages.get("/api/v1/openapi.json")).json()
    wanted = {"$ref": f"#/components/schemas/{schema}", "components": document["components"]}
    jsonschema.validate((await pages.get(ROOT + path, params=PAIR)).json(), wanted)


@pytest.mark.parametrize(
    ("path", "asked", "status", "reason"),
    [
        ("", {"first": "1"}, 400, "second is missing"),
        ("", {"first": "1", "second": "1"}, 400, "with itself"),
        ("/positions", {"first": "2", "second": "champion"}, 400, "with itself"),
        ("", {"first": "1", "second": "9"}, 404, "9"),
        ("/positions", {"first": "1", "second": "9"}, 404, "9"),
        ("", {"first": "1", "second": "../2"}, 400, "not a version"),
        ("/positions", {**PAIR, "positions": "2001"}, 400, "out of range"),
        ("/positions", {**PAIR, "positions": "0"}, 400, "out of range"),
        ("/positions", {**PAIR, "seed": "-1"}, 400, "out of range"),
        ("/positions", {**PAIR, "limit": "101"}, 400, "out of range"),
        ("/positions", {**PAIR, "order": "names"}, 400, "choose policy or value"),
        ("/positions", {**PAIR, "moves": "a1 a1"}, 400, "move 2"),
        ("/positions", {**PAIR, "moves": "a1 " * 2000}, 400, "characters"),
        ("/positions", {**PAIR, "before": "0"}, 400, "no stored game"),
        ("/board", {"uid": game_uid(0), "ply": "99"}, 400, "no position"),
        ("/board", {"uid": "zz"}, 400, "not a uid"),
        ("/board", {"moves": "a1 b1 a2 b2 a3"}, 400, "the game is over"),
    ],
)
async def test_a_comparison_that_cannot_be_made_is_refused_with_its_reason(pages, path, asked, status, reason):
    answer = await pages.get(ROOT + path, params=asked)
    assert (answer.status_code, reason in answer.json()["error"]) == (status, True), answer.text


async def test_every_position_of_the_answer_is_drawn(pages):
    for moves in ("", "b2 a1"):
        found = (await pages.get(f"{ROOT}/positions", params={**PAIR, "moves": moves, "limit": 3})).json()
        assert len(found["rows"]) == 3
        for row in found["rows"]:
            place = {"uid": row["uid"], "ply": row["ply"]} if row["uid"] else {"moves": " ".join(row["moves"])}
            board = await pages.get(f"{ROOT}/board", params=place)
            assert board.headers["content-type"].startswith("image/svg+xml")
            assert board.text.count("<text") == 6 + row["ply"]  # the names of columns and rows, and the marks


@pytest.mark.slow
async def test_no_hand_of_another_seat_is_in_an_answer(pages, folder):
    asked = {**PAIR, "positions": 5, "limit": 5}
    found = (await pages.get("/api/v1/runs/hands/compare/positions", params=asked)).json()
    run = OpenRun("hands", RunPaths(folder / "hands"))
    for row in found["rows"]:
        assert row["moves"] == []
        _, stored = run.stored(row["uid"])
        board = await pages.get("/api/v1/runs/hands/compare/board", params={"uid": row["uid"], "ply": row["ply"]})
        assert board.text == stored.game.draw_svg_for(stored.states[row["ply"]], row["player"] - 1)
    run.close()
    line = await pages.get("/api/v1/runs/hands/compare/positions", params={**PAIR, "moves": "1"})
    assert (line.status_code, "hidden information" in line.json()["error"]) == (400, True)


@pytest.fixture
def counted(monkeypatch):
    """Count the comparisons that are computed, and hold each until the event is set."""
    began, held = [], asyncio.Event()
    real = comparing.compare_opinions

    async def compare(*arguments, **options):
        began.append(arguments)
        await held.wait()
        return await real(*arguments, **options)

    monkeypatch.setattr(comparing, "compare_opinions", compare)
    return began, held


@pytest.fixture
def opened(folder):
    run = OpenRun("pair", RunPaths(folder / "pair"))
    yield run
    run.close()


async def turns(count=200):
    """Let threads and tasks go on."""
    for _ in range(count):
        await asyncio.to_thread(lambda: None)


async def test_one_comparison_is_computed_at_a_time_and_equal_ones_once(counted, opened):
    began, held = counted
    comparisons, first = Comparisons(ModelServers()), Wish(opened, (1, 2), Sample(20), "")
    tasks = [asyncio.create_task(comparisons.compared(wish)) for wish in (first, first, Wish(opened, (2, 1), Sample(20), ""))]
    while not began:
        await asyncio.to_thread(lambda: None)
    await turns()
    assert len(began) == 1
    held.set()
    one, same, reverse = await asyncio.gather(*tasks)
    assert one is same
    assert reverse.versions == (2, 1)
    assert len(began) == 2


async def test_a_cancelled_comparison_ends_and_makes_room(counted, opened):
    began, held = counted
    comparisons, wish = Comparisons(ModelServers()), Wish(opened, (1, 2), Sample(20), "")
    task = asyncio.create_task(comparisons.compared(wish))
    while not began:
        await asyncio.to_thread(lambda: None)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    held.set()
    assert len((await comparisons.compared(wish)).chosen) == 20
    assert len(began) == 2


async def test_the_permalink_of_a_sample_finds_the_kept_comparison(counted, opened):
    began, held = counted
    held.set()
    comparisons = Comparisons(ModelServers(), most_kept=1)
    found = await comparisons.compared(Wish(opened, (1, 2), Sample(20), ""))
    assert await comparisons.compared(Wish(opened, (1, 2), Sample(20, before=found.chosen.before), "")) is found
    await comparisons.compared(Wish(opened, (1, 2), Sample(20, seed=1), ""))
    assert await comparisons.compared(Wish(opened, (1, 2), Sample(20), "")) is not found  # it made room
    assert len(began) == 3


async def test_a_comparison_in_the_newest_games_counts_those_that_were_stored_since(counted, folder, tmp_path, append_game):
    shutil.copytree(folder / "pair", tmp_path / "pair")
    run, comparisons = OpenRun("pair", RunPaths(tmp_path / "pair")), Comparisons(ModelServers())
    counted[1].set()
    first = await comparisons.compared(Wish(run, (1, 2), Sample(20), ""))
    append_game(tmp_path / "pair", 99)
    later = await comparisons.compared(Wish(run, (1, 2), Sample(20), ""))
    assert (first.chosen.before, later.chosen.before) == (9, 10)
    assert await comparisons.compared(Wish(run, (1, 2), Sample(20, before=9), "")) is first
    run.close()


class Leaving:
    """Request whose client is there for some looks."""

    def __init__(self, looks):
        self._looks = looks

    async def is_disconnected(self):
        self._looks -= 1
        return self._looks < 0


async def test_a_client_that_leaves_ends_its_comparison(monkeypatch):
    monkeypatch.setattr(comparing, "LEFT_EVERY_S", 0.001)
    ended = []

    async def endless():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    with pytest.raises(comparing.InvalidRequest, match="has left"):
        await comparing._while_connected(Leaving(2), endless())
    assert ended == [True]
