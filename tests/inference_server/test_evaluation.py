"""Opinions on positions over the wire."""

from __future__ import annotations

import asyncio

import fake_network
import numpy as np
import pytest
from fake_network import MODEL, until

from zerofleet.errors import CorruptModel, InvalidRequest, ModelNotFound, Overloaded, Unavailable
from zerofleet.rpc.evaluation_client import EvaluationClient


@pytest.fixture
async def client(wire):
    async with EvaluationClient(wire.server.address) as opened:
        yield opened


async def test_without_simulations_the_network_gives_priors_and_a_value_in_seat_order(client):
    opinion = await client.evaluate(MODEL, ["b2"])
    assert (opinion.model_version, opinion.to_move, opinion.is_over) == (1, 1, False)
    assert sorted(move.move for move in opinion.moves) == ["a1", "a2", "a3", "b1", "b3", "c1", "c2", "c3"]
    assert {round(move.prior, 3) for move in opinion.moves} == {0.125}
    assert {(move.visits, move.value) for move in opinion.moves} == {(0, None)}
    before = await client.evaluate(MODEL, [])
    assert before.to_move == 0
    assert opinion.value[1] > 0 > opinion.value[0]  # the fake network always likes the mover
    assert before.value[0] > 0 > before.value[1]


async def test_a_search_finds_the_win_in_one(client):
    opinion = await client.evaluate(MODEL, ["a3", "a1", "b3", "b1"], simulations=200, seed=3)
    best = opinion.moves[0]
    assert best.move == "c3"
    assert best.value == pytest.approx(1.0)
    assert opinion.principal_variation[0] == "c3"
    visits = [move.visits for move in opinion.moves]
    assert visits == sorted(visits, reverse=True)
    assert opinion.value[0] > 0.5


async def test_the_same_question_has_the_same_answer(client):
    first = await client.evaluate(MODEL, ["b2"], simulations=60, seed=9)
    assert first == await client.evaluate(MODEL, ["b2"], simulations=60, seed=9)


async def test_the_analysis_of_a_finished_game_has_its_scores_and_no_moves(client):
    opinion = await client.evaluate(MODEL, ["a3", "a1", "b3", "b1", "c3"], simulations=50)
    assert (opinion.is_over, opinion.value, opinion.moves) == (True, (1.0, -1.0), ())


@pytest.mark.parametrize(
    ("name", "moves", "settings", "error", "says"),
    [
        ("chess", [], {}, InvalidRequest, "no game is called 'chess'"),
        (MODEL, ["d9"], {}, InvalidRequest, "move 1"),
        (MODEL, ["a1", "a1"], {}, InvalidRequest, "move 2"),
        (MODEL, ["a3", "a1", "b3", "b1", "c3", "c1"], {}, InvalidRequest, "move 6"),
        (MODEL, [], {"parameters": {"size": "many"}}, InvalidRequest, "size"),
        (MODEL, [], {"parameters": {"rows": "3"}}, InvalidRequest, "no parameter rows"),
        (MODEL, [], {"parameters": {"rows": 3}}, InvalidRequest, "no parameter rows"),
        ("connect_four", [], {"parameters": {"rows": 5}}, ModelNotFound, "model connect_four_rows5 is not served"),
        (MODEL, [], {"parameters": ["rows"]}, InvalidRequest, "parameters is .'rows'., want values by name"),
        (MODEL, [], {"parameters": {3: "rows"}}, InvalidRequest, "parameters is .3: 'rows'., want values by name"),
        (MODEL, [4, 0], {}, InvalidRequest, "moves is .4, 0., want a list of texts"),
        (MODEL, "b2", {}, InvalidRequest, "moves is 'b2', want a list of texts"),
        (MODEL, [], {"model_version": "17"}, InvalidRequest, "model_version is '17', want a whole number from 0$"),
        (MODEL, [], {"simulations": -1}, InvalidRequest, "simulations is -1, want a whole number from 0 .Value out of range"),
        (MODEL, [], {"simulations": 20_000}, InvalidRequest, "want 0 to 10000"),
        (MODEL, [], {"seed": 2**63, "simulations": 1}, InvalidRequest, "seed"),
        (MODEL, [], {"model_version": 9}, ModelNotFound, "version 9"),
        ("connect_four", [], {}, ModelNotFound, "model connect_four is not served"),
    ],
)
async def test_an_invalid_question_is_refused(client, name, moves, settings, error, says):
    with pytest.raises(error, match=says):
        await client.evaluate(name, moves, **settings)


@pytest.mark.parametrize("character", ["x", "\x01", "\u00e4", "\U0001f600"])
@pytest.mark.parametrize("length", [300, 20_000, 60_000])
async def test_long_text_in_a_question_is_refused_with_its_beginning(client, character, length):
    with pytest.raises(InvalidRequest):
        await client.evaluate(MODEL, [character * length])
    with pytest.raises(InvalidRequest):
        await client.evaluate(character * length, [])
    with pytest.raises(InvalidRequest):
        await client.evaluate(MODEL, [], parameters={"size": character * length})


@pytest.mark.parametrize("simulations", [0, 20])
@pytest.mark.parametrize("number", [np.nan, np.inf])
async def test_no_opinion_is_made_of_numbers_that_are_not_finite(client, monkeypatch, simulations, number):
    monkeypatch.setattr(fake_network, "expected_value", lambda states, *_: np.full((len(states), 2), number, np.float32))
    with pytest.raises(CorruptModel, match=f"{MODEL} version 1 returned numbers that are not finite"):
        await client.evaluate(MODEL, ["b2"], simulations=simulations)


async def test_a_search_survives_the_retirement_of_its_version(client, wire, publish, loader):
    publish()
    loader.gate.clear()
    async with asyncio.TaskGroup() as group:
        thinking = group.create_task(client.evaluate(MODEL, [], simulations=40))
        assert await asyncio.to_thread(loader.entered.wait, 60)
        await wire.server.plane.registry.serve(MODEL, [2])
        loader.gate.set()
    assert thinking.result().model_version == 1


async def test_more_searches_than_allowed_are_refused(open_wire, publish, loader):
    async with open_wire(max_searches=1) as wire, EvaluationClient(wire.server.address) as client:
        await wire.server.plane.registry.serve(MODEL, [publish()])
        loader.gate.clear()
        async with asyncio.TaskGroup() as group:
            thinking = group.create_task(client.evaluate(MODEL, [], simulations=20))
            assert await asyncio.to_thread(loader.entered.wait, 60)
            async with EvaluationClient(wire.server.address, timeout_s=1.0) as impatient:
                with pytest.raises(Overloaded, match="1 searches are under way"):
                    await impatient.evaluate(MODEL, [], simulations=20)
            loader.gate.set()
        assert len(thinking.result().moves) == 9
        assert len((await client.evaluate(MODEL, [], simulations=20)).moves) == 9


async def test_cancelling_the_call_ends_the_search(open_wire, publish, loader):
    async with open_wire(max_searches=1) as wire, EvaluationClient(wire.server.address) as client:
        await wire.server.plane.registry.serve(MODEL, [publish()])
        loader.gate.clear()
        asked = asyncio.ensure_future(client.evaluate(MODEL, [], simulations=5000))
        assert await asyncio.to_thread(loader.entered.wait, 60)
        asked.cancel()
        await asyncio.wait([asked])
        loader.gate.set()
        opinions = 0
        async with asyncio.timeout(60):
            while not opinions:  # refused as overload until the server has noticed
                try:
                    opinions += len((await client.evaluate(MODEL, [], simulations=20)).moves)
                except Overloaded:
                    await asyncio.sleep(0)
        evaluated = sum(map(sum, loader.networks[1].batches))
        assert evaluated < 1000


async def test_a_deadline_ends_the_search(wire, loader):
    loader.gate.clear()
    async with EvaluationClient(wire.server.address, timeout_s=0.2) as client:
        with pytest.raises(Unavailable):
            await client.evaluate(MODEL, [], simulations=100)
    loader.gate.set()
    await until(lambda: wire.waiting_rows() == 0)
    assert np.isfinite((await wire.infer(*_one()))[1]).all()


def _one():
    return np.zeros((1, 3), np.uint8), np.arange(9, dtype=np.int16)[None]
