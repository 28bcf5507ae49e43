"""Perfect play in the browser: the same figures as `zerofleet solve --json`, marks of a game, and searches that end."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import pytest

import games
from games.positions import read_moves
from ui.app import create_app
from ui.catalogue import Catalogue
from ui.searches import MOST_SEARCHES, Searches
from ui.solving import SolvingEndpoints
from zerofleet.agents.exact.solver import SolverStopped
from zerofleet.cli.app import main
from zerofleet.library.solutions import MoveMark, mark_moves, solve_position

SMALL = {"rows": "4", "columns": "5", "connect": "4"}
MOVES = "c1,c2,c3,b1"


@pytest.mark.slow
async def test_the_answer_equals_that_of_the_command(client, capsys):
    found = (await client.get("/api/v1/solver", params={**SMALL, "moves": MOVES})).json()
    options = [option for name, value in SMALL.items() for option in ("--set", f"{name}={value}")]
    with pytest.raises(SystemExit):
        main(["solve", "connect_four", *options, "--moves", MOVES, "--json"])
    known = json.loads(capsys.readouterr().out)
    assert found.pop("seconds") >= 0
    assert known.pop("seconds") >= 0
    assert found == known


@pytest.mark.slow
async def test_the_moves_of_a_game_are_marked_from_the_last_to_the_first(client):
    moves = "b1,a1,c1,a2"  # after b1 and c1 both a1 and d1 win; a2 leaves d1 open
    text = (await client.get("/api/v1/solver/marks", params={"rows": 4, "columns": 5, "connect": 3, "moves": moves})).text
    blocks = [block.split("\n") for block in text.strip().split("\n\n") if block.startswith("event:")]
    stream = [(block[0].removeprefix("event: "), json.loads(block[1].removeprefix("data: "))) for block in blocks]
    marks = [value for name, value in stream if name == "mark"]
    assert [mark["ply"] for mark in marks] == [4, 3, 2, 1]
    game = games.make("connect_four", rows=4, columns=5, connect=3)
    for mark in marks:
        before = games.replay(game, read_moves(game, ",".join(moves.split(",")[: mark["ply"] - 1])))
        solved = solve_position(game, before)
        assert (mark["best"], mark["score"]) == (solved.score, solved.scores[mark["move"][0]])
    assert stream[-1] == ("end", {"marked": 4, "blunders": sum(mark["is_blunder"] for mark in marks)})


@pytest.mark.slow
async def test_a_position_names_the_cells_where_a_stone_can_land(client):
    found = (await client.get("/api/v1/solver/position", params={**SMALL, "moves": MOVES})).json()
    assert (found["player"], [cell["id"] for cell in found["cells"]]) == (1, ["a1", "b2", "c4", "d1", "e1"])


@pytest.mark.slow
def test_a_search_that_nobody_waits_for_ends_without_a_score():
    game = games.make("connect_four", rows=4, columns=5)
    with pytest.raises(SolverStopped):
        solve_position(game, games.new_state(game), is_stopped=lambda: True)
    with pytest.raises(SolverStopped):
        list(mark_moves(game, [0, 1], is_stopped=lambda: True))


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/api/v1/solver", "/api/v1/solver/marks"])
async def test_a_search_ends_when_its_client_disconnects(runs, monkeypatch, path):
    began, ended = threading.Event(), threading.Event()

    def search(is_stopped):
        began.set()
        give_up_s = time.monotonic() + 60.0
        while not is_stopped() and time.monotonic() < give_up_s:
            time.sleep(0.01)
        if is_stopped():
            ended.set()
        raise SolverStopped("nobody waits")

    def marks(game, moves, *, is_stopped):
        yield search(is_stopped)

    monkeypatch.setattr("ui.solving._solution", lambda game, moves, stopped: search(stopped.is_set))
    monkeypatch.setattr("ui.solving.mark_moves", marks)

    async def receive():
        if began.is_set():
            return {"type": "http.disconnect"}
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        pass

    scope = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "GET"}
    scope |= {"scheme": "http", "path": path, "raw_path": path.encode(), "root_path": "", "query_string": b"moves=d1"}
    scope |= {"headers": [(b"host", b"localhost")], "client": None, "server": None}
    await create_app(Catalogue(runs, None))(scope, receive, send)
    assert await asyncio.to_thread(ended.wait, 60.0)


async def test_further_games_are_marked_when_earlier_ones_have_ended(monkeypatch):
    game = games.make("connect_four", rows=4, columns=5)
    monkeypatch.setattr("ui.solving.mark_moves", lambda game, moves, is_stopped: iter([MoveMark(1, 1, "a1", 0, 0, False)]))
    endpoints = SolvingEndpoints(Catalogue(None, None), Searches())
    first, *others = (endpoints._marks(game, [0]) for _ in range(MOST_SEARCHES + 1))
    for stream in others:
        await anext(stream)
    waiting = asyncio.create_task(anext(first))
    done, _ = await asyncio.wait({waiting}, timeout=0.1)
    assert not done
    await others[0].aclose()
    assert (await waiting)[0] == "mark"
    for stream in (first, *others):
        await stream.aclose()


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        ({"run": "golden"}, "no exact solver"),
        ({"run": "nothing"}, "no run called"),
        ({"rows": "9", "columns": "9"}, "no exact solver"),
        ({"rows": "x"}, "rows"),
        ({"moves": "a1," * 1000}, "more than 2000 characters"),
    ],
)
async def test_a_question_that_cannot_be_solved_is_refused_with_its_reason(client, wish, reason):
    answer = await client.get("/api/v1/solver", params=wish)
    assert answer.status_code in (400, 404)
    assert reason in answer.json()["error"]
