"""Watching self-play: the newest games first, then newer ones alone, and no hand but that of the chosen seat."""

from __future__ import annotations

import re
import shutil

import httpx
import pytest

import games
from games.core import play
from games.pictures import seen_picture
from games.positions import new_state
from ui.app import create_app
from ui.catalogue import Catalogue
from zerofleet.contracts.records import encode_record
from zerofleet.contracts.records.samples import random_game
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.runs import RunDirectory

UID = "ab" * 16


async def test_the_newest_games_come_first_and_then_only_newer_ones(runs, tmp_path, connected, append_game):
    shutil.copytree(runs / "golden", tmp_path / "golden")
    app = create_app(Catalogue(tmp_path, None))
    async with app.router.lifespan_context(app), connected(app) as client:
        first = (await client.get("/api/v1/runs/golden/watch?limit=4")).json()
        assert [game["index"] for game in first["games"]] == [8, 7, 6, 5]
        assert (first["total"], first["is_hidden"], first["players"]) == (9, False, 2)
        assert first["games"][0]["versions"] == [9, 9]
        assert (await client.get("/api/v1/runs/golden/watch?after=8")).json()["games"] == []
        append_game(tmp_path / "golden", 9)
        newer = (await client.get("/api/v1/runs/golden/watch?limit=4&after=8")).json()
        assert [game["index"] for game in newer["games"]] == [9]


async def test_a_run_without_a_game_log_yet_has_no_games_until_the_trainer_stores_one(tmp_path, connected, append_game):
    with RunDirectory.create_or_open(tmp_path / "new", "tic_tac_toe", {}, preset="tiny", seed=1) as run:
        run.paths.replay.rmdir()
    app = create_app(Catalogue(tmp_path, None))
    async with app.router.lifespan_context(app), connected(app) as client:
        before = await client.get("/api/v1/runs/new/watch")
        assert (before.status_code, before.json()["total"], before.json()["games"]) == (200, 0, [])
        append_game(tmp_path / "new", 0)
        assert [game["index"] for game in (await client.get("/api/v1/runs/new/watch")).json()["games"]] == [0]


async def test_games_that_cannot_be_read_are_left_out_and_named_where_there_are_no_others(tmp_path, connected, append_game):
    with (
        RunDirectory.create_or_open(tmp_path / "old", "tic_tac_toe", {}, preset="tiny", seed=1) as run,
        GameLog.open(run.paths.replay, writer=True) as log,
    ):
        log.append([(UID, b"a record of another release")])
    app = create_app(Catalogue(tmp_path, None))
    async with app.router.lifespan_context(app), connected(app) as client:
        assert (await client.get("/api/v1/runs/old/watch")).status_code == 422
        append_game(tmp_path / "old", 1)
        assert [game["index"] for game in (await client.get("/api/v1/runs/old/watch")).json()["games"]] == [1]
        with GameLog.open(tmp_path / "old" / "replay", writer=True) as log:
            log.append([("cd" * 16, b"another")])
        newer = await client.get("/api/v1/runs/old/watch?after=1")
        assert (newer.status_code, newer.json()["games"]) == (200, [])


async def test_a_watched_game_has_the_facts_of_the_list_of_games_and_no_moves(client):
    watched = (await client.get("/api/v1/runs/golden/watch?limit=1")).json()["games"][0]
    listed = (await client.get("/api/v1/runs/golden/games?limit=1")).json()["games"][0]
    assert watched == {name: value for name, value in listed.items() if name != "moves"}


async def test_a_board_is_the_position_of_the_replay(client, uid_of):
    watched = await client.get(f"/api/v1/runs/golden/watch/{uid_of}/3")
    replayed = await client.get(f"/api/v1/runs/golden/games/{uid_of}/boards/3")
    assert watched.headers["content-type"] == "image/svg+xml"
    assert watched.text == replayed.text
    beyond = await client.get(f"/api/v1/runs/golden/watch/{uid_of}/99")
    assert (beyond.status_code, "positions 0 to" in beyond.json()["error"]) == (400, True)
    assert (await client.get(f"/api/v1/runs/golden/watch/{uid_of}/3?seat=3")).status_code == 400
    assert (await client.get("/api/v1/runs/golden/watch?limit=17")).status_code == 400


async def answers_of_take_six(client: httpx.AsyncClient, seat: int) -> list[str]:
    """Return the list and every picture that the page receives for a seat."""
    listed = await client.get("/api/v1/runs/cards/watch")
    (game,) = listed.json()["games"]
    boards = [await client.get(f"/api/v1/runs/cards/watch/{game['uid']}/{ply}?seat={seat}") for ply in range(game["plies"] + 1)]
    return [listed.text, *(board.text for board in boards)]


@pytest.mark.slow
async def test_no_hand_but_that_of_the_chosen_seat_occurs_in_any_answer(tmp_path, connected):
    game = games.make("take_six")
    with RunDirectory.create_or_open(tmp_path / "cards", "take_six", {}, preset="tiny", seed=1) as run:
        played = random_game(game, 5)
        with GameLog.open(run.paths.replay, writer=True) as log:
            log.append([(UID, encode_record(played, worker_id="w", uid=UID, finished_at_ms=0))])
    app = create_app(Catalogue(tmp_path, None))
    async with app.router.lifespan_context(app), connected(app) as client:
        listed, *boards = await answers_of_take_six(client, seat=2)
    assert "moves" not in listed
    state = new_state(game, 5)
    hands = [cards_of(game.draw_for(state, seat), seat) for seat in range(2)]
    assert all(len(hand) == 10 for hand in hands)
    assert hands[1] <= numbers(boards[0])
    assert not hands[0] & numbers(boards[0])
    for board, action in zip(boards, played.moves.tolist(), strict=False):
        assert board == seen_picture(game, state, 1)
        hidden = cards_of(game.draw_for(state, 0), 0)  # what the other player holds
        assert not hidden & numbers(board)
        play(game, state, action)


def cards_of(drawing: str, seat: int) -> set[str]:
    line = next(line for line in drawing.splitlines() if line.startswith(f"player {seat + 1}"))
    return set(re.findall(r"\d+", line.split("|")[1]))


def numbers(picture: str) -> set[str]:
    return set(re.findall(r">(\d+)</text>", picture))
