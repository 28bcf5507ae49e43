"""Random openings of self-play games."""

import pytest

import games
from games import positions
from selfplay_worker.openings import random_opening

GAME = games.make("tic_tac_toe")


def test_every_number_of_plies_up_to_the_bound_occurs_and_each_opening_is_legal():
    openings = [random_opening(GAME, seed=seed, most_plies=3) for seed in range(200)]
    assert {len(moves) for moves in openings} == {0, 1, 2, 3}
    assert len({moves[0] for moves in openings if moves}) == 9
    for seed, moves in enumerate(openings):
        positions.replay(GAME, moves, seed)


def test_the_seed_of_the_game_determines_its_opening():
    assert random_opening(GAME, seed=5, most_plies=4) == random_opening(GAME, seed=5, most_plies=4)


def test_no_opening_ends_the_game():
    for seed in range(50):
        state = positions.replay(GAME, random_opening(GAME, seed=seed, most_plies=100), seed)
        assert positions.legal(GAME, state)


@pytest.mark.parametrize("seed", [0, 1])
def test_games_have_no_random_opening_by_default(seed):
    assert random_opening(GAME, seed=seed, most_plies=0) == []
