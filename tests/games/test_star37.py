"""Chinese Checkers on 37 fields: the board, the actions, whole games, keys, planes, laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import games
from games import core
from games.chinese_checkers.star37 import ChineseCheckersStar37, board
from games.chinese_checkers.star37.moves import seen_by
from games.kit import bits
from games.notation import legal_names
from games.tools.perft import perft

GAME = ChineseCheckersStar37()


def points(state: np.ndarray) -> tuple[int, ...]:
    """The scores of a finished game in its points."""
    return tuple(round((score + 1) * 1.5) for score in games.final_scores(GAME, state))


def points_as_scores(actions: list[int]) -> tuple[float, ...]:
    """The scores of a game under the usual rules."""
    return games.final_scores(GAME, games.replay(GAME, actions))


def names_of_rows(rows: int, before: str) -> str:
    """A move that goes up so many rows, after some others."""
    state = games.replay(GAME, games.read_moves(GAME, before))
    return next(name for name, action in legal_names(GAME, state).items() if core.move_value(GAME, state, action) == rows)


# --- laws ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"end_zone_locks": False},
        {"corners_passable": True},
        {"moves_cap": 1},
        {"move_counter": True, "moves_cap": 20},
        {"ranked_stop": True},
    ],
    ids=str,
)
def test_every_variant_keeps_the_laws(parameters: dict[str, int]) -> None:
    games.check_game(games.make("chinese_checkers_star37", **parameters), games=4)


@pytest.mark.parametrize("moves_cap", [0, 1001])
def test_a_cap_out_of_range_is_rejected(moves_cap: int) -> None:
    with pytest.raises(games.InvalidParameters, match=rf"moves_cap={moves_cap} is out of range; it must be between 1 and 1000"):
        games.make("chinese_checkers_star37", moves_cap=moves_cap)


def test_the_game_has_three_players_a_hexagonal_lattice_and_recurring_positions() -> None:
    spec = GAME.spec()
    assert (spec.num_players, spec.num_actions, spec.max_plies, spec.planes) == (3, 320, 120, (7, 9, 9))
    assert spec.lattice == "hexagonal"
    assert spec.repeats
    assert spec.symmetries == ()


# --- board -----------------------------------------------------------------------------------------------------------


def test_the_star_has_37_fields_of_which_25_are_open_to_each_player() -> None:
    assert len(board.STAR) == len(set(board.SPOTS)) == 37
    assert (
        *((0, 6), (1, 5), (1, 6), (2, 4), (2, 5), (2, 6), (3, 3), (3, 4), (3, 5), (3, 6)),
        *((4, column) for column in range(2, 7)),
        *((5, column) for column in range(2, 6)),
        *((6, 2), (6, 3), (6, 4), (7, 2), (7, 3), (8, 2)),
    ) == board.FIELDS
    assert [len(grid) for grid in board.GRIDS] == [9, 6, 6, 4]


@pytest.mark.slow
@settings(deadline=None)
@given(st.integers(0, 2**37 - 1))
def test_three_rotations_are_the_identity_and_bits_follow_their_fields(word: int) -> None:
    once = int(seen_by(np.uint64(word), 1))
    assert int(seen_by(seen_by(np.uint64(once), 1), 1)) == word
    assert int(seen_by(np.uint64(word), 2)) == int(seen_by(np.uint64(once), 1))
    for spot, cell in enumerate(board.SPOTS):
        assert once >> board.SPOTS.index(board.turned(cell, -1)) & 1 == word >> spot & 1


def test_start_and_end_zones_lie_opposite_and_end_zones_are_disjoint() -> None:
    ends = [{board.turned(cell, player) for cell in zone(int(board.END_FIELDS))} for player in range(3)]
    starts = [{board.turned(cell, player) for cell in zone(int(board.START_FIELDS))} for player in range(3)]
    assert ends[1] == {(4, 6), (5, 5), (5, 6), (6, 4), (6, 5), (6, 6)}
    assert ends[2] == {(4, 2), (5, 1), (5, 2), (6, 0), (6, 1), (6, 2)}
    assert starts[1] == {(2, 2), (2, 3), (2, 4), (3, 2), (3, 3), (4, 2)}
    assert starts[2] == {(2, 6), (2, 7), (2, 8), (3, 6), (3, 7), (4, 6)}
    assert [{(8 - row, 8 - column) for row, column in start} for start in starts] == ends
    assert len(set.union(*ends)) == 18


def zone(fields: int) -> list[tuple[int, int]]:
    return [cell for field, cell in enumerate(board.FIELDS) if fields >> field & 1]


# --- actions ---------------------------------------------------------------------------------------------------------


def test_there_are_150_hops_169_jumps_and_a_pass() -> None:
    assert (board.HOPS, board.PASS) == (150, 319)
    cells = GAME.spec().action_cells
    assert cells.shape == (320, 2)
    assert cells[board.PASS].tolist() == [-1, -1]
    pairs = [tuple(pair) for pair in cells[: board.PASS].tolist() if pair[1] != -1]
    assert len(set(pairs)) == len(pairs) == 319 - 22  # no two fields are joined by two actions


def test_every_action_is_numbered_by_the_formula_of_its_kind() -> None:
    cells = GAME.spec().action_cells
    for field, (row, column) in enumerate(board.FIELDS):
        for direction, (down, right) in enumerate(board.DIRECTIONS):
            target = (row + down, column + right)
            wanted = 9 * target[0] + target[1] if target in board.STAR else -1
            assert cells[6 * field + direction].tolist() == [9 * row + column, wanted]
    before = 150
    for grid in board.GRIDS:
        for i, start in enumerate(grid):
            for j, end in enumerate(grid):
                wanted = [9 * start[0] + start[1], 9 * end[0] + end[1]]
                assert cells[before + len(grid) * i + j].tolist() == wanted
        before += len(grid) ** 2


def test_a_hundred_actions_are_never_legal() -> None:
    assert [len(actions) for actions in board.NEVER_LEGAL.values()] == [22, 16, 25, 8, 31]
    assert len(set().union(*board.NEVER_LEGAL.values())) == 100


def test_games_of_random_players_use_most_of_the_others() -> None:
    rng, used = np.random.default_rng(1), set()
    for _ in range(60):
        state = games.new_state(GAME)
        while legal := games.legal(GAME, state):
            used.update(legal)
            core.play(GAME, state, int(rng.choice(legal)))
    never = set().union(*board.NEVER_LEGAL.values())
    assert not used & never
    assert len(used) > 200


@pytest.mark.parametrize("player", range(3))
def test_the_opening_has_ten_moves_for_every_seat(player: int) -> None:
    state = games.new_state(GAME)
    state[0] += np.uint64(player << 48)
    assert core.to_move(GAME, state) == player
    actions = games.legal(GAME, state)
    moves = {tuple(divmod(int(cell), 9) for cell in GAME.spec().action_cells[action]) for action in actions}
    hops = {((6, c), (5, c + side)) for c in (2, 3, 4) for side in (0, 1)}
    jumps = {((7, c), (5, c + side)) for c in (2, 3) for side in (0, 2)}
    assert len(actions) == 10
    assert moves == hops | jumps
    assert sorted(core.move_value(GAME, state, action) for action in actions) == [1.0] * 6 + [2.0] * 4


def test_sequence_counts_match_known_values() -> None:
    assert perft(GAME, 5) == [10, 102, 1091, 18471, 310824]


def test_the_pass_gains_nothing_and_a_step_back_costs_a_row() -> None:
    state = games.replay(GAME, games.read_moves(GAME, "c3-c4 d7-d5 g5-f5"))
    assert core.move_value(GAME, state, board.PASS) == 0.0
    assert core.move_value(GAME, state, GAME.parse_action(state, "c4-c3")) == -1.0


# --- whole games -----------------------------------------------------------------------------------------------------

NORMAL = """
    c2-c4 d7-d5 h7-f5 d2-f6 d6-d4 g6-e6 c4-g8 c6-g4 e6-c4 c3-e5 c5-c3 h6-f4 d3-e4 d5-f3 f5-b3 e4-g6 e7-f7 g7-e7 e5-g9 f7-f5
    g5-e5 e3-g7 c3-d3 e5-a3 c1-c2 c7-c6 c4-b4 c2-e4 c6-d6 e7-c5 e4-e5 d6-e6 i7-h6 e5-e7 d3-e3 h6-g5 f6-f8 e3-g3 g5-c3 g6-f6
    e6-g6 f4-e4 f6-f7 d4-f4 e4-d4 pass f5-g5 d4-c4
"""
FOREIGN_PIECE = """
    c2-e4 d7-d5 h6-d4 d3-f5 d5-f3 h7-f7 d2-f8 c6-c4 d4-b4 e3-e5 f3-g3 g6-f6 e4-g8 c4-g4 f6-d4 e5-f6 c7-d7 g7-e5 c1-d2 d7-d3
    e5-d5 c3-g9 c5-e3 g5-a3 d2-f4 e7-g5 i7-h6 f6-g7 d3-f3 f7-e6 f4-f6 d6-c5 h6-f4 f5-f7 c5-c3 d5-b3 f6-d6 c3-d3 e6-d5 d6-e7
"""
TRIPLE = """
    d2-f4 d7-d5 h6-f6 c2-e6 d5-f3 h7-d5 f4-f5 e7-e5 f6-d4 c1-c2 c6-e4 i7-h7 c2-c4 d6-f4 h7-f7 e6-g8 e4-g4 d5-b3 c4-e6 c5-c4
    d4-b4 c3-c5 c4-d4 g6-c4 d3-d5 d4-e4 g7-e7 g8-g9 c7-d7 b3-a3 e6-g8 f3-g3 c4-b3 d5-d6 d7-d5 f7-e6 d6-f8 f4-f3 e6-c4 f5-f6
    d5-f5 g5-f4 e3-g5 e5-e3 f4-d4 g5-g7 f5-g5 d4-c3 f6-f7 e4-f4
"""
STOPPED_WITH_A_FIRST = """
    c2-c4 d7-d5 g5-f5 d2-f6 d5-d7 g6-e6 c4-g8 c5-d5 h7-g6 d3-e4 d7-f7 f5-f4 e3-e5 f7-f5 i7-e3 c1-c2 c7-c5 g6-h7 c2-c4 f5-f7
    e3-d3 f6-f8 d6-f6 h7-g6 c3-g5 c6-c7 d3-f5 f8-g9 c5-d6 f4-e3 c4-c5 d6-d4 e6-c4 e4-e6 f6-d6 c4-b4 e5-f6 f7-d7 g6-e4 f6-f7
    d5-c4 b4-b3 f7-f8 d4-e5 f5-h7 e6-f7 c4-e6 e4-d4 g5-g6 e6-e4 g7-g5 g6-g7 e5-d5 h6-i7 c5-e5 d5-c4 g5-g6 e5-f6 d6-e6 d4-d3
    f6-d6 c4-d4 g6-f6 d6-d5 e6-d6 f6-f5 d5-e6 c7-c6 d3-d5 e6-f6 d4-c3 f5-g6 f6-e6 e4-e5 h7-h6 e6-f6 d7-c7 g6-h7 f6-g6 d6-e6
    d5-c4 g6-f6 c3-d4 h7-g6 f6-d6 e7-c5 g6-f6 d6-e7 d4-e4 b3-b4 pass c6-d7 e3-f4 pass c5-c6 c4-c3 pass e5-g5 f6-e5 pass e6-d5
    f4-f5 pass e4-d4 f5-f6 pass d7-d6 h6-f4 pass d4-c4 f6-f5 pass c4-d4 f4-e3 pass c6-c5 f5-f6 pass d5-e6 e3-d3
"""
STOPPED = """
    d2-d4 e7-f7 g5-f4 c2-c4 d7-e7 g7-f6 e3-g7 d6-d7 h7-f5 d3-d5 e7-e6 f4-e4 c3-e7 c5-d6 e4-d3 c1-c2 c7-c3 g6-g5 c2-g8 e6-e4
    i7-h7 c4-g6 e4-e5 f6-e6 d4-f8 c3-c4 h6-i7 e7-g9 e5-c3 g5-f4 d5-c5 d7-d5 d3-d4 c5-e7 f7-f6 i7-h6 g6-e4 c6-c7 e6-f7 e4-g6
    d5-c5 d4-b4 g6-g5 c4-e4 f5-e5 g5-e3 e4-c6 f4-f5 e3-f4 c5-d5 e5-i7 f4-g5 d5-c4 h6-f4 g5-g6 c4-c5 f4-g5 g6-e6 c3-d4 i7-h6
    e6-g6 d4-e4 g5-e5 g6-e6 e4-e3 e5-i7 e6-g6 c5-d5 i7-g5 g6-e6 d5-d4 f5-e4 e6-g6 d4-d5 g5-f5 g6-e6 d5-d7 h6-i7 e6-g6 c6-e6
    b4-c4 g6-g5 d6-c6 h7-g6 g5-e5 e3-f3 c4-c5 e5-g5 f3-f4 f7-d5 g5-e5 f6-f7 g6-h7 e5-f6 e6-g6 e4-d3 f6-e6 c6-c4 d3-c3 e6-f6
    c4-c6 c5-b4 f6-e6 c6-c5 f5-g5 e6-d6 f4-g4 c3-b3 d6-d4 c5-c6 d5-d3 d4-d5 g4-g3 b4-c5 d5-d6 g3-g4 c5-b4 d6-e6 g4-f3 d3-e3
"""


@pytest.mark.parametrize(
    ("moves", "plies", "scores"),
    [
        (NORMAL, 48, (3, 0, 1)),  # X finishes, passes once, and Z brings its own six home
        (FOREIGN_PIECE, 40, (3, 1, 0)),  # the last field of O's end zone is held by Z
        (TRIPLE, 50, (1, 3, 1)),  # O finishes; X holds a field in the end zone of Z, and Z one in that of X
        (STOPPED_WITH_A_FIRST, 120, (3, 0, 0)),
        (STOPPED, 120, (0, 0, 0)),
    ],
    ids=["normal", "foreign piece", "triple win", "stopped with a first", "stopped"],
)
def test_each_way_to_end_a_game_has_its_scores(moves: str, plies: int, scores: tuple[int, ...]) -> None:
    actions = games.read_moves(GAME, moves)
    assert len(actions) == plies
    assert not core.is_over(GAME, games.replay(GAME, actions[:-1]))
    state = games.replay(GAME, actions)
    assert core.is_over(GAME, state)
    assert points(state) == scores
    assert games.final_scores(GAME, state) == tuple(np.float32({3: 1, 1: -1 / 3, 0: -1}[score]) for score in scores)


def test_a_longer_cap_lets_a_stopped_game_go_on() -> None:
    longer = GAME._replace(moves_cap=200)
    state = games.replay(longer, games.read_moves(GAME, STOPPED))
    assert not core.is_over(longer, state)
    assert longer.spec().max_plies == 600


def test_with_ranked_stop_a_stopped_game_gives_thirds_of_a_point_to_those_further_on() -> None:
    ranked = GAME._replace(ranked_stop=True, moves_cap=1)
    for rows, wanted in (
        ((1, 1, 1), (1 / 3, 1 / 3, 1 / 3)),
        ((2, 1, 1), (2 / 3, 1 / 6, 1 / 6)),
        ((1, 2, 1), (1 / 6, 2 / 3, 1 / 6)),
    ):
        moves = ""
        for up in rows:
            moves += names_of_rows(up, moves) + " "
        scores = games.final_scores(ranked, games.replay(ranked, games.read_moves(ranked, moves)))
        assert [(score + 1) * 1.5 for score in scores] == pytest.approx(wanted, abs=1e-6)


def test_ranked_stop_changes_nothing_where_the_game_is_decided() -> None:
    ranked = GAME._replace(ranked_stop=True)
    for moves in (NORMAL, FOREIGN_PIECE, TRIPLE):
        actions = games.read_moves(GAME, moves)
        assert games.final_scores(ranked, games.replay(ranked, actions)) == points_as_scores(actions)
    stopped = games.final_scores(ranked, games.replay(ranked, games.read_moves(GAME, STOPPED_WITH_A_FIRST)))
    assert max(stopped) == 1.0
    assert sorted((score + 1) * 1.5 for score in stopped)[:2] == pytest.approx([0, 1 / 3], abs=1e-6)


def test_the_turn_order_includes_finished_players() -> None:
    state = games.new_state(GAME)
    for ply, action in enumerate(games.read_moves(GAME, STOPPED_WITH_A_FIRST)):
        assert core.to_move(GAME, state) == ply % 3
        games.advance(GAME, state, action)


def test_standing_gives_the_points_earned_so_far() -> None:
    moves, standing = games.read_moves(GAME, NORMAL), np.empty(3, dtype=np.float32)
    seen = []
    for ply in (0, 42, 43, 48):
        core.standing(GAME, games.replay(GAME, moves[:ply]), standing)
        seen.append([round((float(score) + 1) * 1.5) for score in standing])
    assert seen == [[0, 0, 0], [0, 0, 0], [3, 0, 0], [3, 0, 1]]


def test_the_picture_shows_a_finished_game() -> None:
    state = games.replay(GAME, games.read_moves(GAME, NORMAL))
    assert GAME.draw(state).splitlines() == [
        "      g9 X g9",
        "     f8 X X g8",
        "c7 . . X X X . . i7",
        " c6 . . . . O . h6",
        "  c5 Z . . . O g5",
        " b4 Z Z . . O O g4",
        "a3 Z Z Z . . O O g3",
        "     c2 . . d2",
        "      c1 . c1",
        "X 3, O 0, Z 1, over",
    ]


# --- keys and planes ---------------------------------------------------------------------------------------------------


def test_a_recurring_position_has_the_same_key_and_another_mover_a_different_one() -> None:
    there_and_back = games.read_moves(GAME, "c3-c4 d6-d5 g6-f6 c4-c3 d5-d6 f6-g6")
    start, again = games.new_state(GAME), games.replay(GAME, there_and_back)
    assert core.key(GAME, start) == core.key(GAME, again)
    counted = GAME._replace(move_counter=True, moves_cap=3)
    assert core.key(counted, start) != core.key(counted, again)
    assert core.repetition_key(counted, start) == core.repetition_key(counted, again)
    moved = start.copy()
    moved[0] += np.uint64(1 << 48)
    assert core.repetition_key(GAME, start) != core.repetition_key(GAME, moved)


def test_the_same_pieces_have_a_different_key_when_the_game_is_over() -> None:
    game = GAME._replace(moves_cap=2)
    start, again = games.new_state(game), games.replay(game, games.read_moves(GAME, "c3-c4 d6-d5 g6-f6 c4-c3 d5-d6 f6-g6"))
    assert core.is_over(game, again)
    assert core.key(game, start) != core.key(game, again)


def test_the_planes_of_the_start_are_the_same_for_all_players() -> None:
    state = games.new_state(GAME)
    planes = bits.unpack(games.encode_for(GAME, state, 0), (7, 9, 9))
    assert planes.sum(axis=(1, 2)).tolist() == [6, 6, 6, 6, 6, 6, 37]
    assert [tuple(cell) for cell in np.argwhere(planes[1]).tolist()] == [(2, 2), (2, 3), (2, 4), (3, 2), (3, 3), (4, 2)]
    assert [tuple(cell) for cell in np.argwhere(planes[3]).tolist()] == [(0, 6), (1, 5), (1, 6), (2, 4), (2, 5), (2, 6)]
    assert all(np.array_equal(planes, bits.unpack(games.encode_for(GAME, state, seat), (7, 9, 9))) for seat in (1, 2))


def test_the_counter_fills_its_planes_one_after_the_other() -> None:
    game, full = GAME._replace(move_counter=True), []
    state = games.new_state(game)
    for action in [*games.read_moves(GAME, STOPPED), None]:
        planes = bits.unpack(games.encode_for(game, state, 0), game.spec().planes)[7:]
        assert set(planes.sum(axis=(1, 2)).tolist()) <= {0, 81}
        full.append(int(planes[:, 0, 0].sum()))
        assert planes[: full[-1]].all()
        if action is not None:
            core.play(game, state, action)
    assert full == sorted(full)
    assert [full.count(level) for level in range(9)] == [14, 13, 13, 14, 13, 13, 14, 13, 14]
