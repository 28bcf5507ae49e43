"""The position where play would begin, shown before a game begins."""

from __future__ import annotations

import json
import re
from urllib.parse import urlencode

from games import make
from games.pictures import seen_picture
from games.positions import new_state

BOARD = "/api/v1/start/board"


def spoken(picture: str) -> str:
    return " ".join(re.findall(r"<text[^>]*>([^<]*)<", picture))


async def test_the_start_is_drawn_as_the_game_draws_it(client):
    game = make("othello")
    assert (await client.get(f"{BOARD}?game=othello")).text == seen_picture(game, new_state(game), 0)
    seen = (await client.get("/api/v1/start?game=othello")).json()
    assert seen == {"game": "othello", "moves": [], "has_picture": True}


async def test_a_run_has_the_board_of_its_game(client):
    assert (await client.get("/api/v1/start?run=golden&game=othello")).json()["game"] == "tic_tac_toe"
    assert (await client.get(f"{BOARD}?run=golden")).text == (await client.get(f"{BOARD}?game=tic_tac_toe")).text
    assert (await client.get("/api/v1/start?run=nothing")).status_code == 404


async def test_moves_lead_to_the_position_of_a_table_that_begins_with_them(client):
    wish = {"game": "tic_tac_toe", "moves": "b2 a1", "seat": 1}
    table = (await client.post("/api/v1/tables", json=wish)).json()
    assert (await client.get("/api/v1/start?game=tic_tac_toe&moves=b2,a1")).json()["moves"] == ["b2", "a1"]
    board = (await client.get(f"{BOARD}?game=tic_tac_toe&moves=b2,a1")).text
    assert board == (await client.get(f"/api/v1/tables/{table['id']}/board")).text
    refused = await client.get("/api/v1/start?game=tic_tac_toe&moves=b2,b2")
    assert (refused.status_code, refused.json()["error"][:7]) == (400, "move 2:")
    assert (await client.get(f"/api/v1/start?game=tic_tac_toe&moves={'b2,' * 20_000}")).status_code == 400


async def test_a_drawn_position_takes_the_place_of_the_start(client):
    drawn = {"stones": {"d4": 2, "e4": 1, "d5": 1, "e5": 1, "f5": 1}, "player": 2}
    table = (await client.post("/api/v1/tables", json={"game": "othello", "position": drawn, "seat": 2})).json()
    query = urlencode({"game": "othello", "position": json.dumps(drawn)})
    assert (await client.get(f"{BOARD}?{query}")).text == (await client.get(f"/api/v1/tables/{table['id']}/board")).text
    assert (await client.get(f"{BOARD}?game=othello&position=[]")).status_code == 400


async def test_the_table_of_take_six_before_the_deal_has_no_card(client):
    board = (await client.get(f"{BOARD}?game=take_six")).text
    assert board.count("<rect") > 40  # places of rows and backs of hands
    assert set(re.findall(r"\d+", spoken(board))) == {*map(str, range(5))}  # players, rows, and points: 0
    assert "before the deal" in spoken(board)
    assert (await client.get("/api/v1/start?game=take_six&moves=46@2")).status_code == 400


async def test_a_game_that_deals_without_a_picture_of_its_table_says_so(client, monkeypatch):
    monkeypatch.delattr(type(make("take_six")), "draw_svg_undealt")
    assert not (await client.get("/api/v1/start?game=take_six")).json()["has_picture"]
    refused = await client.get(f"{BOARD}?game=take_six")
    assert (refused.status_code, "draw_svg_undealt" in refused.json()["error"]) == (400, True)
