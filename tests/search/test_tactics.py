"""Tactics by search alone: with a network that knows nothing, wins are found and losses are prevented, by both colours."""

import functools

import numpy as np
import pytest
from search_bench import CONNECT_FOUR, TIC_TAC_TOE, answer_uniform, drive, random_positions

from games import core
from games.positions import final_scores, legal
from zerofleet.search import SearchBlock, SearchSettings


def after(game, state, action):
    changed = state.copy()
    core.play(game, changed, action)
    return changed


def winning(game, state):
    """Return the actions that win at once."""
    mover = core.to_move(game, state)
    ends = ((action, after(game, state, action)) for action in legal(game, state))
    return [action for action, end in ends if core.is_over(game, end) and final_scores(game, end)[mover] == 1.0]


def safe(game, state):
    """Return the actions after which the opponent cannot win at once."""
    return [action for action in legal(game, state) if not winning(game, after(game, state, action))]


def winning_in_two(game, state):
    """Return the actions after which every reply leaves a win in one, and no reply wins or ends the game."""
    found = []
    for action in safe(game, state):
        threat = after(game, state, action)
        replies = legal(game, threat)
        if replies and all(winning(game, after(game, threat, reply)) for reply in replies):
            found.append(action)
    return found


@functools.cache
def exercises(game):
    """Return {kind: [(moves so far, right actions)]} from the positions of random games, each position once."""
    found = {"win": [], "block": [], "win in two": []}
    seen = set()
    count = {TIC_TAC_TOE: 150, CONNECT_FOUR: 140}[game]
    for moves, state in random_positions(game, seed=4, games_count=count):
        if state.tobytes() in seen:
            continue
        seen.add(state.tobytes())
        if wins := winning(game, state):
            found["win"].append((moves, wins))
        elif 0 < len(good := safe(game, state)) < len(legal(game, state)):
            if twos := winning_in_two(game, state):
                found["win in two"].append((moves, twos))
            else:
                found["block"].append((moves, good))
        elif twos := winning_in_two(game, state):
            found["win in two"].append((moves, twos))
    return found


def chosen_moves(game, settings, openings):
    block = SearchBlock(game, settings, slots=len(openings))
    for slot, opening in enumerate(openings):
        block.begin(slot, seed=slot, versions=[1, 1], opening=opening, hold=True)
    drive(block, answer_uniform)
    return [block.analysis(slot) for slot in range(len(openings))]


def assert_solved(game, kind, settings):
    tasks = exercises(game)[kind]
    seats = [sum(len(moves) % 2 == seat for moves, _ in tasks) for seat in range(2)]
    assert min(seats) >= 8, f"too few exercises: {seats} by seat"
    chosen = chosen_moves(game, settings, [moves for moves, _ in tasks])
    wrong = [
        (moves, right, found.best_action)
        for (moves, right), found in zip(tasks, chosen, strict=True)
        if found.best_action not in right and not (found.proven and found.value[found.to_move] == 1.0)  # another, longer win
    ]
    assert not wrong, f"{len(wrong)} of {len(tasks)} wrong; (moves, right, played): {wrong[:3]}"


PLAYERS = {
    "puct": SearchSettings.for_play(TIC_TAC_TOE.spec(), 200),
    "four leaves at once": SearchSettings.for_play(TIC_TAC_TOE.spec(), 200).model_copy(update={"leaves_per_game": 4}),
    "gumbel": SearchSettings.for_play(TIC_TAC_TOE.spec(), 200).model_copy(update={"root_policy": "gumbel"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["win", "block"])
@pytest.mark.parametrize("player", PLAYERS)
@pytest.mark.parametrize("game", [TIC_TAC_TOE, CONNECT_FOUR], ids=lambda game: game.spec().name)
def test_wins_in_one_are_played_and_losses_in_one_blocked(game, player, kind):
    assert_solved(game, kind, PLAYERS[player])


@pytest.mark.slow
@pytest.mark.parametrize("game", [TIC_TAC_TOE, CONNECT_FOUR], ids=lambda game: game.spec().name)
def test_wins_in_two_are_found(game):
    assert_solved(game, "win in two", SearchSettings.for_play(TIC_TAC_TOE.spec(), 800))


@pytest.mark.slow
def test_a_search_of_tic_tac_toe_values_it_as_a_draw():
    block = SearchBlock(TIC_TAC_TOE, SearchSettings.for_play(TIC_TAC_TOE.spec(), 5000), slots=1)
    block.begin(0, seed=0, versions=[1, 1], hold=True)
    drive(block, answer_uniform)
    np.testing.assert_allclose(block.analysis(0).value, [0.0, 0.0], atol=0.15)
