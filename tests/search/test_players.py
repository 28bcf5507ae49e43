"""More than two players: values by seat, the network's answer turned to seat order, max^n, and forms of misuse."""

import functools

import numpy as np
import pytest
from reference_search import ReferenceGame
from search_bench import answer_uniform, compiled_tree, difference, drive, hashed_network, reference_tree, searched_block
from toys.counting import SEATS, Counting

from games import core
from games.conformance import check_game
from games.positions import final_scores, legal, new_state, replay
from zerofleet.search import EXTERNAL, SearchBlock, SearchSettings

GAME = Counting(limit=9)


@functools.cache
def best_outcome(count, seat):
    """Return (scores by seat, best actions) under max^n: each seat wants its own score high."""
    state = np.array([count, seat])
    outcomes = {}
    for action in legal(GAME, state):
        after = state.copy()
        core.play(GAME, after, action)
        over = after[0] >= GAME.limit
        outcomes[action] = final_scores(GAME, after) if over else best_outcome(int(after[0]), int(after[1]))[0]
    most = max(outcome[seat] for outcome in outcomes.values())
    best = [action for action, outcome in outcomes.items() if outcome[seat] == most]
    return outcomes[best[0]], best


def test_the_toy_conforms_to_the_game_contract():
    check_game(GAME, games=50)
    assert sum(final_scores(GAME, replay(GAME, [2, 2, 2]))) == 0.0


@pytest.mark.parametrize("budget", [1, 2, 3, 7, 20, 64])
@pytest.mark.parametrize("leaves", [1, 3])
def test_trees_of_three_players_equal_the_reference(budget, leaves):
    settings = SearchSettings(simulations=budget, leaves_per_game=leaves, forced_playouts=2.0)
    openings = [(), (0,), (1, 1), (2, 1, 0)]
    block = searched_block(GAME, settings, openings)  # seeds 0 to 3: every seat begins once
    for slot, opening in enumerate(openings):
        network = hashed_network(GAME)
        reference = ReferenceGame(GAME, settings, network, seed=slot, versions=[1] * SEATS, opening=opening, hold=True)
        reference.search()
        assert difference(compiled_tree(block, slot), reference_tree(reference.root)) is None


def test_whole_games_of_three_players_equal_the_reference():
    settings = SearchSettings(simulations=25)
    versions = [1, 1, 2]
    block = SearchBlock(GAME, settings, slots=12)
    for slot in range(12):
        block.begin(slot, seed=slot, versions=versions)
    drive(block)
    for slot in range(12):
        played = block.take(slot)
        wanted = ReferenceGame(GAME, settings, hashed_network(GAME), seed=slot, versions=versions)
        wanted.play_game()
        assert played.moves.tolist() == wanted.moves
        assert played.scores == wanted.scores == final_scores(GAME, replay(GAME, wanted.moves, seed=slot))
        assert [move.root_value.tolist() for move in played.searched] == [move.value.tolist() for move in wanted.searched]


@pytest.mark.parametrize("seat", range(SEATS))
def test_network_values_are_rotated_to_seat_order(seat):
    block = SearchBlock(GAME, SearchSettings(simulations=1, dirichlet_fraction=0.0), slots=1)
    block.begin(0, seed=seat, versions=[1] * SEATS, hold=True)  # the seed says who begins
    leaves = block.advance()
    block.absorb(np.full((len(leaves.batch), 3), 1 / 3), np.array([[0.5, -0.25, 0.125]]))  # mover, next, next but one
    root = compiled_tree(block, 0)
    assert root["to_move"] == seat
    assert [root["value"][(seat + i) % SEATS] for i in range(SEATS)] == [0.5, -0.25, 0.125]


@pytest.mark.slow
def test_with_many_simulations_all_players_choose_the_max_n_move():
    states = [(count, seat) for count in range(GAME.limit) for seat in range(SEATS)]
    openings = {}
    for count, seat in states:
        openings[(count, seat)] = _way_to(count, seat)
    reachable = {place: way for place, way in openings.items() if way is not None}
    settings = SearchSettings.for_play(GAME.spec(), 3000)
    block = SearchBlock(GAME, settings, slots=len(reachable))
    for slot, (start, moves) in enumerate(reachable.values()):
        block.begin(slot, seed=start, versions=[1] * SEATS, opening=moves, hold=True)
    drive(block, answer_uniform)
    assert len(reachable) > 20
    for slot, (count, seat) in enumerate(reachable):
        scores, best = best_outcome(count, seat)
        analysis = block.analysis(slot)
        assert analysis.to_move == seat
        chosen = analysis.best_action
        assert chosen in best, f"count {count}, seat {seat}: played {chosen}, best {best}"
        np.testing.assert_allclose(analysis.value, scores, atol=0.35)


def _way_to(count, seat):
    """Return (seed, moves) of a game that comes to a position, or None."""
    for start in range(SEATS):
        todo = [[]]
        while todo:
            moves = todo.pop()
            state = replay(GAME, moves, seed=start)
            if (int(state[0]), int(state[1])) == (count, seat):
                return start, moves
            if state[0] < count:
                todo += [[*moves, action] for action in (0, 1, 2)]
    return None


def test_no_player_resigns_in_a_game_of_three():
    settings = SearchSettings(simulations=5, resign_threshold=-0.01, resign_control_share=0.0)
    block = SearchBlock(GAME, settings, slots=20)
    for slot in range(20):
        block.begin(slot, seed=slot, versions=[1] * SEATS)
    drive(block)
    assert all(block.take(slot).resigned_seat is None for slot in range(20))


def test_external_seats_and_models_can_share_a_game():
    block = SearchBlock(GAME, SearchSettings(simulations=5), slots=1)
    block.begin(0, seed=0, versions=[EXTERNAL, 4, EXTERNAL])
    drive(block)
    while block.waiting():
        state = block.state(0)
        assert int(state[1]) in (0, 2)
        block.play(0, 0)
        drive(block)
    played = block.take(0)
    assert {move.model_version for move in played.searched} <= {4}
    assert sorted(played.scores) == [-1.0, 0.0, 1.0]
    assert new_state(GAME)[0] == 0
