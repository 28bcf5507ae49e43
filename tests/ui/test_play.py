"""Play in the browser: every game begins, moves by clicks and by notation, undo, hints, and hidden hands stay hidden."""

from __future__ import annotations

import asyncio
import re
import threading

import pytest

import games
from games.positions import new_state
from ui.playing import _view
from ui.searches import Searches
from ui.seats import Seats
from ui.tables import Table, Tables
from zerofleet.errors import Overloaded
from zerofleet.library.hints import Outlook
from zerofleet.library.seated_game import SeatedGame
from zerofleet.testing import built_in_games

NINE = built_in_games()


async def begin(client, **wish):
    answer = await client.post("/api/v1/tables", json={"game": "tic_tac_toe", "seed": 1, **wish})
    assert answer.status_code == 200, answer.text
    return (await client.get(f"/api/v1/tables/{answer.json()['id']}?wait=1")).json()


async def act(client, table, what, **body):
    answer = await client.post(f"/api/v1/tables/{table['id']}/{what}", json=body)
    assert answer.status_code == 200, answer.text
    return (await client.get(f"/api/v1/tables/{table['id']}?wait=1")).json()


@pytest.mark.slow
@pytest.mark.parametrize("game", NINE)
async def test_every_game_begins_with_a_picture_and_a_list_of_moves(client, game):
    table = await begin(client, game=game)
    board = await client.get(f"/api/v1/tables/{table['id']}/board")
    assert table["legal"]
    assert table["is_turn"]
    assert board.text.startswith("<svg")
    assert all(move["path"] and set(move["path"]) <= {one["id"] for one in table["cells"]} for move in table["legal"])


def test_there_are_nine_games():
    assert len(NINE) == 9


async def test_a_game_is_played_to_its_end(client):
    table = await begin(client)
    while not table["is_over"]:
        table = await act(client, table, "moves", move=table["legal"][0]["move"])
    assert len(table["scores"]) == 2
    assert not table["legal"]
    refused = await client.post(f"/api/v1/tables/{table['id']}/moves", json={"move": "a1"})
    assert (refused.status_code, refused.json()["error"]) == (400, "'a1': the game is over")


async def test_undo_takes_back_the_move_and_the_reply(client):
    table = await begin(client)
    after = await act(client, table, "moves", move="b2")
    assert len(after["moves"]) == 2
    assert (await act(client, after, "undo"))["legal"] == table["legal"]
    refused = await client.post(f"/api/v1/tables/{table['id']}/undo", json={})
    assert refused.status_code == 400


async def test_a_person_on_the_second_seat_waits_for_the_first_move(client):
    table = await begin(client, seat=2)
    assert (len(table["moves"]), table["is_turn"], table["seat"]) == (1, True, 2)


async def test_a_hint_without_a_model_lists_moves_that_win(client):
    table = await begin(client, opponent="tic_tac_toe_rules")
    hint = (await client.get(f"/api/v1/tables/{table['id']}/hint")).json()
    assert hint["value"] is None
    assert hint["source"] == "search of the next 6 plies"
    assert sorted(move for moves in hint["outlook"].values() for move in moves) == sorted(
        move["move"] for move in table["legal"]
    )


async def test_a_second_hint_waits_for_the_first(client, monkeypatch):
    table, began, may_end = await begin(client), threading.Event(), threading.Event()

    def slow(game, state):
        began.set()
        may_end.wait()
        return Outlook(6, {})

    monkeypatch.setattr("ui.tables.outlook_of", slow)
    first = asyncio.create_task(client.get(f"/api/v1/tables/{table['id']}/hint"))
    await asyncio.to_thread(began.wait)
    second = await client.get(f"/api/v1/tables/{table['id']}/hint")
    may_end.set()
    assert (second.status_code, (await first).status_code) == (400, 200)
    assert "is being searched" in second.json()["error"]


async def test_a_view_is_of_one_position_though_the_reply_comes_meanwhile():
    table = await Tables(1).open(games.make("tic_tac_toe"), Seats("random", 0, None), None)
    await table.play("b2")
    before = table.snapshot()
    await table.wait()
    view = _view(before)
    assert (view.moves, view.legal, view.is_turn, view.is_thinking) == (("b2",), (), False, True)
    assert _view(table.snapshot()).is_turn


async def test_a_search_keeps_its_place_when_nobody_waits_for_it_any_more():
    searches, began, may_end = Searches(1), threading.Event(), threading.Event()

    def slow():
        began.set()
        may_end.wait()

    left = asyncio.create_task(searches.run(slow))
    await asyncio.to_thread(began.wait)
    left.cancel()
    waiting = asyncio.create_task(searches.run(lambda: "found"))
    await asyncio.gather(left, return_exceptions=True)
    assert not waiting.done()
    may_end.set()
    assert await waiting == "found"


async def test_a_search_is_refused_when_no_place_becomes_free():
    searches, may_end = Searches(1, patience_s=0.01), threading.Event()
    endless = asyncio.create_task(searches.run(may_end.wait))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="1 searches are in progress"):
        await searches.run(lambda: "found")
    may_end.set()
    await endless
    assert await searches.run(lambda: "found") == "found"


async def test_an_agent_with_a_model_needs_a_run_of_these_pages(client, runs, monkeypatch):
    monkeypatch.chdir(runs.parent)  # where a command would look below runs/
    answer = await client.post("/api/v1/tables", json={"game": "tic_tac_toe", "opponent": "mcts:5,model=champion"})
    assert answer.status_code == 400
    assert "choose the run that it belongs to" in answer.text


async def test_a_resignation_ends_the_game(client):
    table = await act(client, await begin(client), "resign")
    assert (table["is_over"], table["resigned"], table["scores"]) == (True, True, None)


async def test_the_least_recently_used_game_makes_room(client):
    first, second, third = [await begin(client) for _ in range(3)]  # the fixture allows two
    assert (await client.get(f"/api/v1/tables/{first['id']}")).status_code == 404
    assert (await client.get(f"/api/v1/tables/{third['id']}")).status_code == 200
    assert (await client.get(f"/api/v1/tables/{second['id']}")).status_code == 200


async def test_a_wait_for_the_reply_in_a_game_that_made_room_ends_with_the_reason(client, monkeypatch):
    waits, wait = asyncio.Event(), Table.wait

    async def think(opponent, moves, **about):
        await asyncio.Event().wait()

    async def noted(table):
        waits.set()
        await wait(table)

    monkeypatch.setattr("ui.tables.AgentOpponent.choose", think)
    monkeypatch.setattr(Table, "wait", noted)
    begun = (await client.post("/api/v1/tables", json={"game": "tic_tac_toe", "seat": 2})).json()
    waiting = asyncio.create_task(client.get(f"/api/v1/tables/{begun['id']}?wait=1"))
    await waits.wait()
    for _ in range(2):  # the fixture allows two
        await client.post("/api/v1/tables", json={"game": "tic_tac_toe"})
    answer = await waiting
    assert (answer.status_code, "made room" in answer.json()["error"]) == (404, True)


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        ({"game": "nothing"}, "no game is called"),
        ({"opponent": "nobody"}, "nobody"),
        ({"opponent": "champion"}, "choose the run"),
        ({"opponent": f"uct:{'9' * 5000}"}, "at most 200 characters"),
        ({"seat": 3}, "seats 1 to 2"),
        ({"seat": 0}, "greater than or equal to 1"),
        ({"other": 1}, "Extra inputs"),
    ],
)
async def test_a_bad_wish_is_refused_with_its_reason(client, wish, reason):
    answer = await client.post("/api/v1/tables", json={"game": "tic_tac_toe", **wish})
    assert answer.status_code == 400
    assert reason in answer.json()["error"]


@pytest.mark.slow
async def test_no_other_hand_occurs_in_any_payload_of_take_six(client):
    seat = 1
    table = await begin(client, game="take_six", seat=seat + 1, seed=7)
    game = games.make("take_six")
    state = new_state(game, 7)
    other = next(line for line in game.draw_for(state, 0).splitlines() if line.startswith("player 1"))
    hidden = set(re.findall(r"\d+", other.split("|")[1]))
    assert len(hidden) == 10
    for _ in range(2):
        board = (await client.get(f"/api/v1/tables/{table['id']}/board")).text
        shown = set(re.findall(r">(\d+)</text>", board))
        open_rows = " ".join(line for line in table["text"].splitlines() if line.startswith("row"))
        open_cards = set(re.findall(r"\d+", open_rows)) | set(re.findall(r"\d+", " ".join(table["moves"])))
        assert not (shown & hidden) - open_cards
        assert not (set(re.findall(r"\d+", table["text"].split("player 1")[1].splitlines()[0])) & hidden) - open_cards
        assert "seed" not in table
        table = await act(client, table, "moves", move=table["legal"][0]["move"])


def test_a_secret_choice_of_the_round_is_not_among_the_known_moves():
    played = SeatedGame(games.make("rock_paper_scissors"), seat=1, seed=0)
    played.moves.append(0)  # the other player has chosen, in secret
    assert played.seen_moves() == []
    assert "rock" not in played.text()
    played.play("paper")
    assert played.seen_moves() == ["rock", "paper"]
