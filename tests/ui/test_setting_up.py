"""Positions drawn in the browser: the board of a game, and legal moves to the stones on it."""

from __future__ import annotations

import pytest


async def test_a_drawn_position_has_moves_that_lead_there(client):
    board = (await client.get("/api/v1/setup?game=tic_tac_toe")).json()
    assert (len(board["cells"]), board["players"], board["reason"]) == (9, 2, "")
    assert len(set(board["colours"])) == 2
    picture = await client.get("/api/v1/setup/board?game=tic_tac_toe")
    assert picture.text.startswith("<svg")
    wish = {"game": "tic_tac_toe", "stones": {"b2": 1, "a1": 2, "c3": 1}}
    found = (await client.post("/api/v1/setup/moves", json=wish)).json()
    assert (sorted(found["moves"]), found["moves"][1], found["player"]) == (["a1", "b2", "c3"], "a1", 2)
    begun = await client.post("/api/v1/tables", json={"game": "tic_tac_toe", "moves": " ".join(found["moves"]), "seat": 2})
    assert begun.json()["moves"] == found["moves"]


async def test_the_board_of_a_run_is_that_of_its_game(client):
    board = (await client.get("/api/v1/setup?run=golden")).json()
    assert board["game"] == "tic_tac_toe"
    found = await client.post("/api/v1/setup/moves", json={"game": "", "run": "golden", "stones": {"b2": 1}})
    assert found.json()["moves"] == ["b2"]


async def test_a_position_without_moves_is_an_answer_with_the_reason(client):
    wish = {"game": "tic_tac_toe", "stones": {"b2": 1, "a1": 1}}
    found = (await client.post("/api/v1/setup/moves", json=wish)).json()
    assert (found["moves"], found["player"]) == (None, None)
    assert found["reason"].startswith("no sequence of legal moves reaches this position")


async def test_a_finished_position_has_no_player_to_move(client):
    stones = {"a3": 1, "b3": 1, "c3": 1, "a1": 2, "b1": 2}
    found = (await client.post("/api/v1/setup/moves", json={"game": "tic_tac_toe", "stones": stones})).json()
    assert (len(found["moves"]), found["player"]) == (5, None)


OTHELLO = {"d4": 2, "e4": 1, "d5": 1, "e5": 1, "f5": 1}


async def test_play_goes_on_at_a_drawn_position_of_a_game_whose_moves_do_more_than_place_stones(client):
    board = (await client.get("/api/v1/setup?game=othello")).json()
    assert (len(board["cells"]), board["asks_mover"], board["reason"]) == (64, True, "")
    assert board["start"] == {"d4": 2, "e4": 1, "d5": 1, "e5": 2}
    assert (await client.get("/api/v1/setup/board?game=othello")).text.count("<circle") == 0
    found = (await client.post("/api/v1/setup/moves", json={"game": "othello", "stones": OTHELLO, "player": 2})).json()
    assert (found["moves"], found["player"], found["position"]) == (None, 2, {"stones": OTHELLO, "player": 2})

    wish = {"game": "othello", "position": found["position"], "seat": 2, "opponent": "random", "seed": 1}
    begun = (await client.post("/api/v1/tables", json=wish)).json()
    assert sorted(one["move"] for one in begun["legal"]) == ["d6", "f4", "f6"]
    assert (begun["moves"], begun["position"]) == ([], found["position"])
    await client.post(f"/api/v1/tables/{begun['id']}/moves", json={"move": "f6"})
    table = (await client.get(f"/api/v1/tables/{begun['id']}?wait=1")).json()
    assert (table["moves"][0], len(table["moves"]), table["fault"]) == ("f6", 2, "")
    undone = (await client.post(f"/api/v1/tables/{begun['id']}/undo", json={})).json()
    assert (undone["moves"], undone["text"]) == ([], begun["text"])
    assert undone["lines"] == [table["moves"]]

    again = {**wish, "moves": " ".join(table["moves"])}  # as a saved game is loaded
    assert (await client.post("/api/v1/tables", json=again)).json()["text"] == table["text"]


async def test_a_tree_grows_from_a_drawn_position(client):
    wish = {"game": "othello", "position": {"stones": OTHELLO, "player": 2}, "seat": 2, "moves": ""}
    begun = (await client.post("/api/v1/tables", json=wish)).json()
    study = {"game": "othello", "table": begun["id"], "model": "none", "simulations": 8}
    made = (await client.post("/api/v1/studies", json=study)).json()
    async with client.stream("GET", f"/api/v1/studies/{made['id']}/events") as events:
        assert [line async for line in events.aiter_lines() if line.startswith("data")]
    node = (await client.get(f"/api/v1/studies/{made['id']}/node?path=f6")).json()
    assert node["path"] == ["f6"]


@pytest.mark.parametrize(
    ("stones", "player", "reason"),
    [
        ({"d4": 1}, 1, "the four cells in the middle are never empty"),
        ({**OTHELLO, "h1": 1}, 2, "no line of adjacent discs leads from h1 to the middle"),
        (OTHELLO, 3, "player 3 is to move, but othello has players 1 to 2"),
        ({**OTHELLO, "z9": 1}, 2, "has no cell z9"),
    ],
)
async def test_an_impossible_drawing_is_refused_with_the_reason_by_the_set_up_and_by_play(client, stones, player, reason):
    wish = {"game": "othello", "stones": stones, "player": player}
    found = (await client.post("/api/v1/setup/moves", json=wish)).json()
    assert (found["moves"], found["position"], found["player"]) == (None, None, None)
    assert reason in found["reason"]
    begun = await client.post("/api/v1/tables", json={"game": "othello", "position": {"stones": stones, "player": player}})
    assert (begun.status_code, reason in begun.json()["error"]) == (400, True)


@pytest.mark.parametrize("game", ["take_six", "rock_paper_scissors"])
async def test_a_game_that_cannot_be_drawn_says_so_and_has_no_board(client, game):
    board = (await client.get(f"/api/v1/setup?game={game}")).json()
    assert board["cells"] == []
    assert board["reason"].startswith(f"positions of {game} cannot be drawn: the game has no rules that read a drawing")
    picture = await client.get(f"/api/v1/setup/board?game={game}")
    assert (picture.status_code, "cannot be drawn" in picture.json()["error"]) == (400, True)
    refused = await client.post("/api/v1/tables", json={"game": game, "position": {"stones": {}, "player": 1}})
    assert (refused.status_code, "cannot be drawn" in refused.json()["error"]) == (400, True)


async def test_a_drawing_of_a_game_that_is_drawn_by_moves_does_not_take_the_place_of_them(client):
    wish = {"game": "connect_four", "position": {"stones": {"d1": 1}, "player": 2}}
    refused = await client.post("/api/v1/tables", json=wish)
    assert (refused.status_code, "give those of /setup/moves as moves" in refused.json()["error"]) == (400, True)


async def test_a_drawing_with_more_stones_than_any_board_has_cells_is_refused(client):
    stones = {f"c{number}": 1 for number in range(1001)}
    assert (await client.post("/api/v1/setup/moves", json={"game": "othello", "stones": stones})).status_code == 400


@pytest.mark.parametrize(
    ("wish", "status"),
    [({"game": "nothing", "stones": {}}, 400), ({"game": "", "run": "nothing", "stones": {}}, 404), ({"stones": {}}, 400)],
)
async def test_a_game_or_run_that_does_not_exist_is_refused(client, wish, status):
    assert (await client.post("/api/v1/setup/moves", json=wish)).status_code == status
