"""The search in progress at a table, set-up by moves, and the lines that were left."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace

import numpy as np
import pytest

import games
from games.kit.stones import drawings_of, read_drawing
from ui.playing import _view as table_view
from ui.searches import Searches
from ui.tables import Table, Watched
from ui.thinking import _view, thinking_events
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.library.opponents import AgentOpponent, ModelOpponent
from zerofleet.library.seated_game import SeatedGame
from zerofleet.search import RootAnalysis

GAME = games.make("tic_tac_toe")


class Gated(UniformEvaluator):
    """Evaluates `open` requests, then waits for more."""

    def __init__(self, opened: int) -> None:
        super().__init__(2)
        self.places = asyncio.Semaphore(opened)

    async def evaluate(self, batch, *, version):
        await self.places.acquire()
        return await super().evaluate(batch, version=version)


def table_with(evaluator, *, seat: int) -> Table:
    opponent = ModelOpponent(GAME, evaluator, name="champion", version=1, simulations=400)
    return Table(SeatedGame(GAME, seat=seat, seed=0), opponent, Searches(1))


async def first(events):
    async with contextlib.aclosing(events):
        return (await anext(events))[1]


@pytest.mark.slow
async def test_the_opponents_search_is_shown_and_a_stop_plays_its_best_move_so_far():
    gate = Gated(4)
    table = table_with(gate, seat=1)
    await table.begin()
    shown = await first(thinking_events(table))
    assert (shown.by, shown.simulations) == ("opponent", 400)
    assert shown.visits < 400
    assert shown.value is not None
    table.stop()
    gate.places.release()
    await table.wait()
    assert len(table.played.moves) == 1
    assert [event async for event in thinking_events(table)] == []
    with pytest.raises(InvalidRequest, match="no search of a model"):
        table.stop()


@pytest.mark.slow
async def test_a_hint_is_shown_while_it_is_searched_and_a_stop_shows_what_was_found():
    gate = Gated(4)
    table = table_with(gate, seat=0)
    await table.begin()
    hint = asyncio.create_task(table.advise())
    await asyncio.sleep(0)  # the task begins
    shown = await first(thinking_events(table))
    assert shown.by == "hint"
    table.stop()
    gate.places.release()
    _, analysis = await hint
    assert 0 < analysis.visits.sum() < 400


@pytest.mark.slow
async def test_a_budget_of_seconds_is_shown_as_it_passes_and_ends_move_and_hint_alike():
    now_s = 0.0

    class Slow(Gated):
        async def evaluate(self, batch, *, version):
            nonlocal now_s
            found = await super().evaluate(batch, version=version)
            now_s += 0.25
            return found

    gate = Slow(3)
    opponent = ModelOpponent(GAME, gate, name="champion", version=1, simulations=0, limit_s=2.0, clock=lambda: now_s)
    table = Table(SeatedGame(GAME, seat=1, seed=0), opponent, Searches(1))
    await table.begin()
    async with contextlib.aclosing(thinking_events(table)) as events:
        seen = [(await anext(events))[1]]
        while seen[-1].elapsed_s < 0.75:
            seen.append((await anext(events))[1])
    assert seen[-1].limit_s == 2.0
    assert 0 < seen[-1].visits < seen[-1].simulations == 100_000
    for _ in range(1000):
        gate.places.release()
    await table.wait()
    assert (now_s, len(table.played.moves)) == (2.0, 1)
    _, analysis = await table.advise()
    assert now_s == 4.0
    visits = int(analysis.visits.sum())
    assert table.source(visits) == f"champion 1, 2 s, {visits} simulations"


@pytest.mark.slow
async def test_a_closed_table_ends_a_search_by_time():
    opponent = ModelOpponent(GAME, Gated(2), name="champion", version=1, simulations=0, limit_s=60.0)
    table = Table(SeatedGame(GAME, seat=1, seed=0), opponent, Searches(1))
    await table.begin()
    await first(thinking_events(table))
    await table.aclose()
    assert not table.is_thinking
    assert table.played.moves == []


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ({"seconds": 0.01}, "greater than or equal to 0.05"),
        ({"seconds": 61}, "less than or equal to 60"),
        ({"seconds": 2, "simulations": 100}, "leave one out"),
    ],
)
async def test_a_budget_of_seconds_has_bounds_and_excludes_one_of_simulations(client, budget, said):
    answer = await client.post("/api/v1/tables", json={"game": "tic_tac_toe", **budget})
    assert (answer.status_code, said in answer.json()["error"]) == (400, True)


@pytest.mark.parametrize(
    ("opponent", "budget", "said"),
    [
        ("random", {"seconds": "2"}, "seconds=2.0: random is no model; an agent with a budget has it in its name"),
        ("uct:20", {"simulations": 100}, "simulations=100: uct:20 is no model; an agent with a budget has it in its name"),
        ("greedy", {"simulations": 0}, "leave simulations out"),
    ],
)
async def test_a_budget_beside_the_name_of_an_agent_is_refused(client, opponent, budget, said):
    answer = await client.post("/api/v1/tables", json={"game": "tic_tac_toe", "opponent": opponent, **budget})
    assert (answer.status_code, said in answer.json()["error"]) == (400, True)


@pytest.mark.slow
async def test_a_model_searches_from_a_drawn_position():
    game = games.make("abalone")
    stones = drawings_of(game).stones(games.new_state(game))
    start = read_drawing(game, drawings_of(game), {**{c: s for c, s in stones.items() if c != "I5"}, "E5": 1}, 1)
    opponent = ModelOpponent(game, UniformEvaluator(2), name="champion", version=1, simulations=4)
    table = Table(SeatedGame(game, seat=0, seed=0, start=start), opponent, Searches(1))
    await table.begin()
    await table.wait()
    assert (table.fault, len(table.played.moves)) == ("", 1)
    assert table.played.moves[0] in games.legal(game, start)
    played, root = await table.advise()
    assert sorted(root.actions) == games.legal(game, played.state())


def test_the_opponents_search_of_a_hidden_hand_shows_visits_alone():
    game = games.make("rock_paper_scissors")
    ones = np.ones(3, dtype=np.float32)
    root = RootAnalysis(0, 1, np.arange(3), ones / 3, np.array([4, 1, 0]), ones, ones > 0, ones[:2], False, (2, 0))
    watched = [
        Watched(
            SimpleNamespace(simulations=9, elapsed_s=0.0, limit_s=None),
            SeatedGame(game, seat=1, seed=0),
            is_hint,
            asyncio.Event(),
        )
        for is_hint in (False, True)
    ]
    theirs, mine = (_view(one, root) for one in watched)
    assert (theirs.visits, theirs.value, theirs.line) == (5, None, ())
    assert (mine.value, mine.line) == (1.0, ("scissors",))


async def test_another_move_after_undo_keeps_the_line_that_was_left():
    luck = np.random.default_rng(0)
    chooser = SimpleNamespace(name="last", choose=lambda game, state, rng: SimpleNamespace(action=games.legal(game, state)[-1]))
    opponent = AgentOpponent(GAME, chooser, luck)
    table = Table(SeatedGame(GAME, seat=0, seed=0), opponent, Searches(1))
    for move in ("b2", "a1"):
        await table.play(move)
        await table.wait()
    first_line = table_view(table.snapshot()).moves
    await table.undo()
    assert table_view(table.snapshot()).lines == (first_line,)
    await table.play("a2")
    await table.wait()
    second_line = table_view(table.snapshot()).moves
    await table.enter_line(0)
    now = table_view(table.snapshot())
    assert (now.moves, now.lines) == (first_line, (second_line,))
    await table.undo()
    await table.undo()
    assert set(table_view(table.snapshot()).lines) == {first_line, second_line}


async def test_play_begins_after_the_moves_of_a_set_up(client):
    wish = {"game": "tic_tac_toe", "seat": 1, "moves": "b2, a1"}
    table = (await client.post("/api/v1/tables", json=wish)).json()
    assert (table["moves"], table["is_turn"]) == (["b2", "a1"], True)
    refused = await client.post("/api/v1/tables", json=wish | {"moves": "b2 b2"})
    assert (refused.status_code, "move 2" in refused.json()["error"]) == (400, True)
    hidden = await client.post("/api/v1/tables", json={"game": "rock_paper_scissors", "moves": "rock"})
    assert (hidden.status_code, "hidden information" in hidden.json()["error"]) == (400, True)
