from __future__ import annotations

import itertools

import numpy as np

import games
from games import core
from zerofleet.agents import make_agent
from zerofleet.cli.bench.agent import measure, random_positions


def test_bench_agent_prints_all_fields_as_json(zerofleet):
    words = ("bench", "agent", "alpha_beta:3", "--game", "tic_tac_toe", "--positions", "5", "--seconds", "0", "--json")
    figures = zerofleet(*words).json()
    assert (figures["game"], figures["agent"], figures["positions"]) == ("tic_tac_toe", "alpha_beta:3", 5)
    assert figures["moves"] == 5
    assert figures["nodes_per_move"] > 1
    assert figures["nodes_per_second"] > 0
    assert 0 < figures["ms_per_move"] <= figures["ms_per_move_most"]
    assert figures["ms_per_move_median"] <= figures["ms_per_move_95"] <= figures["ms_per_move_most"]


def test_bench_agent_prints_a_table_with_agent_and_game(zerofleet):
    outcome = zerofleet("bench", "agent", "greedy", "--game", "connect_four", "--seconds", "0", "--set", "columns=5")
    assert outcome.code == 0
    assert "greedy in connect_four_columns5: 100 moves in 100 positions" in outcome.out
    assert "nodes per second" in outcome.out


def test_bench_agent_rejects_an_unknown_agent(zerofleet):
    outcome = zerofleet("bench", "agent", "stockfish")
    assert outcome.code == 2
    assert "no agent is called 'stockfish'" in outcome.err


def test_equal_seeds_measure_an_agent_on_equal_positions_with_equal_nodes():
    game = games.make("tic_tac_toe")
    first, second = ([state.tolist() for state in itertools.islice(random_positions(game, 7), 30)] for _ in range(2))
    assert first == second
    assert not any(core.is_over(game, np.array(state, dtype=game.spec().state_dtype)) for state in first)
    nodes = [measure(game, make_agent("alpha_beta:9", game), positions=20, seconds=0.0, seed=7).nodes_per_move for _ in "ab"]
    assert nodes[0] == nodes[1]


def test_agents_are_measured_in_games_with_hidden_information():
    game = games.make("take_six")
    figures = measure(game, make_agent("take_six_comparison", game), positions=3, seconds=0.0)
    assert figures.nodes_per_move == 0
