"""Chinese Checkers on the rhombus: moves, ends, scores, encodings, the two seats and the laws."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import games
from games import core
from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from games.chinese_checkers.rhombus.board import level, touching, words_of
from games.kit import bits

NAMES = [f"{'abcdefghi'[cell % 9]}{cell // 9 + 1}" for cell in range(81)]
HOME = [cell for cell in range(81) if level(cell) <= 3]
GOAL = [cell for cell in range(81) if level(cell) >= 13]
LITERAL = ChineseCheckersRhombus(anti_spoiling=False)
VARIANTS = [
    ChineseCheckersRhombus(ply_cap=60),
    ChineseCheckersRhombus(ply_cap=41, anti_spoiling=False, distance_at_cap=False),
    ChineseCheckersRhombus(ply_cap=60, repetitions=2, remembered=8),
    ChineseCheckersRhombus(ply_cap=60, repetitions=3, long_hops=True),
]


def cells(names: str) -> list[int]:
    return [NAMES.index(name) for name in names.split()]


def position(mine: Iterable[int], other: Iterable[int], *, mover: int = 0, plies: int = 0) -> np.ndarray:
    """A state with pieces of player 0 and player 1 on these cells."""
    words = [*words_of(mine), *words_of(other)]
    return np.array([plies + (plies + mover) % 2, *words], dtype=np.uint64)


def moves(game: ChineseCheckersRhombus, state: np.ndarray) -> list[str]:
    return [game.action_name(state, action) for action in games.legal(game, state)]


def play(game: ChineseCheckersRhombus, state: np.ndarray, text: str) -> None:
    for name in text.split():
        games.advance(game, state, game.parse_action(state, name))


def standing(game: ChineseCheckersRhombus, state: np.ndarray) -> tuple[float, float]:
    found = np.empty(2, dtype=np.float32)
    core.standing(game, state, found)
    return float(found[0]), float(found[1])


def planes(game: ChineseCheckersRhombus, state: np.ndarray, viewer: int) -> np.ndarray:
    return bits.unpack(games.encode_for(game, state, viewer), game.spec().planes)


placements = st.permutations(range(81)).map(lambda order: (order[:10], order[10:20]))


def test_ten_pieces_a_side_stand_in_opposite_corners() -> None:
    game = ChineseCheckersRhombus()
    marks = game.marks(games.new_state(game))
    assert [cell for cell in range(81) if marks[cell] == "X"] == HOME
    assert [cell for cell in range(81) if marks[cell] == "O"] == GOAL
    assert len(HOME) == len(GOAL) == 10


def test_either_side_has_fourteen_opening_moves() -> None:
    game = ChineseCheckersRhombus()
    state = games.new_state(game)
    first = "c1-e1 c1-c3 d1-e1 d1-d2 b2-d2 b2-b4 c2-d2 c2-c3 a3-c3 a3-a5 b3-c3 b3-b4 a4-b4 a4-a5"
    assert moves(game, state) == first.split()
    actions = games.legal(game, state)
    play(game, state, "d1-d2")
    assert games.legal(game, state) == actions  # player 1 sees the board turned
    assert len(moves(game, state)) == 14
    assert "g9-e9" in moves(game, state)


def test_a_chain_turns_corners_and_hops_over_both_sides() -> None:
    #  a1 over b1 to c1, over c2 (O) to c3, over b4 (up and to the left) to a5
    state = position(cells("a1 b1"), cells("c2 b4"))
    assert [name for name in moves(LITERAL, state) if name.startswith("a1")] == ["a1-c1", "a1-a2", "a1-c3", "a1-a5"]


def test_a_chain_back_to_its_start_is_not_a_move() -> None:
    state = position(cells("a1"), cells("b1 c2 b2"))
    assert "a1-a1" not in moves(LITERAL, state)
    assert {"a1-c1", "a1-c3"} <= set(moves(LITERAL, state))


def test_steps_and_hops_do_not_mix() -> None:
    state = position(cells("a1"), cells("c2"))
    assert moves(LITERAL, state) == ["a1-b1", "a1-a2"]  # a2-b2, then over c2, would be two moves


def test_long_hops_are_legal_only_with_the_parameter() -> None:
    state = position(cells("a1"), cells("d1"))
    assert moves(LITERAL, state) == ["a1-b1", "a1-a2"]
    assert moves(ChineseCheckersRhombus(long_hops=True), state) == ["a1-b1", "a1-g1", "a1-a2"]


@pytest.mark.parametrize("blocker", ["b1", "c1", "e1", "f1", "g1"])
def test_a_long_hop_needs_every_other_cell_on_the_way_empty(blocker: str) -> None:
    state = position(cells("a1"), cells(f"d1 {blocker}"))
    assert "a1-g1" not in moves(ChineseCheckersRhombus(long_hops=True), state)


def test_a_long_hop_may_pass_over_the_cell_the_piece_has_left() -> None:
    # e1 over d1 to c1, over c3 to c5, over e3 to g1; then over d1 again, past e1, to a1
    game = ChineseCheckersRhombus(long_hops=True)
    assert "e1-a1" in moves(game, position(cells("e1"), cells("d1 c3 e3")))
    assert "e1-a1" not in moves(game, position(cells("e1"), cells("d1 c3")))


@given(placements)
@settings(max_examples=50, deadline=None)
def test_jumps_stay_in_their_zone_and_steps_leave_it(placement: tuple[list[int], list[int]]) -> None:
    state = position(*placement)
    for action in games.legal(LITERAL, state):
        start, target = divmod(action, 81)
        same_zone = (target // 9 - start // 9) % 2 == 0 and (target % 9 - start % 9) % 2 == 0
        assert same_zone == (target not in touching(start))


def test_the_zones_have_25_20_20_and_16_cells() -> None:
    zones = [(cell // 9 % 2, cell % 9 % 2) for cell in range(81)]
    assert [zones.count(zone) for zone in ((0, 0), (0, 1), (1, 0), (1, 1))] == [25, 20, 20, 16]


def test_ten_pieces_in_the_goal_win() -> None:
    state = position([*GOAL[1:], GOAL[0] - 1], HOME)
    text = f"{NAMES[GOAL[0] - 1]}-{NAMES[GOAL[0]]}"
    for game in (ChineseCheckersRhombus(), LITERAL):
        after = state.copy()
        play(game, after, text)
        assert games.final_scores(game, after) == (1.0, -1.0)
        assert games.legal(game, after) == []


def test_nine_pieces_in_the_goal_and_a_hole_do_not_win() -> None:
    game = ChineseCheckersRhombus()
    state = position([*GOAL[1:], NAMES.index("a1")], cells("b5 c5 d5 e5 f5 a7 b7 c7 d7 e6"))
    play(game, state, "a1-b1")
    assert not core.is_over(game, state)


def test_a_parked_piece_spoils_the_goal_only_without_the_rule_against_it() -> None:
    state = position([*GOAL[2:], GOAL[0] - 1, 0], [GOAL[1], *range(10, 19)])
    text = f"{NAMES[GOAL[0] - 1]}-{NAMES[GOAL[0]]}"
    after = state.copy()
    play(ChineseCheckersRhombus(), after, text)
    assert games.final_scores(ChineseCheckersRhombus(), after) == (1.0, -1.0)
    after = state.copy()
    play(LITERAL, after, text)
    assert not core.is_over(LITERAL, after)


def test_a_goal_full_of_the_other_side_only_is_not_a_win() -> None:
    game = ChineseCheckersRhombus()
    state = position([NAMES.index("e5"), *range(9)], [*GOAL[1:], GOAL[0] - 1], mover=1)
    play(game, state, f"{NAMES[GOAL[0] - 1]}-{NAMES[GOAL[0]]}")
    assert not core.is_over(game, state)


def test_a_player_who_fills_the_last_hole_in_their_own_home_loses() -> None:
    state = position([GOAL[2], *range(9)], [GOAL[1], *GOAL[3:], GOAL[0] - 1, 40], mover=1)
    play(game := ChineseCheckersRhombus(), state, f"{NAMES[GOAL[0] - 1]}-{NAMES[GOAL[0]]}")
    assert games.final_scores(game, state) == (1.0, -1.0)


def test_player_1_can_win() -> None:
    state = position(GOAL, [*HOME[:-1], HOME[-1] + 9], mover=1)
    play(LITERAL, state, f"{NAMES[HOME[-1] + 9]}-{NAMES[HOME[-1]]}")
    assert games.final_scores(LITERAL, state) == (-1.0, 1.0)


def test_a_player_without_a_move_loses() -> None:
    #      . . X . .       c4-c3 shuts the last way out: every neighbour of O is taken, and every cell behind one
    #     X X . X X
    #      X X X X
    #       O O O
    #        O O
    #         O
    mine, other = cells("a4 b3 c2 d1 a5 b4 d2 e1 c4 i5"), cells("a1 b1 a2 a3 b2 c1")
    state = position(mine, other)
    play(LITERAL, state, "c4-c3")
    assert core.is_over(LITERAL, state)
    assert games.final_scores(LITERAL, state) == (1.0, -1.0)


def test_a_player_who_can_only_hop_has_a_move() -> None:
    state = position(cells("a4 b3 c2 d1 a5 b4 d2 e1 c4 i5"), cells("a1 b1 a2 a3 b2 c1"))
    play(LITERAL, state, "i5-i6")
    assert moves(LITERAL, state) == ["a3-c5", "a3-c3", "c1-c5", "c1-c3"]


def test_the_last_ply_is_scored_by_levels_or_as_a_draw() -> None:
    text = "a3-c3 g9-g7 c3-d3"  # X climbs 2 and 1 levels, O 2
    by_distance, drawn = ChineseCheckersRhombus(ply_cap=3), ChineseCheckersRhombus(ply_cap=3, distance_at_cap=False)
    for game, wanted in ((by_distance, 1 / 120), (drawn, 0.0)):
        state = games.replay(game, games.read_moves(game, text))
        assert core.is_over(game, state)
        assert games.final_scores(game, state) == pytest.approx((wanted, -wanted))
        assert standing(game, state) == pytest.approx((wanted, -wanted))


def test_a_win_on_the_last_ply_counts() -> None:
    game = ChineseCheckersRhombus(ply_cap=3)
    state = position([*GOAL[1:], GOAL[0] - 1], HOME, plies=2)
    play(game, state, f"{NAMES[GOAL[0] - 1]}-{NAMES[GOAL[0]]}")
    assert games.final_scores(game, state) == (1.0, -1.0)


def test_the_second_or_third_occurrence_of_a_position_is_a_draw() -> None:
    back_and_forth = "a4-a5 i6-i5 a5-a4 i5-i6"
    for times in (2, 3):
        game = ChineseCheckersRhombus(repetitions=times)
        state = games.new_state(game)
        for _ in range(times - 1):
            assert not core.is_over(game, state)
            play(game, state, back_and_forth)
        assert core.is_over(game, state)
        assert games.final_scores(game, state) == (0.0, 0.0)


def test_a_position_counts_only_while_it_is_remembered() -> None:
    triangles = "a4-a5 i6-i5 a5-b4 i5-h6 b4-a4 h6-i6"
    for remembered, drawn in ((6, False), (7, True)):
        game = ChineseCheckersRhombus(repetitions=2, remembered=remembered)
        assert core.is_over(game, games.replay(game, games.read_moves(game, triangles))) == drawn


def test_without_the_repetition_rule_positions_recur_and_take_no_state() -> None:
    game = ChineseCheckersRhombus()
    state = games.new_state(game)
    start = int(core.key(game, state))
    for _ in range(5):
        play(game, state, "a4-a5 i6-i5 a5-a4 i5-i6")
        assert int(core.key(game, state)) == start
    assert not core.is_over(game, state)
    assert game.spec().state_size == 5
    assert ChineseCheckersRhombus(repetitions=3, remembered=20).spec().state_size == 25


def test_the_key_depends_on_the_player_to_move() -> None:
    first, second = (position(HOME, GOAL, mover=mover) for mover in range(2))
    assert int(core.key(LITERAL, first)) != int(core.key(LITERAL, second))


def test_standing_is_the_lead_in_levels_unless_repetition_is_a_draw() -> None:
    game, with_rule = ChineseCheckersRhombus(), ChineseCheckersRhombus(repetitions=2)
    one_ahead = games.replay(game, games.read_moves(game, "a4-a5"))
    assert standing(game, one_ahead) == pytest.approx((1 / 120, -1 / 120))
    assert standing(with_rule, games.replay(with_rule, games.read_moves(with_rule, "a4-a5"))) == (0.0, 0.0)
    assert standing(ChineseCheckersRhombus(distance_at_cap=False), one_ahead) == (0.0, 0.0)
    assert game.caption(games.new_state(game)) == "X 120, O 120 levels to go, X to move"


@given(placements)
@settings(max_examples=50, deadline=None)
def test_rotating_the_board_and_swapping_the_sides_preserves_every_view(
    placement: tuple[list[int], list[int]],
) -> None:
    mine, other = placement
    state = position(mine, other)
    turned = position([80 - cell for cell in other], [80 - cell for cell in mine], mover=1)
    assert games.legal(LITERAL, state) == games.legal(LITERAL, turned)
    assert np.array_equal(planes(LITERAL, state, 0), planes(LITERAL, turned, 1))
    assert np.array_equal(planes(LITERAL, state, 1), planes(LITERAL, turned, 0))
    assert standing(LITERAL, state)[0] == -standing(LITERAL, turned)[0]


@given(placements, st.integers(0, 1))
@settings(max_examples=50, deadline=None)
def test_the_mirror_holds_for_both_seats(placement: tuple[list[int], list[int]], mover: int) -> None:
    mirror = LITERAL.spec().symmetries[0]
    mine, other = placement
    state = position(mine, other, mover=mover)
    image = position(mirror.cells[mine].tolist(), mirror.cells[other].tolist(), mover=mover)
    assert sorted(int(mirror.actions[action]) for action in games.legal(LITERAL, state)) == games.legal(LITERAL, image)
    for viewer in range(2):
        seen = planes(LITERAL, state, viewer).reshape(2, 81)[:, mirror.cells]
        assert np.array_equal(seen, planes(LITERAL, image, viewer).reshape(2, 81))


def test_the_mirror_swaps_rows_and_columns() -> None:
    mirror = LITERAL.spec().symmetries[0]
    assert [NAMES[cell] for cell in mirror.cells[cells("a1 b1 a2 c7 i9")]] == ["a1", "a2", "b1", "g3", "i9"]
    start, target = cells("a3 a5")
    assert int(mirror.actions[81 * start + target]) == 81 * mirror.cells[start] + mirror.cells[target]


def test_actions_are_pairs_of_cells_and_those_from_a_cell_to_itself_are_never_legal() -> None:
    spec = LITERAL.spec()
    assert spec.num_actions == 6561
    assert spec.action_cells is not None
    assert spec.action_cells[81 * 7 + 20].tolist() == [7, 20]
    assert spec.lattice == "hexagonal"
    assert spec.repeats


def test_a_move_is_worth_the_levels_it_climbs_for_either_side() -> None:
    game = ChineseCheckersRhombus()
    state = games.replay(game, games.read_moves(game, "a3-a5"))
    for name, worth in (("g9-g7", 2.0), ("f9-f8", 1.0)):
        assert core.move_value(game, state, game.parse_action(state, name)) == worth
    play(game, state, "f9-f8")
    assert core.move_value(game, state, game.parse_action(state, "a5-a3")) == -2.0
    assert core.move_value(game, state, game.parse_action(state, "a5-b4")) == 0.0


@pytest.mark.parametrize("game", VARIANTS, ids=str)
def test_every_variant_keeps_the_laws(game: ChineseCheckersRhombus) -> None:
    games.check_game(game, games=2)


@pytest.mark.slow
def test_whole_games_keep_the_laws() -> None:
    games.check_game(ChineseCheckersRhombus(), games=2)
