"""Perfect play in the browser: the same figures as `zerofleet solve --json`, marks of a game, and searches that end."""

from __future__ import annotations

import json

import pytest

import games
from games.positions import read_moves
from zerofleet.agents.exact.solver import SolverStopped
from zerofleet.cli.app import main
from zerofleet.library.solutions import mark_moves, solve_position

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
