import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from games import positions
from games.core import make
from games.errors import IllegalMove
from zerofleet.strength.matches import Opening, draw_openings, position_key

GAME = make("tic_tac_toe")


@settings(max_examples=20, deadline=None)
@given(plies=st.integers(0, 4), seed=st.integers(0, 1 << 40))
def test_openings_are_legal_unfinished_and_distinct(plies, seed):
    openings = list(zip(range(30), draw_openings(GAME, plies=plies, seed=seed), strict=False))
    keys = {position_key(GAME, opening) for _, opening in openings}
    assert len(keys) == len(openings) == min(30, {0: 1, 1: 9}.get(plies, 30))
    for _, opening in openings:
        assert len(opening.moves) == plies
        assert positions.legal(GAME, positions.replay(GAME, opening.moves))


@pytest.mark.parametrize(("plies", "supply"), [(0, 1), (1, 9), (2, 72)])
def test_the_supply_of_openings_ends_with_the_last_new_position(plies, supply):
    assert len(list(draw_openings(GAME, plies=plies, seed=5))) == supply


def test_equal_seeds_draw_equal_openings():
    def first_five(seed):
        return [opening.moves for _, opening in zip(range(5), draw_openings(GAME, plies=3, seed=seed), strict=False)]

    assert first_five(1) == first_five(1) != first_five(2)


def test_openings_that_end_the_game_are_never_drawn():
    assert list(draw_openings(GAME, plies=9, seed=0)) == []


def test_an_illegal_opening_has_no_position_key():
    with pytest.raises(IllegalMove):
        position_key(GAME, Opening(0, (4, 4)))
