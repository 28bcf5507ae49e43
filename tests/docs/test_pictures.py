"""The pictures of the games' pages are what the games draw today. `python tests/docs/test_pictures.py` draws them anew."""

from pathlib import Path

import numpy as np
import pytest

import games
from games.kit.svg import picture
from zerofleet.agents import make_agent
from zerofleet.testing import built_in_games

FOLDER = Path(__file__).parents[2] / "docs" / "games"
PLIES = {
    "abalone": 34,
    "chinese_checkers": 44,
    "chinese_checkers_rhombus": 36,
    "chinese_checkers_star37": 18,
    "connect_four": 13,
    "othello": 22,
    "rock_paper_scissors": 24,
    "take_six": 15,
    "tic_tac_toe": 5,
}
"""How far into a game among greedy players each picture is taken; the game must not be over by then."""
SEED = 6


def drawn(name: str) -> str:
    """Return the picture of a game's page."""
    game = games.make(name)
    rng = np.random.default_rng(SEED)
    player = make_agent("greedy", game)
    state = games.new_state(game, SEED)
    for _ in range(PLIES[name]):
        games.advance(game, state, player.choose(game, state, rng).action)
    return picture(game, state)


@pytest.mark.parametrize("name", sorted(PLIES))
def test_the_picture_of_a_page_equals_the_games_drawing(name):
    page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert f"(images/{name}.svg)" in page
    assert (FOLDER / "images" / f"{name}.svg").read_text(encoding="utf-8") == drawn(name), "draw them anew: see above"


def test_every_game_has_a_picture():
    assert set(built_in_games()) == set(PLIES)


if __name__ == "__main__":
    for game_name in PLIES:
        (FOLDER / "images" / f"{game_name}.svg").write_text(drawn(game_name), encoding="utf-8")
