"""Drawn positions: each position of a game can be drawn and read again, and drawings that no game reaches are refused."""

from __future__ import annotations

import numpy as np
import pytest

import games
from games import core
from games.errors import InvalidDrawing
from games.kit.stones import drawings_of, read_drawing
from games.positions import legal, new_state
from zerofleet.testing import built_in_games

DRAWN = (
    ("othello", {}),
    ("othello", {"size": 4}),
    ("abalone", {}),
    ("abalone", {"captures": 1, "layout": "belgian_daisy"}),
    ("chinese_checkers_rhombus", {}),
    ("chinese_checkers_rhombus", {"repetitions": 3, "anti_spoiling": False}),
    ("chinese_checkers_star37", {}),
    ("chinese_checkers", {}),
    ("chinese_checkers", {"players": 3, "open_corners": False}),
    ("chinese_checkers", {"players": 6}),
)
GAMES = 3
MOST_PLIES = 120


def drawn(game, state):
    """Draw a position and read the drawing."""
    return read_drawing(game, drawings_of(game), drawings_of(game).stones(state), int(core.to_move(game, state)))


def random_game(game, luck, start, plies):
    """Yield the positions of a random game before its end; most moves go forward, so that games of pieces end."""
    state = start.copy()
    for _ in range(plies):
        if core.is_over(game, state):
            return
        yield state
        actions = legal(game, state)
        worth = [core.move_value(game, state, action) for action in actions]
        forward = [action for action, value in zip(actions, worth, strict=True) if value == max(worth)]
        core.play(game, state, int(luck.choice(forward if luck.random() < 0.7 else actions)))
    if core.is_over(game, state):
        yield state


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameters"), DRAWN)
def test_a_position_is_the_same_after_it_is_drawn_and_read(name, parameters):
    game, luck = games.make(name, **parameters), np.random.default_rng(7)
    for _ in range(GAMES):
        for state in random_game(game, luck, new_state(game), MOST_PLIES):
            if core.is_over(game, state):
                continue
            again = drawn(game, state)
            assert drawings_of(game).stones(again) == drawings_of(game).stones(state)
            assert core.to_move(game, again) == core.to_move(game, state)
            assert core.repetition_key(game, again) == core.repetition_key(game, state)
            assert legal(game, again) == legal(game, state)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameters"), DRAWN)
def test_a_drawn_position_plays_on_to_the_end_as_the_position_itself(name, parameters):
    game, luck = games.make(name, **parameters), np.random.default_rng(11)
    *_, middle = (state.copy() for state in random_game(game, luck, new_state(game), 9))
    state, most = drawn(game, middle), game.spec().max_plies
    for ply in range(most + 1):
        if core.is_over(game, state):
            break
        assert ply < most, "the game outlasts its cap"
        core.play(game, state, int(luck.choice(legal(game, state))))
    scores = games.final_scores(game, state)
    assert len(scores) == game.spec().num_players


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters"),
    [("othello", {}), ("abalone", {"captures": 1}), ("chinese_checkers_rhombus", {}), ("chinese_checkers", {})],
)
def test_a_position_whose_stones_end_the_game_is_refused(name, parameters):
    game, luck, ended = games.make(name, **parameters), np.random.default_rng(3), 0
    for _ in range(12):
        *_, state = random_game(game, luck, new_state(game), 400)
        if not core.is_over(game, state) or _is_capped(game, state):
            continue
        ended += 1
        with pytest.raises(InvalidDrawing, match=r"over|has lost with|has filled the goal"):
            drawn(game, state)
    assert ended, "no game ended by its stones"


def _is_capped(game, state):
    """Return whether the plies end the game: a shorter game with the same stones goes on."""
    plies = {"abalone": int(state[2]) & 0xFFFFFFFF, "chinese_checkers_rhombus": int(state[0]) & 0xFFFFFFFF}
    return plies.get(game.spec().name, int(state[0]) >> 32 if game.spec().name == "chinese_checkers" else 0) >= (
        game.spec().max_plies
    )


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameters"), DRAWN)
def test_every_stone_has_a_cell_within_the_picture_of_the_empty_board(name, parameters):
    game = games.make(name, **parameters)
    rules = drawings_of(game)
    cells = {cell.id: cell for cell in rules.cells()}
    assert rules.stones(new_state(game)).keys() <= cells.keys()
    assert len(rules.colours) == game.spec().num_players
    assert rules.empty_board().startswith("<svg")
    clicked = {cell.id: cell for cell in game.cells(new_state(game))}
    assert all(cells[name] == cell for name, cell in clicked.items())


def test_the_games_that_can_be_drawn_are_those_with_a_board():
    by_moves = {name for name in built_in_games() if hasattr(games.make(name), "stone_cells")}
    by_rules = {name for name in built_in_games() if drawings_of(games.make(name)) is not None}
    assert by_moves == {"tic_tac_toe", "connect_four"}
    assert by_rules == {name for name, _ in DRAWN}
    assert set(built_in_games()) - by_moves - by_rules == {"take_six", "rock_paper_scissors"}


def start_of(name, **parameters):
    game = games.make(name, **parameters)
    return game, drawings_of(game).stones(new_state(game))


def refusal(game, stones, player=0):
    with pytest.raises(InvalidDrawing) as refused:
        read_drawing(game, drawings_of(game), stones, player)
    return str(refused.value)


@pytest.mark.slow
def test_an_impossible_drawing_of_othello_is_refused_with_the_reason():
    game, start = start_of("othello")
    assert "the four cells in the middle are never empty; put a disc on d4, e4" in refusal(game, {"d5": 0, "e5": 1})
    assert "leads from a1 to the middle" in refusal(game, {**start, "a1": 0})
    assert "4 discs are the start, where player 1 is to move" in refusal(game, start, 1)
    assert "4 discs are the start" in refusal(game, dict.fromkeys(start, 0))
    assert "let player 2 move" in refusal(game, {**start, "d3": 0, "d4": 0}, 0)
    assert "neither player can flip a disc" in refusal(game, {**dict.fromkeys(start, 0), "d3": 0}, 1)


@pytest.mark.slow
def test_an_impossible_drawing_of_abalone_is_refused_with_the_reason():
    game, start = start_of("abalone")
    fewer = {cell: seat for cell, seat in start.items() if cell not in ("A1", "A2", "A3", "A4", "A5", "B1")}
    assert "player 1 has 8 marbles, expected 9 to 14" in refusal(game, fewer)
    assert "player 1 has 15 marbles, expected 9 to 14" in refusal(game, {**start, "E5": 0})
    assert "has no cell J1" in refusal(game, {**start, "J1": 0})
    assert "let player 1 move" in refusal(games.make("abalone", ply_cap=1), start, 1)


@pytest.mark.slow
def test_an_impossible_drawing_of_chinese_checkers_is_refused_with_the_reason():
    for name, piece, pieces in (("chinese_checkers_rhombus", "a1", 10), ("chinese_checkers_star37", "c1", 6)):
        game, start = start_of(name)
        without = {cell: seat for cell, seat in start.items() if cell != piece}
        assert f"player 1 has {pieces - 1} pieces, expected {pieces}" in refusal(game, without)
    game, start = start_of("chinese_checkers", open_corners=False)
    moved = {cell: seat for cell, seat in start.items() if cell != "a1"}
    assert "player 1 has 9 pieces, expected 10" in refusal(game, moved)
    assert "in a corner that open_corners=False closes" in refusal(game, {**moved, "m1": 0})
    swapped = {cell: 1 - seat for cell, seat in start.items()}
    assert "player 1 has filled the goal and finished" in refusal(game, swapped)


@pytest.mark.slow
def test_the_goal_that_the_pieces_of_others_fill_ends_the_game_with_the_next_move_of_its_player():
    game, start = start_of("chinese_checkers", spoilers=3)
    goal = sorted(cell for cell, seat in start.items() if seat == 1)
    free = [cell.id for cell in drawings_of(game).cells() if cell.id not in start]
    stones = {**dict.fromkeys(goal[:9], 0), goal[9]: 1, free[0]: 0, **dict.fromkeys(free[1:10], 1)}
    assert read_drawing(game, drawings_of(game), stones, 0) is not None
    assert "player 1 has filled the goal" in refusal(game, stones, 1)


@pytest.mark.slow
def test_a_piece_of_star37_in_the_corner_of_another_player_is_refused():
    game, start = start_of("chinese_checkers_star37")
    without = {cell: seat for cell, seat in start.items() if cell not in ("c1", "c7")}
    assert "player 1 has a piece on c7, in a corner of another player" in refusal(game, {**without, "c7": 0, "c5": 1})


@pytest.mark.slow
def test_a_player_of_star37_with_all_pieces_in_the_end_zone_is_the_first_to_finish():
    game, luck = games.make("chinese_checkers_star37"), np.random.default_rng(5)
    for _ in range(40):
        for state in random_game(game, luck, new_state(game), 130):
            if int(state[0]) >> 40 & 3 and not core.is_over(game, state):
                again = drawn(game, state)
                assert int(again[0]) >> 40 & 3 == int(state[0]) >> 40 & 3
                assert legal(game, again) == legal(game, state)
                return
    pytest.fail("no player finished first in 40 games")
