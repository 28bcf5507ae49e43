"""UCT where something is hidden: one tree of what the player sees, a deal of its own for each simulation."""

from __future__ import annotations

import numpy as np
import pytest

import games
from games import core
from games.core import Game, State
from zerofleet.agents.spelling import Spelling
from zerofleet.agents.uct import UctSearch, plan_for
from zerofleet.agents.uct.agent import from_spelling
from zerofleet.agents.uct.tree import CHILD, COUNT, MOVER, NO_NODE, NODES, SIBLING, START, VISITS
from zerofleet.errors import InvalidRequest


def searched(game: Game, state: State, simulations: int) -> UctSearch:
    search = UctSearch(game, state, plan_for(game), seed=1)
    search.run(simulations)
    return search


def other_world(game: Game, state: State, seed: int) -> State:
    """A position that the player to move cannot tell from `state`."""
    dealt = np.zeros_like(state)
    core.determinise(game, state, core.to_move(game, state), seed, dealt)
    return dealt


def own_visits(search: UctSearch, node: int) -> int:
    """N of a node other than the root."""
    start, count = search.tree.nodes[node, START], search.tree.nodes[node, COUNT]
    return 1 + (int(search.tree.edges[start : start + count, VISITS].sum()) if start >= 0 else 0)


def test_a_simulation_continues_at_the_child_with_its_view() -> None:
    game = games.make("rock_paper_scissors")
    state = games.new_state(game)
    core.play(game, state, 0)  # the second player does not know that, and is to move
    search = searched(game, state, 1500)
    assert search.root().visits.sum() == search.simulations == 1500
    nodes, edges = search.tree.nodes[: search.tree.tally[NODES]], search.tree.edges
    assert (nodes[:, MOVER] == 1).all(), "the tree holds the decisions of one player"
    views = 0
    for start, count, *_ in nodes[nodes[:, START] >= 0]:
        for edge in edges[start : start + count]:
            below, child = 0, edge[CHILD]
            while child != NO_NODE:
                below, child, views = below + own_visits(search, child), nodes[child, SIBLING], views + 1
            assert edge[VISITS] == below
    assert views == len(nodes) - 1


def test_the_search_does_not_depend_on_a_simultaneous_choice() -> None:
    game = games.make("rock_paper_scissors")
    state = games.new_state(game)
    found = []
    for secret in range(3):
        before = state.copy()
        core.play(game, before, secret)
        found.append(searched(game, before, 300).root().visits.tolist())
    assert found[0] == found[1] == found[2]


@pytest.mark.slow
def test_the_search_does_not_depend_on_the_opponents_hands() -> None:
    game = games.make("take_six", row_choice="needed")
    state = games.new_state(game, 3)
    for _ in range(2 * game.spec().num_players):
        core.play(game, state, games.legal(game, state)[0])
    same = searched(game, other_world(game, state, 1), 200).root()
    assert not np.array_equal(other_world(game, state, 1), state)
    assert same.visits.tolist() == searched(game, state, 200).root().visits.tolist()
    assert same.actions.tolist() == games.legal(game, state)


def test_a_model_is_refused_with_hidden_information() -> None:
    with pytest.raises(InvalidRequest, match="uct:10,model=7 plays games with perfect information"):
        from_spelling(Spelling.parse("uct:10,model=7"), games.make("rock_paper_scissors"), None)
