"""Statistics of a root over its sampled worlds: those of the reference search, and nothing of the worlds themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hidden_bench import MODES, THREE, TWO, answer, search, searched
from reference_hidden import DeterminisedGame
from search_bench import hashed_network

import games
from games import core
from games.positions import new_state
from zerofleet.contracts.records.samples import random_game
from zerofleet.search import SearchBlock, SearchSettings
from zerofleet.search.hidden.world_view import GAME_ENDS


class Noting(DeterminisedGame):
    """Notes the searcher's value of each simulation under the root's action."""

    def search(self):
        self.noted = {}
        super().search()

    def back_up(self, node):
        super().back_up(node)
        if node is not self.root:
            self.noted.setdefault(node.way[0][1].action, []).append(float(node.value[self.root.mover]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [{}, {"root_policy": "gumbel"}], ids=["puct", "gumbel"])
@pytest.mark.parametrize("game", [THREE, TWO], ids=str)
def test_spreads_are_those_of_the_values_that_the_reference_search_backs_up(game, kind):
    settings = SearchSettings(simulations=120, information="determinise", **kind)
    plain = Noting(game, settings, hashed_network(game), seed=3, versions=[1] * game.spec().num_players)
    plain.search()
    block = searched(game, settings, [()], seed=3)
    node, found = block.node(0, []), block.worlds(0)
    assert found.worlds == 120 == sum(len(values) for values in plain.noted.values())
    for place, action in enumerate(node.actions.tolist()):
        values = plain.noted.get(action, [])
        assert node.visit_counts[place] == len(values)
        expected = np.std(values) if len(values) > 1 else np.nan
        np.testing.assert_allclose(found.spreads[place], expected, atol=1e-6)


@pytest.mark.slow
def test_a_forecast_is_one_world_without_a_spread():
    found = searched(THREE, SearchSettings(simulations=40, information="predict"), [()]).worlds(0)
    assert (found.worlds, bool(np.isnan(found.spreads).all())) == (1, True)


@pytest.mark.slow
def test_a_second_search_of_a_slot_begins_without_the_worlds_of_the_first():
    settings = SearchSettings(simulations=30, information="determinise")
    block, fresh = searched(THREE, settings, [()], seed=8), SearchBlock(THREE, settings, slots=1)
    block.abandon(0)
    for one in (block, fresh):
        one.begin(0, seed=9, versions=[1, 1, 1], hold=True)
        search(one)
    np.testing.assert_array_equal(block.worlds(0).spreads, fresh.worlds(0).spreads)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_the_outcomes_of_a_move_have_its_visits_and_its_value(mode):
    block = searched(TWO, SearchSettings(simulations=200, information=mode), [()], seed=5)
    node, found = block.node(0, []), block.worlds(0)
    for place, outcomes in enumerate(found.outcomes):
        visits = sum(outcome.visits for outcome in outcomes)
        assert visits == node.visit_counts[place]
        assert {outcome.name for outcome in outcomes} <= {"against rock", "against paper", "against scissors"}
        mean = sum(outcome.visits * outcome.value for outcome in outcomes) / visits
        assert mean == pytest.approx(node.values[place], abs=1e-5)


@pytest.mark.slow
def test_simulations_that_end_the_game_are_an_outcome_of_their_own():
    last = games.make("rock_paper_scissors", turns=1)
    found = searched(last, SearchSettings(simulations=30, information="determinise"), [()]).worlds(0)
    assert {outcome.name for outcomes in found.outcomes for outcome in outcomes} == {GAME_ENDS}


@pytest.mark.slow
def test_the_points_of_take_six_are_outcomes_that_add_up():
    game = games.make("take_six")
    opening = random_game(game, 2).moves.tolist()[: 4 * game.players]
    block = searched(game, SearchSettings(simulations=300, information="determinise"), [opening], seed=2)
    node, found = block.node(0, []), block.worlds(0)
    names = {outcome.name for outcomes in found.outcomes for outcome in outcomes}
    assert names > {"takes nothing"}
    assert all(name == "takes nothing" or name.removeprefix("takes ").split()[1] in ("point", "points") for name in names)
    for place, outcomes in enumerate(found.outcomes):
        assert sum(outcome.visits for outcome in outcomes) == node.visit_counts[place]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_statistics_over_worlds_do_not_depend_on_the_hidden_hands(mode):
    game = games.make("take_six", players=2)
    start = new_state(game, seed=4)
    settings = SearchSettings(simulations=60, information=mode)
    seen = []
    for deal in range(3):
        block = SearchBlock(game, settings, slots=1)
        block.begin(0, seed=4, versions=[1, 1], hold=True)
        core.determinise(game, start, 0, deal, block._arena.states[0, 0])
        assert not np.array_equal(start, block.state(0))
        search(block)
        seen.append((block.node(0, []).visit_counts.tolist(), block.worlds(0).spreads.tolist(), block.worlds(0).outcomes))
    assert repr(seen[0]) == repr(seen[1]) == repr(seen[2])


@pytest.mark.slow
def test_nodes_below_the_root_are_refused_as_they_hold_invented_hands():
    block = searched(THREE, SearchSettings(simulations=40, information="determinise"), [()])
    action = int(block.node(0, []).actions[0])
    with pytest.raises(ValueError, match="invented hands"):
        block.node(0, [action])


@pytest.mark.slow
def test_a_search_with_perfect_information_has_no_worlds_and_an_unsearched_root_no_statistics():
    perfect = SearchBlock(games.make("tic_tac_toe"), SearchSettings(simulations=4), slots=1)
    assert perfect.worlds(0) is None
    hidden = SearchBlock(THREE, SearchSettings(simulations=4, information="determinise"), slots=1)
    hidden.begin(0, seed=0, versions=[1, 1, 1], hold=True)
    with pytest.raises(ValueError, match="no searched position"):
        hidden.worlds(0)
    hidden.absorb(*answer(hidden.advance(), THREE))
    hidden.advance()  # expands the root
    assert hidden.worlds(0).worlds == 0
