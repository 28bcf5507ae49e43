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


async def test_a_game_whose_moves_do_more_than_place_stones_is_set_up_by_moves(client):
    board = (await client.get("/api/v1/setup?game=othello")).json()
    assert board["cells"] == []
    assert "set up by moves only" in board["reason"]


async def test_a_game_with_a_deal_has_no_board_to_draw_on(client):
    picture = await client.get("/api/v1/setup/board?game=take_six")
    assert (picture.status_code, "set up by moves only" in picture.json()["error"]) == (400, True)


@pytest.mark.parametrize(
    ("wish", "status"),
    [({"game": "nothing", "stones": {}}, 400), ({"game": "", "run": "nothing", "stones": {}}, 404), ({"stones": {}}, 400)],
)
async def test_a_game_or_run_that_does_not_exist_is_refused(client, wish, status):
    assert (await client.post("/api/v1/setup/moves", json=wish)).status_code == status
