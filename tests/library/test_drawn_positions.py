"""Positions that are drawn: legal moves to them are found wherever there are some, and only there."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import games
from games.errors import InvalidDrawing
from games.positions import legal, new_state, replay
from zerofleet.errors import InvalidRequest
from zerofleet.library.drawn_positions import drawing_board, drawn_start, moves_to

TIC_TAC_TOE = games.make("tic_tac_toe")
CONNECT_FOUR = games.make("connect_four")
NO_MOVES = "no sequence of legal moves reaches this position"


def stones_after(game, moves):
    """The stones of a position: the owner of the cell of each move."""
    stones, state = {}, new_state(game)
    for action in moves:
        (cell,) = game.action_path(state, action)
        assert cell not in stones, "a stone was placed on another"
        stones[cell] = int(games.core.to_move(game, state))
        games.core.play(game, state, action)
    return stones


def reachable(game):
    """All positions of a game, as frozen stones."""
    found, fresh = set(), [new_state(game)]
    stones = {fresh[0].tobytes(): frozenset()}
    while fresh:
        state = fresh.pop()
        here = stones[state.tobytes()]
        found.add(here)
        for action in legal(game, state):
            after = state.copy()
            games.core.play(game, after, action)
            if after.tobytes() not in stones:
                (cell,) = game.action_path(state, action)
                stones[after.tobytes()] = here | {(cell, int(games.core.to_move(game, state)))}
                fresh.append(after)
    return found


def accepts(game, drawn):
    try:
        moves = moves_to(game, drawn)
    except InvalidRequest as refused:
        if not str(refused).startswith(NO_MOVES):
            raise
        return False
    assert stones_after(game, moves) == drawn
    replay(game, moves)  # raises for an illegal move
    return True


@pytest.mark.slow
def test_exactly_the_positions_of_tic_tac_toe_can_be_drawn():
    known, cells = reachable(TIC_TAC_TOE), [cell.id for cell in drawing_board(TIC_TAC_TOE).cells]
    assert len(known) == 5478  # OEIS A008907 for n = 3
    for owners in itertools.islice(itertools.product((None, 0, 1), repeat=9), 0, None, 53):  # of 19,683 drawings
        drawn = {cell: owner for cell, owner in zip(cells, owners, strict=True) if owner is not None}
        assert accepts(TIC_TAC_TOE, drawn) == (frozenset(drawn.items()) in known), drawn


@given(st.lists(st.integers(0, 6), max_size=42))
def test_every_position_of_connect_four_that_is_reached_can_be_drawn(columns):
    state, moves = new_state(CONNECT_FOUR), []
    for column in columns:
        if column in legal(CONNECT_FOUR, state):
            games.core.play(CONNECT_FOUR, state, column)
            moves.append(column)
    drawn = stones_after(CONNECT_FOUR, moves)
    assert (replay(CONNECT_FOUR, moves_to(CONNECT_FOUR, drawn)) == state).all()


@pytest.mark.parametrize(
    "drawn",
    [
        {"d2": 0},  # in the air
        {"d1": 1},  # player 1 moves first
        {"d1": 0, "e1": 0},
        {"d1": 1, "d2": 0},  # nobody can have begun
        {"a1": 0, "b1": 0, "c1": 0, "d1": 0, "a2": 1, "b2": 1, "c2": 1, "d2": 1},  # both have four in a row
        {"a1": 0, "b1": 0, "c1": 0, "d1": 0, "d2": 1, "a2": 1, "b2": 1, "c2": 0, "c3": 1},  # played on after a win
    ],
)
def test_a_position_that_no_game_of_connect_four_reaches_is_refused(drawn):
    assert not accepts(CONNECT_FOUR, drawn)


def test_the_refusal_counts_the_stones():
    with pytest.raises(InvalidRequest, match=f"{NO_MOVES}, with 2 stones of player 1 and 0 stones of player 2"):
        moves_to(CONNECT_FOUR, {"d1": 0, "e1": 0})


def test_an_empty_board_needs_no_moves():
    assert moves_to(CONNECT_FOUR, {}) == []


@pytest.mark.parametrize(("drawn", "reason"), [({"h1": 0}, "has no cell h1"), ({"d1": 2}, "players 1 to 2, got 3")])
def test_stones_on_no_cell_and_of_no_player_are_refused(drawn, reason):
    with pytest.raises(InvalidDrawing, match=reason):
        moves_to(CONNECT_FOUR, drawn)


@pytest.mark.parametrize("game", ["take_six", "rock_paper_scissors"])
def test_a_game_without_rules_that_read_a_drawing_says_so(game):
    for ask in (drawing_board, lambda game: drawn_start(game, {}, 0)):
        with pytest.raises(
            InvalidRequest, match=f"positions of {game} cannot be drawn: the game has no rules that read a draw"
        ):
            ask(games.make(game))


def test_a_game_whose_stones_only_accumulate_is_drawn_by_the_moves_to_them():
    assert drawn_start(CONNECT_FOUR, {"d1": 0}, 1) is None
    assert not drawing_board(CONNECT_FOUR).asks_mover


def test_a_search_that_gives_up_does_not_say_that_there_are_no_moves():
    drawn = {"d1": 0, "d2": 1, "d3": 0, "c1": 1}
    for limits in ({"most": 2}, {"is_stopped": lambda: True}):
        with pytest.raises(InvalidRequest, match="was found among") as refused:
            moves_to(CONNECT_FOUR, drawn, **limits)
        assert NO_MOVES not in str(refused.value)


@pytest.mark.parametrize("game", [TIC_TAC_TOE, CONNECT_FOUR, games.make("connect_four", rows=9, columns=9)])
def test_the_cells_to_draw_on_are_where_the_moves_are_clicked(game):
    cells, state = {cell.id: cell for cell in drawing_board(game).cells}, new_state(game)
    assert len(cells) == game.spec().max_plies
    assert all(cells[cell.id] == cell for cell in game.cells(state))
