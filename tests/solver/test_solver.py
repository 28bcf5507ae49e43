"""The Connect Four solver: right scores, whatever the board, the table and the slices say."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

import games
from games import core
from games.connect_four import ConnectFour
from games.core import State
from zerofleet.agents.exact.perfect import PerfectAgent
from zerofleet.agents.exact.solver import Solver, connect_four, fits, positions
from zerofleet.agents.exact.solver.positions import random_positions
from zerofleet.agents.exact.solver.search import outlook
from zerofleet.agents.exact.solver.table import MIN_BITS, UNKNOWN, empty_table, look_up, note, scrambled
from zerofleet.errors import InvalidRequest

GAME = cast("ConnectFour", games.make("connect_four"))
SHIFT = np.uint64(64 - MIN_BITS)
BOUNDS = np.uint64(0x7FFF)
"""The two bounds of a table's word."""


@pytest.fixture(scope="module")
def solver() -> Solver:
    return Solver(GAME)


def plain_score(columns: tuple[str, ...], mover: str, known: dict[tuple[str, ...], int]) -> int:
    """The score of a 6 x 7 position by the book of rules: no bitboards, no bounds, columns as strings from below."""
    if columns in known:
        return known[columns]
    left = 42 - sum(map(len, columns))
    other = "O" if mover == "X" else "X"
    best = -99 if left else 0
    for place, column in enumerate(columns):
        if len(column) == 6:
            continue
        after = (*columns[:place], column + mover, *columns[place + 1 :])
        best = max(best, (left + 1) // 2 if has_line(after, place, mover) else -plain_score(after, other, known))
    known[columns] = best
    return best


def has_line(columns: tuple[str, ...], x: int, mark: str) -> bool:
    """Whether the top stone of a column stands in a line of four."""
    y = len(columns[x]) - 1

    def run(dx: int, dy: int) -> int:
        length = 0
        while 0 <= x + dx * (length + 1) < 7 and y + dy * (length + 1) >= 0:
            stack = columns[x + dx * (length + 1)]
            row = y + dy * (length + 1)
            if row >= len(stack) or stack[row] != mark:
                break
            length += 1
        return length

    return any(run(dx, dy) + run(-dx, -dy) >= 3 for dx, dy in ((0, 1), (1, 0), (1, 1), (1, -1)))


def mirrored(state: State) -> State:
    """The position seen in a mirror."""
    after = games.new_state(GAME)
    stacks = [GAME.column(state, 6 - x) for x in range(7)]
    for x, stack in enumerate(stacks):
        for y, mark in enumerate(stack):
            after[1 + "XO".index(mark)] |= np.uint64(1 << (7 * x + y))
    after[0] = state[0]
    return after


@pytest.mark.slow
def test_scores_of_late_positions_equal_a_plain_search(solver: Solver) -> None:
    for state, _ in zip(random_positions(GAME, plies=range(32, 40), seed=1), range(40), strict=False):
        columns = tuple(GAME.column(state, x) for x in range(7))
        mover = "XO"[core.to_move(GAME, state)]
        assert solver.score(state)[0] == plain_score(columns, mover, {}), GAME.draw(state)


@pytest.mark.parametrize(
    ("rows", "columns", "connect"), [(20, 3, 4), (31, 2, 4), (31, 2, 3), (15, 4, 5), (11, 5, 6), (9, 6, 7), (6, 7, 4)]
)
def test_a_win_is_seen_where_the_next_stone_ends_the_game_and_nowhere_else(rows: int, columns: int, connect: int) -> None:
    game = cast("ConnectFour", games.make("connect_four", rows=rows, columns=columns, connect=connect))
    board, rng = connect_four.board_of(game), np.random.default_rng(3)
    for _ in range(30):
        state = games.new_state(game)
        while actions := games.legal(game, state):
            mine, taken = state[1 + core.to_move(game, state)], state[1] | state[2]
            won = []
            for action in actions:
                after = state.copy()
                core.play(game, after, action)
                if core.is_over(game, after) and max(games.final_scores(game, after)) == 1.0:
                    won.append(action)
            wins = int(outlook(board, mine, taken).wins)
            assert [x for x in range(columns) if wins >> x * (rows + 1) & (1 << rows + 1) - 1] == won, game.draw(state)
            core.play(game, state, int(rng.choice(actions)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "columns", "connect", "value"), [(4, 5, 4, 0), (5, 4, 4, 0), (3, 5, 3, 1), (2, 3, 2, 1), (4, 5, 3, 1)]
)
def test_values_of_small_boards_equal_those_of_the_generic_agent(rows: int, columns: int, connect: int, value: int) -> None:
    game = cast("ConnectFour", games.make("connect_four", rows=rows, columns=columns, connect=connect))
    solver, perfect, rng = Solver(game), PerfectAgent(game), np.random.default_rng(2)
    assert np.sign(solver.score(games.new_state(game))[0]) == value == perfect.value
    for _ in range(20):
        state = games.new_state(game)
        while actions := games.legal(game, state):
            scored, wanted = solver.scores(state), perfect.analyse(state).values.tolist()
            assert np.sign(scored.scores).tolist() == wanted, game.draw(state)
            kept, best = solver.keeping(state), solver.best(state)
            assert kept.score == max(wanted)
            assert kept.actions.tolist() == scored.actions[np.array(wanted) == max(wanted)].tolist()
            assert best.score == scored.scores.max()
            assert best.actions.tolist() == scored.best().tolist()
            assert [solver.lost(state, action) for action in actions] == (scored.scores.max() - scored.scores).tolist()
            games.advance(game, state, int(rng.choice(actions)))


def test_mirrored_positions_have_mirrored_scores(solver: Solver) -> None:
    for state, _ in zip(random_positions(GAME, plies=range(20, 30), seed=3), range(20), strict=False):
        scored, turned = solver.scores(state), solver.scores(mirrored(state))
        assert (6 - turned.actions).tolist() == scored.actions.tolist()[::-1]
        assert turned.scores.tolist() == scored.scores.tolist()[::-1]


@pytest.mark.slow
def test_the_score_predicts_the_length_of_perfect_play(solver: Solver) -> None:
    rng = np.random.default_rng(4)
    seen = set()
    for start, _ in zip(random_positions(GAME, plies=range(16, 20), seed=5), range(12), strict=False):
        state = start.copy()
        foretold = solver.score(state)[0]
        mover = core.to_move(GAME, state)
        while not core.is_over(GAME, state):
            best = solver.best(state)
            assert best.score == (foretold if core.to_move(GAME, state) == mover else -foretold)
            games.advance(GAME, state, int(rng.choice(best.actions)))
        result = games.final_scores(GAME, state)[mover]
        plies = int(state[0]) & 0xFFFFFFFF
        assert foretold == int(result) * ((44 - plies) // 2)
        assert -solver.score(state)[0] == (foretold if core.to_move(GAME, state) != mover else -foretold)
        seen.add(result)
    assert seen >= {-1.0, 1.0}


def test_immediate_wins_and_unavoidable_losses_have_known_scores(solver: Solver) -> None:
    three = games.replay(GAME, games.read_moves(GAME, "d d e e c"))
    assert solver.scores(three).scores.tolist() == [-18] * 7
    assert solver.score(three)[0] == -18
    to_win = games.replay(GAME, games.read_moves(GAME, "d d e e c c"))
    assert solver.best(to_win).actions.tolist() == [1, 5]
    assert solver.score(to_win)[0] == 18


@pytest.mark.slow
def test_a_score_does_not_depend_on_the_table_or_on_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    states = [state for state, _ in zip(random_positions(GAME, plies=range(16, 24), seed=6), range(10), strict=False)]
    used = Solver(GAME)
    first = [used.score(state)[0] for state in states]
    again = [used.score(state) for state in states]
    assert [score for score, _ in again] == first
    monkeypatch.setattr(connect_four, "SLICE_NODES", 7)
    sliced = Solver(GAME)
    assert [sliced.score(state)[0] for state in states] == first
    assert sum(nodes for _, nodes in again) < sum(sliced.score(state)[1] for state in states) + 1_000


def test_a_position_that_is_too_hard_is_refused() -> None:
    with pytest.raises(
        InvalidRequest, match=r"^connect_four after 2 plies is too hard: the search exceeds 1,000 positions.*a later position"
    ):
        Solver(GAME, max_nodes=1000).score(games.replay(GAME, [3, 3]))


def test_boards_of_more_than_64_bits_and_other_games_do_not_fit() -> None:
    large = cast("ConnectFour", games.make("connect_four", rows=7, columns=9))
    assert not fits(large)
    assert not fits(games.make("tic_tac_toe"))
    assert fits(games.make("connect_four", rows=7, columns=8))
    with pytest.raises(InvalidRequest, match=r"too large for the solver; want \(rows \+ 1\) \* columns of at most 64"):
        Solver(large)


def test_random_positions_are_open_and_follow_from_the_seed() -> None:
    found = [state for state, _ in zip(random_positions(GAME, plies=range(14, 16), seed=7), range(30), strict=False)]
    again = [state for state, _ in zip(random_positions(GAME, plies=range(14, 16), seed=7), range(30), strict=False)]
    assert [state.tolist() for state in found] == [state.tolist() for state in again]
    assert {int(state[0]) for state in found} == {14, 15}
    for state in found:
        for action in games.legal(GAME, state):
            after = state.copy()
            core.play(GAME, after, action)
            assert not core.is_over(GAME, after)


def test_plies_without_open_positions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "FRUITLESS_DRAWS", 100)
    game = cast("ConnectFour", games.make("connect_four", rows=2, columns=2, connect=2))
    with pytest.raises(InvalidRequest, match="no open positions of 3 to 3 plies"):
        next(random_positions(game, plies=range(3, 4), seed=0))


def test_a_table_never_confuses_positions_and_keeps_expensive_results() -> None:
    table = empty_table()
    place = np.uint64(5) << np.uint64(63 - 20)
    products = [place | np.uint64(low) for low in (1, 2, 1 << 41, (1 << 41) + 1)]
    assert all(look_up(table, product, SHIFT) == UNKNOWN for product in products)
    note(table, products[0], SHIFT, np.uint64(0x4142), np.uint64(1000))
    for product in products[1:]:
        assert look_up(table, product, SHIFT) == UNKNOWN
        note(table, product, SHIFT, np.uint64(0x4041), np.uint64(3))
    assert look_up(table, products[0], SHIFT) & BOUNDS == 0x4142
    assert look_up(table, products[1], SHIFT) == UNKNOWN
    assert look_up(table, products[3], SHIFT) & BOUNDS == 0x4041


@pytest.mark.parametrize("first", [0, 12345, 2**61])
def test_two_codes_whose_products_differ_in_bit_42_alone_are_distinguished(first: int) -> None:
    table = empty_table()
    codes = np.array([first, (first + 3633981 * 2**42) % 2**64], dtype=np.uint64)
    one, other = np.uint64(scrambled(codes[0])), np.uint64(scrambled(codes[1]))
    assert int(one) ^ int(other) == 1 << 42
    note(table, one, SHIFT, np.uint64(0x4145), np.uint64(5))
    assert look_up(table, one, SHIFT) & BOUNDS == 0x4145
    assert look_up(table, other, SHIFT) == UNKNOWN


@pytest.mark.parametrize("bits", [MIN_BITS, MIN_BITS + 1, MIN_BITS + 2])
def test_place_and_stored_bits_together_determine_a_code(bits: int) -> None:
    """The products of random codes, with each of their bits flipped in turn."""
    shift = np.uint64(64 - bits)
    table = empty_table(bits)
    for code in np.random.default_rng(4).integers(2**64, size=20, dtype=np.uint64):
        product = np.uint64(int(code) * 0x9E3779B97F4A7C15 % 2**64)
        assert scrambled(code) == product
        note(table, product, shift, np.uint64(0x2060), np.uint64(2**40))
        assert look_up(table, product, shift) & BOUNDS == 0x2060
        assert all(look_up(table, product ^ np.uint64(1 << bit), shift) == UNKNOWN for bit in range(64))


def test_a_table_too_small_to_distinguish_positions_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot distinguish all positions"):
        empty_table(MIN_BITS - 1)
