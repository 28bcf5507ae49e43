"""Proven values of three players: what is sound, by an independent solver and by the bounds of the children."""

import functools
import itertools

import numpy as np
import pytest
from search_bench import answer_hashed
from test_proofs import BUDGETS, NETWORKS, ROOTS, nodes_of, searched
from test_proofs_of_board_games import STAR, STAR_PLIES, solver, star_positions
from test_proofs_of_board_games import searched as searched_from
from test_tactics import after, winning
from toys.counting import SEATS, Counting

from games.positions import final_scores, legal, replay
from zerofleet.search import SearchSettings
from zerofleet.search.tree import DECIDED, EXPANDED, OVER, PROVEN


@pytest.mark.parametrize("leaves", [1, 3])
def test_bounds_of_three_players_hold_every_outcome_of_optimal_play(leaves):
    game = Counting()
    outcomes = solver(game)
    settings = SearchSettings(simulations=200, leaves_per_game=leaves)
    openings = [(), (0,), (2,), (0, 1), (1, 1, 0), (2, 2, 1)]
    block = searched(game, settings, openings, answer_hashed)
    proven = 0
    for slot in range(len(openings)):
        nodes, states = nodes_of(block, slot)
        for node, state in zip(nodes, states, strict=True):
            ends = np.array(sorted(outcomes(state)))
            assert np.all(node["lower"] <= ends.min(axis=0))
            assert np.all(ends.max(axis=0) <= node["upper"])
            if node["kind"] in (DECIDED, PROVEN):
                assert tuple(node["value"]) in {tuple(end) for end in ends}
                proven += 1
    assert proven > 20


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_three_players_play_wins_in_one_whatever_the_network_says(budget, root):
    game = Counting(limit=5)
    settings = SearchSettings.for_play(game.spec(), budget).model_copy(update=ROOTS[root])
    openings = [moves for moves in ((1,), (0, 0), (2,), (1, 0), (0, 1)) if winning(game, replay(game, moves))]
    assert len(openings) >= 3
    for network in NETWORKS.values():
        block = searched(game, settings, openings, functools.partial(network, game=game))
        for slot, moves in enumerate(openings):
            analysis = block.analysis(slot)
            state = replay(game, moves, seed=slot)
            assert analysis.best_action in winning(game, state)
            assert analysis.proven
            assert analysis.value.tolist() == list(final_scores(game, after(game, state, analysis.best_action)))
            assert len(analysis.value) == SEATS


def test_no_move_of_three_players_is_lost_to_a_reply():
    """The win of the next player may suit the player before: the look-ahead proves no loss."""
    game = Counting()
    openings = [moves for moves in itertools.product(range(3), repeat=2) if not winning(game, replay(game, moves))]
    block = searched(game, SearchSettings.for_play(game.spec(), 1), openings, answer_hashed)
    allows_wins = 0
    for slot, moves in enumerate(openings):
        state = replay(game, moves, seed=slot)
        allows_wins += any(winning(game, after(game, state, action)) for action in legal(game, state))
        assert block.analysis(slot).candidates.all()
        assert not block.analysis(slot).proven
    assert allows_wins > 4


def star_nodes():
    """Yield (node, its position, nodes, its edges) of searches of Chinese Checkers for three before the last two plies."""
    states = list(itertools.islice(star_positions(3, [STAR_PLIES - 2, STAR_PLIES - 3]), 16))
    block = searched_from(STAR, SearchSettings(simulations=600, prove_replies=True), states, answer_hashed)
    for slot in range(len(states)):
        nodes, reached = nodes_of(block, slot)
        for node, state in zip(nodes, reached, strict=True):
            first = int(node["edge_start"])
            yield node, state, nodes, block._arena.edges[slot][first : first + int(node["edge_count"])]


def children_bounds(nodes, edges):
    """Return the lower and upper bounds of all children, [n, P] each; a child without a node has [-1, 1]."""
    lower = [nodes[edge["child"]]["lower"] if edge["child"] >= 0 else [-1.0] * 3 for edge in edges]
    upper = [nodes[edge["child"]]["upper"] if edge["child"] >= 0 else [1.0] * 3 for edge in edges]
    return np.array(lower), np.array(upper)


@pytest.mark.slow
def test_bounds_of_three_players_are_those_of_the_children_that_the_mover_may_choose():
    """The mover's are the largest of any child; another player's are the widest of the children that may be the best."""
    checked = ruled_out = 0
    for node, _, nodes, edges in star_nodes():
        if node["kind"] not in (EXPANDED, PROVEN) or node["parent"] < 0:  # the root also has wins without a node
            continue
        lower, upper = children_bounds(nodes, edges)
        mover = int(node["to_move"])
        assert node["lower"][mover] == lower[:, mover].max()
        assert node["upper"][mover] == upper[:, mover].max()
        chosen = upper[:, mover] >= node["lower"][mover]
        for other in {0, 1, 2} - {mover}:
            assert node["lower"][other] == lower[chosen, other].min()
            assert node["upper"][other] == upper[chosen, other].max()
        checked += bool(np.any(node["lower"] > -1.0) or np.any(node["upper"] < 1.0))
        ruled_out += not chosen.all()
    assert min(checked, ruled_out) > 20


@pytest.mark.slow
def test_a_settled_node_of_three_players_has_the_outcome_of_the_first_settled_move_that_is_optimal():
    settled = later = 0
    for node, _, nodes, edges in star_nodes():
        if node["kind"] != PROVEN:
            continue
        mover = int(node["to_move"])
        assert node["lower"][mover] == node["upper"][mover] == node["value"][mover]
        below = [nodes[edge["child"]] for edge in edges if edge["child"] >= 0]
        optimal = [child["kind"] >= OVER and child["lower"][mover] == node["lower"][mover] for child in below]
        assert node["value"].tolist() == below[optimal.index(True)]["value"].tolist()
        settled += 1
        later += optimal.index(True) > 0
    assert settled > 20
    assert later > 2  # where an earlier move was not the best, or not settled


@pytest.mark.slow
def test_a_win_in_one_of_three_players_bounds_the_value_of_its_mover_alone_and_has_the_outcome_of_the_first_win():
    """Another win may be worth more or less to the others; so the win of the next player proves no move lost."""
    decided = 0
    for node, state, _, _ in star_nodes():
        if node["kind"] == DECIDED:
            mover = int(node["to_move"])
            assert node["value"].tolist() == list(final_scores(STAR, after(STAR, state, winning(STAR, state)[0])))
            assert node["lower"].tolist() == [1.0 if seat == mover else -1.0 for seat in range(3)]
            assert node["upper"].tolist() == [1.0] * 3
            decided += 1
    assert decided > 20
