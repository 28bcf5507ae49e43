"""Cells for clicks, in every game: each legal action has a path of its own over cells that lie within the picture."""

from __future__ import annotations

import re

import numpy as np
import pytest

import games
from games.pictures import seen_picture
from games.positions import legal, new_state
from zerofleet.library.seated_game import SeatedGame
from zerofleet.testing import built_in_games

PLIES = 12
TAKE_SIX = games.make("take_six")


def require_paths(game, state):
    """Require the contract of `games.kit.cells` in a position."""
    cells = {cell.id: cell for cell in game.cells(state)}
    assert len(cells) == len(game.cells(state)), "two cells have one id"
    seen = seen_picture(game, state, int(games.core.to_move(game, state)))
    width, height = map(float, re.search(r'width="([\d.]+)" height="([\d.]+)"', seen).groups())
    for cell in cells.values():
        assert cell.radius <= cell.x <= width - cell.radius, cell
        assert cell.radius <= cell.y <= height - cell.radius, cell
    names = {game.action_path(state, action): game.action_name(state, action) for action in legal(game, state)}
    assert len(names) == len(legal(game, state)), "two actions have one path"
    for path, name in names.items():
        assert path or name == "pass"
        assert set(path) <= cells.keys(), (name, path)
        assert not any(path[:n] in names for n in range(1, len(path))), f"the path of another action begins that of {name}"


@pytest.mark.slow
@pytest.mark.parametrize("name", built_in_games())
def test_every_action_has_its_own_path_over_cells_within_the_picture(name):
    game, luck = games.make(name), np.random.default_rng(3)
    state = new_state(game, seed=5)
    for _ in range(PLIES):
        if games.core.is_over(game, state):
            break
        require_paths(game, state)
        games.core.play(game, state, int(luck.choice(legal(game, state))))


@pytest.mark.slow
@pytest.mark.parametrize("row_choice", ["needed", "after"])
def test_take_six_has_paths_with_each_rule_for_rows(row_choice):
    game, luck = games.make("take_six", row_choice=row_choice), np.random.default_rng(1)
    state = new_state(game, seed=8)
    while not games.core.is_over(game, state):
        require_paths(game, state)
        games.core.play(game, state, int(luck.choice(legal(game, state))))
    assert game.cells(state) == ()


@pytest.mark.slow
def test_a_push_and_a_sidestep_of_the_same_marbles_have_different_second_cells():
    game = games.make("abalone")
    state = new_state(game)
    assert game.action_path(state, game.parse_action(state, "A1NE")) == ("A1", "D4")
    assert game.action_path(state, game.parse_action(state, "C3C4NW")) == ("C3", "C4", "D4")


@pytest.mark.slow
def test_the_cells_of_a_game_with_hidden_hands_are_those_of_the_player_to_move():
    state = new_state(TAKE_SIX, seed=7)
    seen = [TAKE_SIX.draw_for(state, seat).split(f"player {seat + 1}:")[1].splitlines()[0] for seat in (0, 1)]
    hands = [set(re.findall(r"\d+", line.split("|")[1])) for line in seen]
    cards = {cell.id for cell in TAKE_SIX.cells(state)} - {"row 1", "row 2", "row 3", "row 4"}
    assert cards == hands[0]
    assert not cards & hands[1]


@pytest.mark.slow
def test_a_seat_that_waits_receives_no_cells_of_another_hand():
    played = SeatedGame(TAKE_SIX, seat=1, seed=7)
    assert (played.cells(), played.paths()) == ((), {})
    played.moves.append(legal(TAKE_SIX, played.state())[0])
    assert played.is_turn
    assert {path[0] for path in played.paths().values()} <= {cell.id for cell in played.cells()}


@pytest.mark.slow
def test_the_picture_for_play_does_not_show_a_secret_choice():
    game = games.make("rock_paper_scissors")
    before, after = new_state(game), games.replay(game, [2])
    for viewer in (0, 1):
        assert game.draw_svg_for(after, viewer) == game.draw_svg_for(before, viewer)
