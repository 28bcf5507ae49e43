"""The perfect agent: true values, no loss, and a clear refusal of games that are too large."""

from __future__ import annotations

import dataclasses
import itertools
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from walk import Walk

import games
from games import core
from games.connect_four import ConnectFour
from games.core import Game, State
from zerofleet.agents import Agent, PolicyAgent, make_agent
from zerofleet.agents.depth_first.alpha_beta import search_moves
from zerofleet.agents.exact.perfect import MAX_POSITIONS, PerfectAgent, SolverAgent, require_small
from zerofleet.agents.exact.solver import Solver
from zerofleet.agents.exact.solver.positions import random_positions
from zerofleet.errors import InvalidRequest

GAME = games.make("tic_tac_toe")


def every_position(state: State, seen: dict[int, State], game: Game = GAME) -> dict[int, State]:
    """All positions that can follow, by key."""
    key = int(core.key(game, state))
    if key not in seen:
        seen[key] = state
        for action in games.legal(game, state):
            child = state.copy()
            core.play(game, child, action)
            every_position(child, seen, game)
    return seen


@pytest.mark.slow
def test_every_position_of_tic_tac_toe_has_its_exact_values() -> None:
    agent = PerfectAgent(GAME)
    positions = every_position(games.new_state(GAME), {})
    assert len(positions) == 5478
    for state in positions.values():
        if not core.is_over(GAME, state):
            assert agent.analyse(state).values.tolist() == search_moves(GAME, state, 9).values.tolist(), GAME.draw(state)


def play_out(seats: list[Agent], rng: np.random.Generator) -> tuple[float, ...]:
    """The scores of one game between two agents."""
    state = games.new_state(GAME)
    while not core.is_over(GAME, state):
        games.advance(GAME, state, seats[core.to_move(GAME, state)].choose(GAME, state, rng).action)
    return games.final_scores(GAME, state)


def test_two_perfect_players_always_draw_but_not_always_alike() -> None:
    agent, rng = PerfectAgent(GAME), np.random.default_rng(1)
    assert {play_out([agent, agent], rng) for _ in range(100)} == {(0.0, 0.0)}
    assert len({agent.choose(GAME, games.new_state(GAME), rng).action for _ in range(100)}) == 9


@pytest.mark.slow
@pytest.mark.parametrize("seat", [0, 1])
def test_a_perfect_player_never_loses_to_a_random_one(seat: int) -> None:
    rng = np.random.default_rng(2)
    agents = [make_agent("perfect", GAME), make_agent("random", GAME)]
    scores = [play_out(agents[:: 1 - 2 * seat], rng)[seat] for _ in range(500)]
    assert min(scores) == 0.0
    assert scores.count(1.0) > 300


def test_small_boards_of_connect_four_are_drawn() -> None:
    assert PerfectAgent(games.make("connect_four", rows=4, columns=4)).value == 0.0


def test_three_in_a_row_is_won_by_the_first_player() -> None:
    game = games.make("connect_four", rows=3, columns=5, connect=3)
    agent = PerfectAgent(game)
    assert agent.value == 1.0
    middle = games.replay(game, [2])
    assert agent.analyse(middle).values.max() == -1.0


def test_positions_with_one_key_are_not_confused_where_plies_decide() -> None:
    game = Walk()
    agent, state = PerfectAgent(game), games.new_state(game)
    assert agent.value == 1.0
    assert agent.analyse(state).values.tolist() == search_moves(game, state, game.turns).values.tolist() == [1.0, 1.0]
    assert PerfectAgent(Walk(turns=4)).value == 0.0  # two steps at most


def test_a_game_of_many_plies_is_solved_without_a_deep_stack() -> None:
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(PerfectAgent, Walk(turns=100_000)).result().value == 1.0


def test_a_game_with_too_many_positions_is_refused() -> None:
    with pytest.raises(
        InvalidRequest, match=r"too large for perfect play: more than 5000 relevant positions.*alpha_beta:DEPTH"
    ):
        PerfectAgent(games.make("connect_four"), max_positions=5000)


def test_a_large_game_is_refused_by_its_stated_size_before_anything_is_compiled() -> None:
    with pytest.raises(InvalidRequest, match=r"too large for perfect play: up to 6\.9e\+30 positions.*alpha_beta:DEPTH"):
        make_agent("perfect", games.make("othello"))
    with pytest.raises(InvalidRequest, match=r"states no bound on its positions \(max_positions"):
        make_agent("perfect", games.make("abalone"))


@pytest.mark.parametrize(
    ("plies", "legal", "stated", "is_small"),
    [
        (10, 4, None, True),  # a tree of 4^11 = 2^22 nodes
        (11, 4, None, False),
        (10**9, 30_000, None, False),
        (11, 4, MAX_POSITIONS, True),
        (11, 4, MAX_POSITIONS + 1, False),
    ],
)
def test_a_game_is_small_by_its_stated_number_of_positions_or_by_its_tree(plies, legal, stated, is_small) -> None:
    spec = dataclasses.replace(GAME.spec(), max_plies=plies, max_legal=legal)
    game = SimpleNamespace(spec=lambda: spec, max_positions=stated, _asdict=GAME._asdict)
    if is_small:
        require_small(cast("Game", game))
    else:
        with pytest.raises(InvalidRequest, match="too large for perfect play"):
            require_small(cast("Game", game))


@pytest.mark.slow
@pytest.mark.parametrize("game", [GAME, games.make("othello", size=4)], ids=str)
def test_stated_numbers_of_positions_are_those_that_play_can_reach(game: Game) -> None:
    assert len(every_position(games.new_state(game), {}, game)) == game.max_positions  # type: ignore[attr-defined]


def test_the_memory_grows_up_to_its_limit() -> None:
    assert PerfectAgent(GAME, max_positions=64 * 1024).value == 0.0
    with pytest.raises(InvalidRequest):
        PerfectAgent(GAME, max_positions=100)


SIX_BY_SEVEN = games.make("connect_four")
WON = "d d d d d d b c e c e e"  # X to move


def test_connect_four_is_played_by_the_solver_whatever_its_size() -> None:
    assert isinstance(make_agent("perfect", SIX_BY_SEVEN), SolverAgent)
    assert isinstance(make_agent("perfect", games.make("connect_four", rows=4, columns=5)), SolverAgent)
    assert isinstance(make_agent("perfect", GAME), PerfectAgent)
    assert make_agent("perfect,prefer=value", SIX_BY_SEVEN).name == "perfect"
    assert make_agent("perfect,prefer=score", SIX_BY_SEVEN).name == "perfect,prefer=score"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("perfect:3", "perfect takes no argument after a colon"),
        ("perfect,prefer=speed", "prefer=value"),
        ("perfect,depth=3", "prefer=value"),
    ],
)
def test_invalid_spellings_of_perfect_are_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        make_agent(text, SIX_BY_SEVEN)


def test_prefer_score_is_for_connect_four_only() -> None:
    with pytest.raises(InvalidRequest, match="is for Connect Four on boards of at most 64 bits; write perfect"):
        make_agent("perfect,prefer=score", GAME)


@pytest.mark.slow
def test_the_solver_agent_keeps_the_value_or_the_score_and_no_less() -> None:
    state = games.replay(SIX_BY_SEVEN, games.read_moves(SIX_BY_SEVEN, WON))
    solver = Solver(cast("ConnectFour", SIX_BY_SEVEN))
    scored = solver.scores(state)
    kept = scored.actions[np.sign(scored.scores) == np.sign(scored.scores.max())].tolist()
    for name, wanted in (("perfect", kept), ("perfect,prefer=score", scored.best().tolist())):
        agent, rng = make_agent(name, SIX_BY_SEVEN), np.random.default_rng(3)
        choices = [agent.choose(SIX_BY_SEVEN, state, rng) for _ in range(40)]
        assert {choice.action for choice in choices} == set(wanted)
        assert {choice.value for choice in choices} == {float(np.sign(scored.scores.max()))}
        assert isinstance(agent, PolicyAgent)
        policy = agent.policy(SIX_BY_SEVEN, state)
        assert policy.tolist() == [1 / len(wanted) if action in wanted else 0.0 for action in scored.actions]
    assert len(kept) > len(scored.best())


def test_threads_sharing_an_agent_choose_like_a_single_thread() -> None:
    states = list(itertools.islice(random_positions(cast("ConnectFour", SIX_BY_SEVEN), plies=range(20, 24), seed=1), 12))
    agent = make_agent("perfect", SIX_BY_SEVEN)

    def chosen(number: int) -> int:
        return agent.choose(SIX_BY_SEVEN, states[number], np.random.default_rng(number)).action

    alone = [chosen(number) for number in range(len(states))]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(chosen, range(len(states)))) == alone


def test_the_policy_is_uniform_over_the_best_moves() -> None:
    corner = games.replay(GAME, [0])
    assert PerfectAgent(GAME).policy(GAME, corner).tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
