"""Positions that recur: cut on the way from the root and against the game's past, worth the scores as they stand."""

import numpy as np
import pytest
from reference_search import ReferenceGame
from search_bench import answer_uniform, compiled_tree, difference, drive, hashed_network, reference_tree, searched_block
from toys.corridor import Corridor

from games import core
from games.conformance import check_game
from games.positions import replay
from zerofleet.search import SearchBlock, SearchSettings
from zerofleet.search.tree import OVER

GAME = Corridor()
LEFT, RIGHT = 0, 1
OPENINGS = [(), (LEFT,), (LEFT, LEFT), (RIGHT, LEFT, LEFT), (RIGHT, LEFT, RIGHT, RIGHT)]


def cells_cut(block, slot):
    """Return (cell, value of player 0) of every node that ends the search though the game is not over."""
    count = block._arena.slots[slot]["nodes"]
    nodes, states = block._arena.nodes[slot][:count], block._arena.states[slot][:count]
    return [
        (int(state[0]), float(node["value"][0]))
        for node, state in zip(nodes, states, strict=True)
        if node["kind"] == OVER and not core.is_over(GAME, state)
    ]


def test_the_corridor_conforms_to_the_game_contract():
    check_game(GAME, games=50)


@pytest.mark.parametrize("repetition", ["off", "path", "history"])
@pytest.mark.parametrize("budget", [1, 7, 60])
def test_trees_equal_the_reference(repetition, budget):
    settings = SearchSettings(simulations=budget, repetition=repetition)
    block = searched_block(GAME, settings, OPENINGS)
    for slot, opening in enumerate(OPENINGS):
        reference = ReferenceGame(GAME, settings, hashed_network(GAME), seed=slot, versions=[1, 1], opening=opening, hold=True)
        reference.search()
        assert difference(compiled_tree(block, slot), reference_tree(reference.root)) is None


@pytest.mark.parametrize("repetition", ["off", "path", "history"])
def test_whole_games_equal_the_reference_with_subtrees_kept_where_they_may_be(repetition):
    settings = SearchSettings(simulations=30, repetition=repetition, forced_playouts=2.0)
    block = SearchBlock(GAME, settings, slots=12)
    for slot in range(12):
        block.begin(slot, seed=slot, versions=[1, 1], opening=OPENINGS[slot % len(OPENINGS)])
    drive(block)
    for slot in range(12):
        opening = OPENINGS[slot % len(OPENINGS)]
        wanted = ReferenceGame(GAME, settings, hashed_network(GAME), seed=slot, versions=[1, 1], opening=opening)
        wanted.play_game()
        played = block.take(slot)
        assert played.moves.tolist() == wanted.moves
        assert played.scores == wanted.scores


def test_without_the_setting_a_search_cycles():
    block = searched_block(GAME, SearchSettings(simulations=200), [()], answer_uniform)
    assert cells_cut(block, 0) == []


def test_a_position_recurring_on_the_path_has_its_current_scores():
    block = searched_block(GAME, SearchSettings(simulations=200, repetition="path"), [()], answer_uniform)
    cuts = cells_cut(block, 0)
    assert cuts
    assert all(value == pytest.approx((3 - cell) / 7) for cell, value in cuts)


def test_a_search_of_a_cyclic_game_ends_within_its_budget():
    block = searched_block(
        Corridor(cells=63, turns=64), SearchSettings(simulations=3000, repetition="path"), [()], answer_uniform
    )
    root = block.analysis(0)
    assert root.visits.sum() == 3000


def test_earlier_positions_of_the_game_count_only_with_history():
    opening = [LEFT, RIGHT]  # the starting position again: whoever goes left repeats the second position
    path = searched_block(
        GAME, SearchSettings(simulations=1, repetition="path", dirichlet_fraction=0.0), [opening], answer_uniform
    )
    past = searched_block(
        GAME, SearchSettings(simulations=1, repetition="history", dirichlet_fraction=0.0), [opening], answer_uniform
    )
    assert cells_cut(path, 0) == []
    assert cells_cut(past, 0) == [(2, pytest.approx(1 / 7))]


def test_the_player_to_move_distinguishes_positions():
    start, later = replay(GAME, []), replay(GAME, [LEFT, RIGHT])
    turned = np.array([start[0], 1])
    assert core.repetition_key(GAME, start) == core.repetition_key(GAME, later)
    assert core.repetition_key(GAME, start) != core.repetition_key(GAME, turned)
