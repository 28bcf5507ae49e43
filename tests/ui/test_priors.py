"""Priors of a model at positions of stored games: whose view they have, and what is refused."""

from __future__ import annotations

import json

import pytest

import games
from games.notation import legal_names
from games.positions import replay
from ui.app import create_app
from ui.catalogue import Catalogue
from ui.studies import MOST_STUDIES
from ui.studying import stored_position
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.contracts.records.samples import random_game
from zerofleet.errors import InvalidRequest, Unavailable
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.runs import RunDirectory

CARDS = games.make("take_six")
SEED = 7
UID = "1234" + "ab" * 14


async def asked(client, run, uid, ply, **wish):
    return await client.post(f"/api/v1/runs/{run}/games/{uid}/priors/{ply}", json={"model": "none", **wish})


@pytest.mark.slow
async def test_priors_name_their_source_the_player_and_every_legal_move(client, uid_of):
    stored = (await client.get(f"/api/v1/runs/golden/games/{uid_of}")).json()
    played = [move["move"] for move in stored["moves"]][:3]
    answer = await asked(client, "golden", uid_of, 3)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["source"].split(":")[0], found["player"]) == ("no model", 2)
    moves = [one["move"] for one in found["moves"]]
    assert sorted([*moves, *played]) == [column + row for column in "abc" for row in "123"]
    assert [one["prior"] for one in found["moves"]] == pytest.approx([1 / 6] * 6)


async def test_priors_may_come_from_the_runs_own_server_and_a_tree_does_not(client, uid_of, monkeypatch):
    requests = []

    class Server:
        def __init__(self, paths, game):
            pass

        def serving(self, versions, *, once):
            requests.append(once)
            raise Unavailable("there is no server in this test")

        async def aclose(self):
            pass

    monkeypatch.setattr("ui.model_servers.KeptServer", Server)
    await asked(client, "golden", uid_of, 3, model="model:1")
    tree = {"game": "tic_tac_toe", "run": "golden", "model": "model:1", "simulations": 5}
    await client.post("/api/v1/studies", json=tree)
    assert requests == [True, False]


@pytest.mark.slow
async def test_priors_take_no_place_of_a_tree_that_a_person_has_open(client, uid_of):
    tree = (await client.post("/api/v1/studies", json={"game": "tic_tac_toe", "simulations": 5})).json()
    for ply in range(MOST_STUDIES + 1):
        assert (await asked(client, "golden", uid_of, ply)).status_code == 200
    assert (await client.get(f"/api/v1/studies/{tree['id']}")).status_code == 200


@pytest.mark.slow
async def test_priors_of_a_card_game_hold_the_cards_of_the_player_to_move_alone(tmp_path, connected):
    record = encode_record(random_game(CARDS, SEED), worker_id="worker-0", uid=UID, finished_at_ms=0)
    with (
        RunDirectory.create_or_open(tmp_path / "cards", "take_six", {}, preset="tiny", seed=1) as run,
        GameLog.open(run.paths.replay, writer=True) as log,
    ):
        log.append([(UID, record)])
    app = create_app(Catalogue(tmp_path, None))
    async with app.router.lifespan_context(app), connected(app) as client:
        answer = await asked(client, "cards", UID, 3)
    assert answer.status_code == 200, answer.text
    found = json.loads(answer.text)
    own = legal_names(CARDS, replay(CARDS, random_game(CARDS, SEED).moves.tolist()[:3], SEED))
    assert set(found) == {"source", "player", "moves"}
    assert found["player"] == 3 % CARDS.players + 1
    assert {one["move"] for one in found["moves"]} == set(own)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ply", "wish", "status", "reason"),
    [
        ("99", {}, 400, "there is no position '99'"),
        ("last", {}, 400, "no position with a move"),
        ("-1", {}, 400, "there is no position"),
        ("0", {"model": "best"}, 400, "choose a run with champion or model:N"),
        ("0", {"model": "model:77"}, 404, "77"),
        ("0", {"path": "a1"}, 400, "path: Extra inputs"),
    ],
)
async def test_priors_that_nobody_can_compute_are_refused_with_the_reason(client, uid_of, ply, wish, status, reason):
    plies = (await client.get(f"/api/v1/runs/golden/games/{uid_of}")).json()["plies"]
    answer = await asked(client, "golden", uid_of, plies if ply == "last" else ply, **wish)
    assert answer.status_code == status, answer.text
    assert reason in answer.json()["error"]


async def test_priors_of_an_unknown_game_are_refused(client):
    assert "ffff" in (await asked(client, "golden", "ffff", 0)).json()["error"]


@pytest.mark.slow
def test_a_seed_that_no_search_takes_is_refused_where_it_deals_cards():
    huge = 1 << 63
    for game, is_refused in ((games.make("tic_tac_toe"), False), (CARDS, True)):
        record = encode_record(random_game(game, huge), worker_id="worker-0", uid=UID, finished_at_ms=0)
        stored = validate(decode_record(record))
        if is_refused:
            with pytest.raises(InvalidRequest, match="seed"):
                stored_position(stored, 1)
        else:
            assert stored_position(stored, 1).seed == 0
