"""Wins in one and losses in two of Othello 6x6: found at every budget, whatever the network says.

Othello has no rule `may_end`, so that the search looks ahead at its root alone; that suffices here, as each position is a root.
"""

import functools

import pytest
from search_bench import random_positions
from test_proofs import BUDGETS, NETWORKS, ROOTS, searched
from test_tactics import after, winning

import games
from games import core
from games.positions import final_scores, legal, replay
from zerofleet.search import SearchSettings

GAMES = {
    "othello": games.make("othello", size=6),
}
WANTED = 12
RANDOM_GAMES = 3_000  # in few of Othello a move ends the game where another one does not


def allows_no_loss(game, state, action):
    """Return whether a move neither loses at once nor lets the opponent win at once."""
    mover, reached = core.to_move(game, state), after(game, state, action)
    if core.is_over(game, reached):
        return final_scores(game, reached)[mover] > -1.0
    return core.to_move(game, reached) == mover or not winning(game, reached)


def mover_of(name, moves):
    return core.to_move(GAMES[name], replay(GAMES[name], moves))


@functools.cache
def tactical(name):
    """Return {"win": …, "block": …}: positions of random games with their good moves, where other moves are no good."""
    game, found = GAMES[name], {"win": {}, "block": {}}
    two = game.spec().num_players == 2
    for moves, state in random_positions(game, seed=7, games_count=RANDOM_GAMES):
        if min(len(found["win"]), len(found["block"]) if two else WANTED) >= WANTED:
            break
        listed = legal(game, state)
        if len(listed) < 2:
            continue
        if wins := winning(game, state):
            if len(wins) < len(listed) and len(found["win"]) < WANTED:
                found["win"].setdefault(state.tobytes(), (moves, wins))
        elif two and len(found["block"]) < WANTED and not all(allows_no_loss(game, state, listed[i]) for i in (0, -1)):
            good = [action for action in listed if allows_no_loss(game, state, action)]
            if 0 < len(good) < len(listed):
                found["block"].setdefault(state.tobytes(), (moves, good))
    return {kind: list(positions.values()) for kind, positions in found.items()}


def analyses(name, kind, budget, root, network):
    game = GAMES[name]
    settings = SearchSettings.for_play(game.spec(), budget).model_copy(update=ROOTS[root])
    tasks = tactical(name)[kind]
    assert len(tasks) == WANTED
    block = searched(game, settings, [moves for moves, _ in tasks], functools.partial(network, game=game))
    return [(moves, good, block.analysis(slot)) for slot, (moves, good) in enumerate(tasks)]


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("name", GAMES)
def test_wins_in_one_are_played_and_proven_whatever_the_network_says(name, root, network):
    for budget in BUDGETS:
        for moves, wins, analysis in analyses(name, "win", budget, root, NETWORKS[network]):
            assert analysis.best_action in wins, (budget, moves)
            assert analysis.proven, (budget, moves)
            assert analysis.value[mover_of(name, moves)] == 1.0, (budget, moves)


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("name", GAMES)
def test_losses_in_two_are_avoided_whatever_the_network_says(name, root, network):
    """Where the search proves that every move loses, any move is as good."""
    for budget in BUDGETS:
        avoided = 0
        for moves, good, analysis in analyses(name, "block", budget, root, NETWORKS[network]):
            lost = analysis.proven and analysis.value[mover_of(name, moves)] == -1.0
            assert lost or analysis.best_action in good, (budget, moves)
            avoided += not lost
        assert avoided >= WANTED // 2, budget
