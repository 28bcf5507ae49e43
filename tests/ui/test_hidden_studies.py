"""Studies of games with hidden information: the figures of the search that plays, and no hand but the seat's own."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import games
from games.kit.cells import Cell
from games.positions import replay
from games.take_six import cards, table
from games.take_six.rules import deck_of
from ui.app import create_app
from ui.catalogue import Catalogue
from ui.model_servers import ModelServers
from ui.studies import NO_MODEL, Studies, Wish
from zerofleet.contracts.records import encode_record
from zerofleet.contracts.records.samples import random_game
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.library.seated_game import SeatedGame
from zerofleet.search import SearchBlock, SearchSettings
from zerofleet.search.block import LAST_SEED
from zerofleet.search.watched import WatchedSearch
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.runs import RunDirectory

GAME = games.make("take_six")
SEED = 7
DRAWN = 99  # seed of a search
UID = "1234" + "ab" * 14


@pytest.fixture(scope="session")
def hidden_runs(tmp_path_factory):
    """Return a folder with a run of Take 6! that stored one game."""
    folder = tmp_path_factory.mktemp("hidden-runs")
    record = encode_record(random_game(GAME, SEED), worker_id="worker-0", uid=UID, finished_at_ms=0)
    with (
        RunDirectory.create_or_open(folder / "cards", "take_six", {}, preset="tiny", seed=1) as run,
        GameLog.open(run.paths.replay, writer=True) as log,
    ):
        log.append([(UID, record)])
    return folder


@pytest.fixture
async def hidden_client(hidden_runs, connected):
    app = create_app(Catalogue(hidden_runs, None), max_tables=2)
    async with app.router.lifespan_context(app), connected(app) as made:
        yield made


async def begin(client, **wish):
    answer = await client.post("/api/v1/studies", json={"simulations": 200, **wish})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def followed(client, study):
    """Return the text of the stream of a study until its end, and its last value."""
    text = (await client.get(f"/api/v1/studies/{study['id']}/events")).text
    last = [line for line in text.splitlines() if line.startswith("data: ")][-1]
    return text, json.loads(last.removeprefix("data: "))


async def texts(client, study):
    """Return every text that a browser can receive of a study, and its root."""
    stream, last = await followed(client, study)
    address = f"/api/v1/studies/{study['id']}"
    node, board, whole = [(await client.get(address + part)).text for part in ("/node", "/board", "")]
    return [json.dumps(study), stream, node, board, whole], last, json.loads(node)


async def open_table(client, **wish):
    answer = await client.post("/api/v1/tables", json={"game": "take_six", "opponent": "random", "seed": SEED, **wish})
    view = (await client.get(f"/api/v1/tables/{answer.json()['id']}?wait=1")).json()
    assert view["is_turn"], view
    return view


def hands(state):
    """Return the printed numbers of each hand."""
    deck = deck_of(GAME)
    return [
        {card + GAME.first_card for card in range(GAME.cards) if cards.has(state, table.hand(deck, seat), card)}
        for seat in range(GAME.players)
    ]


def cards_in(text):
    """Return the card numbers that a text of a browser shows: in pictures, drawings, moves, cells; no counts, no fractions."""
    drawn = re.findall(r'font-size="15"[^>]*>(\d+)<', text)  # numbers on cards of a picture
    values = []

    def collect(value):
        if isinstance(value, dict):
            for part in value.values():
                collect(part)
        elif isinstance(value, list):
            for part in value:
                collect(part)
        elif isinstance(value, str):
            values.append(value)

    for line in text.splitlines():
        if (line := line.removeprefix("data: ")).startswith("{"):
            collect(json.loads(line))
    shown = " ".join(
        re.sub(r"(takes|row|player|round|of) \d+|\d+ points?|point", " ", value) for value in values if len(value) != 22
    )
    return {int(number) for number in [*drawn, *re.findall(r"(?<![\w.@])\d+(?![\w.])", shown)]}


async def test_the_finder_of_cards_finds_them_in_moves_drawings_and_pictures():
    state = replay(GAME, [], SEED)
    every = set().union(*hands(state))
    assert every <= cards_in(GAME.draw_svg(state))
    assert every <= cards_in(json.dumps({"text": GAME.draw(state)}))
    assert {33} <= cards_in(
        json.dumps({"children": [{"move": "33@2"}, {"visits": 44}], "cells": [Cell("9", 1, 2, 3)._asdict()]})
    )


@pytest.mark.slow
@pytest.mark.parametrize("information", ["determinise", "predict"])
@pytest.mark.parametrize("plies", [0, 3, 9])
async def test_no_text_of_a_study_holds_a_card_of_another_hand(hidden_client, information, plies):
    wish = {"run": "cards", "uid": UID, "ply": plies, "information": information}
    sent, last, _ = await texts(hidden_client, await begin(hidden_client, **wish))
    assert last["fault"] == ""
    moves = random_game(GAME, SEED).moves.tolist()
    state = replay(GAME, moves[:plies], SEED)
    seat, held = last["player"] - 1, hands(state)
    others = set().union(*(hand for other, hand in enumerate(held) if other != seat))
    found = set().union(*map(cards_in, sent))
    assert seat == plies % GAME.players
    assert len(others) >= 10
    assert held[seat] <= found
    assert found.isdisjoint(others)


@pytest.mark.slow
async def test_a_study_of_a_table_shows_the_seat_of_the_person_and_the_numbers_of_the_search_that_plays(hidden_client):
    view = await open_table(hidden_client, seat=2)
    sent, last, node = await texts(hidden_client, await begin(hidden_client, table=view["id"]))
    assert (last["player"], last["moves"], last["visits"], last["is_done"]) == (2, [], 200, True)
    moves = [int(GAME.parse_action(replay(GAME, [], SEED), move)) for move in view["moves"]]
    assert moves == []  # that of the first seat is secret
    assert set().union(*map(cards_in, sent)).isdisjoint(hands(replay(GAME, [], SEED))[0])
    assert (node["worlds"], node["player"], node["legal"], node["path"]) == (200, 2, len(view["legal"]), [])
    assert sum(child["visits"] for child in node["children"]) <= 200
    assert node["cells"] == view["cells"]
    assert node["text"] == view["text"]


@pytest.mark.slow
@pytest.mark.parametrize("information", ["determinise", "predict"])
async def test_the_numbers_of_a_study_are_those_of_the_search_that_plays(hidden_client, monkeypatch, information):
    monkeypatch.setattr("ui.studies.secrets.randbelow", lambda bound: DRAWN)
    moves = random_game(GAME, SEED).moves.tolist()[:5]
    wish = {"run": "cards", "uid": UID, "ply": 5, "information": information}
    _, last, node = await texts(hidden_client, await begin(hidden_client, **wish))
    settings = SearchSettings.for_analysis(GAME.spec(), 200).model_copy(update={"information": information})
    evaluator = UniformEvaluator(GAME.players, GAME.spec().num_actions)
    state = replay(GAME, moves, SEED)
    searched = WatchedSearch(GAME, evaluator, (), settings=settings, version=1, seed=DRAWN, position=state)
    known = await searched.run()  # with the true hands, on which no figure depends
    names = [GAME.action_name(state, int(action)) for action in known.actions]
    assert last["value"] == pytest.approx(float(known.value[known.to_move]))
    assert last["line"] == [GAME.action_name(state, known.best_action)]
    found = {child["move"]: child for child in node["children"]}
    for place in known.ranking()[: len(found)]:
        child = found[names[place]]
        assert child["visits"] == known.visits[place]
        assert child["prior"] == pytest.approx(float(known.priors[place]))
        assert child["value"] == (None if np.isnan(known.values[place]) else pytest.approx(float(known.values[place])))
        share = known.visits[place] / 200
        assert child["share"] == (pytest.approx(share) if information == "determinise" else None)
        assert sum(outcome["visits"] for outcome in child["outcomes"]) <= child["visits"]


@pytest.mark.slow
async def test_the_search_of_a_study_receives_neither_the_true_deal_nor_its_seed():
    played = SeatedGame(GAME, seat=1, seed=SEED)
    played.moves = random_game(GAME, SEED).moves.tolist()[:4]
    studies = Studies(ModelServers())
    try:
        study = await studies.open(Wish(played, None, NO_MODEL, 30))
        async for _ in study.follow():
            pass
        searched, true = study.search._block, played.state()
        assert study.fault == ""
        assert hands(searched.state(0))[1] == hands(true)[1]
        for other in (0, 2):
            assert hands(searched.state(0))[other] != hands(true)[other]
        assert study.search._seed != SEED
        np.testing.assert_array_equal(study.state_after(), true)  # for pictures in the view of the seat
    finally:
        await studies.aclose()


async def test_the_seed_of_a_deal_is_one_of_too_many_to_try(hidden_client, monkeypatch):
    bounds = []
    monkeypatch.setattr("ui.tables.secrets.randbelow", lambda bound: bounds.append(bound) or SEED)
    await open_table(hidden_client, seed=None)
    assert bounds == [LAST_SEED + 1]


@pytest.mark.slow
async def test_what_follows_a_move_is_refused_with_the_reason_that_the_page_shows(hidden_client):
    study = await begin(hidden_client, run="cards", uid=UID)
    await followed(hidden_client, study)
    address = f"/api/v1/studies/{study['id']}"
    move = (await hidden_client.get(f"{address}/node")).json()["children"][0]["move"]
    for part in ("node", "board"):
        answer = await hidden_client.get(f"{address}/{part}", params={"path": move})
        assert (answer.status_code, study["root_alone"] in answer.json()["error"]) == (400, True)
    assert "invent" in study["root_alone"]


@pytest.mark.slow
async def test_a_stopped_study_keeps_the_worlds_that_it_sampled(hidden_client):
    study = await begin(hidden_client, run="cards", uid=UID, simulations=20_000)
    stopped = await hidden_client.post(f"/api/v1/studies/{study['id']}/stop", json={})
    assert stopped.status_code == 200
    _, last, node = await texts(hidden_client, study)
    assert (last["is_done"], last["fault"]) == (True, "")
    assert last["visits"] == node["worlds"] == node["visits"] - 1 < 20_000


@pytest.mark.slow
async def test_a_study_of_rock_paper_scissors_shows_the_choices_that_were_answered(hidden_client):
    wish = {"game": "rock_paper_scissors", "parameters": {"turns": "3"}, "seat": 2}
    view = await open_table(hidden_client, **wish)
    _, last, node = await texts(hidden_client, await begin(hidden_client, table=view["id"]))
    assert (last["moves"], last["parameters"]) == ([], {"turns": "3"})  # the choice of player 1 is secret
    for child in node["children"]:
        assert {outcome["name"] for outcome in child["outcomes"]} == {"against rock", "against paper", "against scissors"}
        assert child["spread"] >= 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        ({"game": "take_six"}, "hidden information"),
        ({"game": "take_six", "moves": "1@1"}, "hidden information"),
        ({"uid": UID}, "give the run"),
        ({"run": "cards", "uid": UID, "ply": 40}, "ply=40"),
        ({"run": "cards", "uid": UID, "moves": "1@1"}, "one source"),
        ({"run": "cards", "uid": "ffff"}, "ffff"),
        ({"table": "nothing"}, "not in progress"),
        ({"run": "cards", "uid": UID, "information": "open"}, "information"),
    ],
)
async def test_a_position_that_nobody_sees_is_refused_with_its_reason(hidden_client, wish, reason):
    answer = await hidden_client.post("/api/v1/studies", json=wish)
    assert answer.status_code in (400, 404)
    assert reason in answer.json()["error"]


@pytest.mark.slow
async def test_a_table_is_studied_at_the_turn_of_the_person_alone_and_with_a_run_of_its_game(hidden_client):
    view = await open_table(hidden_client, game="rock_paper_scissors")
    other = await hidden_client.post("/api/v1/studies", json={"table": view["id"], "run": "cards"})
    assert (other.status_code, "another game" in other.json()["error"]) == (400, True)
    await hidden_client.post(f"/api/v1/tables/{view['id']}/resign", json={})
    over = await hidden_client.post("/api/v1/studies", json={"table": view["id"]})
    assert (over.status_code, "the game is over" in over.json()["error"]) == (400, True)


@pytest.mark.parametrize("rows", [4, 8])
def test_the_tree_of_the_longest_study_stays_within_its_memory(rows):
    game = games.make("take_six", players=5, rows=rows)
    for information in ("determinise", "predict"):
        settings = SearchSettings.for_analysis(game.spec(), 20_000).model_copy(update={"information": information})
        assert SearchBlock(game, settings, slots=1).nbytes < 100 << 20
