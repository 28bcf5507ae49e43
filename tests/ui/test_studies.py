"""Trees of searched positions: their nodes, their growth, and what is refused."""

from __future__ import annotations

import json

import pytest

import games


def events(text: str) -> list[tuple[str, dict]]:
    """Return the events of a stream."""
    blocks = [block.split("\n") for block in text.strip().split("\n\n") if block.startswith("event:")]
    return [(block[0].removeprefix("event: "), json.loads(block[1].removeprefix("data: "))) for block in blocks]


async def searched(client, **wish):
    """Return a finished study."""
    answer = await client.post("/api/v1/studies", json={"game": "tic_tac_toe", "simulations": 300, **wish})
    assert answer.status_code == 200, answer.text
    stream = events((await client.get(f"/api/v1/studies/{answer.json()['id']}/events")).text)
    assert {name for name, _ in stream} == {"study"}
    assert stream[-1][1]["is_done"]
    return stream[-1][1]


async def node(client, study, path=""):
    answer = await client.get(f"/api/v1/studies/{study['id']}/node", params={"path": path})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.slow
async def test_a_node_shows_every_move_with_visits_value_prior_and_exploration(client):
    study = await searched(client, moves="b2 a1")
    root = await node(client, study)
    visits = [child["visits"] for child in root["children"]]
    assert (root["player"], root["legal"], study["moves"]) == (1, 7, ["b2", "a1"])
    assert visits == sorted(visits, reverse=True)
    assert sum(visits) == study["visits"] == root["visits"] - 1
    assert sum(child["prior"] for child in root["children"]) == pytest.approx(1.0, abs=1e-3)
    assert all(child["exploration"] > 0 and child["path"] == [child["move"]] for child in root["children"])
    game = games.make("tic_tac_toe")
    assert {cell["id"] for cell in root["cells"]} == {cell.id for cell in game.cells(games.new_state(game))}


@pytest.mark.slow
async def test_the_nodes_of_a_tree_open_move_by_move(client):
    study = await searched(client)
    root = await node(client, study)
    best = root["children"][0]
    reply = await node(client, study, best["move"])
    assert (reply["path"], reply["player"], reply["visits"]) == ([best["move"]], 2, best["visits"])
    board = await client.get(f"/api/v1/studies/{study['id']}/board", params={"path": best["move"]})
    assert board.text.startswith("<svg")
    deeper = await node(client, study, f"{best['move']},{reply['children'][0]['move']}")
    assert deeper["visits"] == reply["children"][0]["visits"]


@pytest.mark.slow
async def test_a_won_position_is_proven_and_its_line_wins(client):
    study = await searched(client, moves="a1 b1 a2 b2")
    assert (study["is_proven"], study["value"], study["line"]) == (True, 1.0, ["a3"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        ({"moves": "a1 a1"}, "move 2"),
        ({"moves": "a1 b1 a2 b2 a3"}, "the game is over"),
        ({"model": "champion"}, "choose a run"),
        ({"simulations": 0}, "greater than or equal to 1"),
        ({"game": "take_six", "moves": ""}, "hidden information"),
        ({"run": "nothing"}, "no run called"),
    ],
)
async def test_a_study_that_cannot_be_searched_is_refused_with_its_reason(client, wish, reason):
    answer = await client.post("/api/v1/studies", json={"game": "tic_tac_toe", **wish})
    assert answer.status_code in (400, 404)
    assert reason in answer.json()["error"]


@pytest.mark.slow
async def test_what_the_tree_does_not_hold_is_refused_with_its_reason(client):
    study = await searched(client, simulations=2)
    leaf = await client.get(f"/api/v1/studies/{study['id']}/node", params={"path": "a1,b1,c1"})
    assert (leaf.status_code, "more simulations" in leaf.json()["error"]) == (400, True)
    limit = await client.get(f"/api/v1/studies/{study['id']}/node", params={"limit": "9999"})
    assert limit.status_code == 400
    gone = await client.get("/api/v1/studies/nothing")
    assert (gone.status_code, "search the position again" in gone.json()["error"]) == (404, True)
