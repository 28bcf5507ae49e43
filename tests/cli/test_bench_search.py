from __future__ import annotations

import numpy as np
import pytest

from games.core import make
from zerofleet.cli.bench.search import UniformAnswers, measure
from zerofleet.evaluators.base import LeafBatch
from zerofleet.evaluators.uniform import uniform_policy
from zerofleet.search import SearchBlock, SearchSettings


def test_the_prepared_answers_lead_to_the_trees_of_the_uniform_evaluator():
    game = make("connect_four")
    prepared = UniformAnswers(game, rows=4)
    settings = SearchSettings(simulations=40, dirichlet_fraction=0.0)

    def priors_and_visits(answer):
        block = SearchBlock(game, settings, slots=4)
        for slot in range(4):
            block.begin(slot, seed=slot, versions=[1, 1], hold=True, opening=[slot] * 5)
        while len((leaves := block.advance()).batch):
            block.absorb(*answer(leaves.batch))
        return [(analysis.priors.tolist(), analysis.visits.tolist()) for analysis in map(block.analysis, range(4))]

    def uniform(batch):
        return uniform_policy(batch.legal).astype(np.float32), np.zeros((len(batch), 2), dtype=np.float32)

    assert priors_and_visits(prepared.answer) == priors_and_visits(uniform)


def test_the_prepared_answers_have_the_head_of_opponents_where_it_is_asked_for():
    batch = LeafBatch(np.zeros((3, 1), np.uint8), np.zeros((3, 7), np.int16), extra_heads=1)
    policy, value, heads = UniformAnswers(make("connect_four"), rows=8).answer(batch)
    assert policy.shape == (3, 7)
    np.testing.assert_array_equal(value, np.zeros((3, 2), dtype=np.float32))
    np.testing.assert_array_equal(heads, np.full((1, 3, 7), 1 / 7, dtype=np.float32))


@pytest.mark.slow
def test_every_simulation_of_every_move_is_counted_once():
    figures = measure(make("tic_tac_toe"), games=4, simulations=16, seconds=0.05)
    assert figures.games == 4
    assert figures.simulations == 16
    assert figures.games_done > 0
    # Without reuse of subtrees a move costs 16 visits of the root's children and the root's own evaluation at most; a proof
    # ends a search earlier.
    assert figures.moves_done <= figures.simulations_done <= 17 * figures.moves_done * 1.1


@pytest.mark.slow
def test_several_leaves_of_a_game_are_evaluated_together(zerofleet):
    words = ["bench", "search", "--game", "tic_tac_toe", "--games", "2", "--simulations", "32", "--seconds", "0.01", "--json"]
    figures = zerofleet(*words, "--leaves", "4").json()
    assert figures["leaves_per_game"] == 4
    assert figures["moves_done"] <= figures["simulations_done"]


@pytest.mark.parametrize("words", [["--all"], ["--game", "take_six"]])
def test_several_leaves_are_refused_where_information_is_hidden(zerofleet, words):
    outcome = zerofleet("bench", "search", "--leaves", "4", *words)
    assert outcome.code == 2
    assert "--leaves" in outcome.err
    assert "leaf" in outcome.err


@pytest.mark.slow
def test_bench_search_prints_all_fields_as_json(zerofleet):
    words = ["bench", "search", "--game", "connect_four", "--games", "2", "--simulations", "8", "--seconds", "0.01", "--json"]
    figures = zerofleet(*words, "--set", "rows=4", "--set", "columns=5").json()
    assert figures["game"] == "connect_four_rows4_columns5"
    assert figures["simulations_per_second_per_core"] > 0
    assert figures["bytes_per_game"] > 0


def test_the_error_for_an_unknown_game_lists_the_available_ones(zerofleet):
    outcome = zerofleet("bench", "search", "--game", "ludo")
    assert outcome.code == 2
    assert outcome.err.startswith("error: no game is called 'ludo'; available: ")
    assert "tic_tac_toe" in outcome.err


def test_the_error_for_an_unsuitable_search_names_a_suitable_one(zerofleet):
    outcome = zerofleet("bench", "search", "--game", "connect_four", "--information", "predict")
    assert outcome.code == 2
    assert "connect_four is a game of perfect information, so information=predict does not apply" in outcome.err
    assert "information=open" in outcome.err
