"""Othello: counts, passes, ends, symmetries, notation, and the bitboards against a plain board."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import games
from games import core
from games.compiled import compiled
from games.kit import bits
from games.kit.randomness import uniform_int
from games.notation import legal_names
from games.othello import Othello, bitboard
from games.tools.perft import count_sequences, perft

SIZES = (4, 6, 8)
DIRECTIONS = [(dx, dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1) if (dx, dy) != (0, 0)]


class PlainOthello:
    """Othello on a dictionary of cells, a ray at a time."""

    def __init__(self, size: int) -> None:
        self.size = size
        high, low = size // 2, size // 2 - 1
        self.discs = {(high, low): 0, (low, high): 0, (low, low): 1, (high, high): 1}
        self.mover = 0
        self.passes = 0

    def turned(self, cell: tuple[int, int], player: int) -> set[tuple[int, int]]:
        found: set[tuple[int, int]] = set()
        for dx, dy in DIRECTIONS:
            run = []
            x, y = cell[0] + dx, cell[1] + dy
            while self.discs.get((x, y)) == 1 - player:
                run.append((x, y))
                x, y = x + dx, y + dy
            if self.discs.get((x, y)) == player:
                found.update(run)
        return found

    def cells(self, player: int) -> list[tuple[int, int]]:
        board = [(x, y) for y in range(self.size) for x in range(self.size)]
        return [cell for cell in board if cell not in self.discs and self.turned(cell, player)]

    def legal(self) -> list[int]:
        if own := self.cells(self.mover):
            return [y * self.size + x for x, y in own]
        return [self.size**2] if self.cells(1 - self.mover) else []

    def play(self, action: int) -> None:
        if action < self.size**2:
            cell = (action % self.size, action // self.size)
            for other in self.turned(cell, self.mover):
                self.discs[other] = self.mover
            self.discs[cell] = self.mover
        else:
            self.passes += 1
        self.mover = 1 - self.mover

    def planes(self, viewer: int) -> list[list[list[int]]]:
        places = [
            {cell for cell, player in self.discs.items() if player == viewer},
            {cell for cell, player in self.discs.items() if player != viewer},
            set(self.cells(viewer)),
        ]
        return [[[int((x, y) in cells) for x in range(self.size)] for y in range(self.size)] for cells in places]

    def marks(self) -> str:
        return "".join({0: "X", 1: "O", None: "."}[self.discs.get((x, y))] for y in range(self.size) for x in range(self.size))

    def difference(self) -> int:
        return sum(1 - 2 * player for player in self.discs.values())


def position(picture: str, *, mover: int = 0, size: int = 8) -> np.ndarray:
    """The state of a picture with rows from the top (those at the end may be left out): # is player 0, O player 1."""
    words = [0, 0]
    rim = (8 - size) // 2
    for y, row in enumerate(picture.split()):
        for x, mark in enumerate(row):
            if mark in "#O":
                words["#O".index(mark)] |= 1 << (8 * (y + rim) + x + rim)
    board = sum(1 << (8 * (y + rim) + x + rim) for y in range(size) for x in range(size))
    mine, other, cells = np.uint64(words[mover]), np.uint64(words[1 - mover]), np.uint64(board)
    following = int(bitboard.moves(mine, other, cells))
    if not following and not bitboard.moves(other, mine, cells):
        following = 1 << 28
    return np.array([words[0], words[1], following | mover << 27], dtype=np.uint64)


def random_state(game: Othello, rng: np.random.Generator) -> np.ndarray:
    """A position of a random game, over or not."""
    state = games.new_state(game)
    for _ in range(int(rng.integers(game.spec().max_plies))):
        if moves := games.legal(game, state):
            core.play(game, state, int(rng.choice(moves)))
    return state


@pytest.mark.slow
def test_sequence_counts_on_8_by_8_match_known_values() -> None:
    assert perft(Othello(), 8) == [4, 12, 56, 244, 1396, 8200, 55092, 390216]


@pytest.mark.slow
def test_longer_sequence_counts_and_shortest_games_match_known_values() -> None:
    counts = count_sequences(Othello(), 10)[8:]
    # the tables of the literature have 24571284 for ply 10: they carry the 228 finished games along
    assert [(count.total, count.finished) for count in counts] == [(3005288, 228), (24571284 - 228, 356)]


@pytest.mark.parametrize("size", [4, 6])
def test_sequence_counts_on_smaller_boards_agree_with_the_plain_board(size: int) -> None:
    def sequences(board: PlainOthello, moves: list[int], depth: int) -> int:
        if depth == 0:
            return 1
        total = 0
        for action in board.legal():
            after = PlainOthello(size)
            for move in [*moves, action]:
                after.play(move)
            total += sequences(after, [*moves, action], depth - 1)
        return total

    assert perft(Othello(size=size), 4)[3] == sequences(PlainOthello(size), [], 4)


@pytest.mark.slow
def test_there_are_60060_games_on_4_by_4() -> None:
    counts = count_sequences(Othello(size=4), Othello(size=4).spec().max_plies)
    assert sum(count.finished for count in counts) == 60_060
    assert counts[-1].total == 0


@compiled
def best_difference(game: Othello, stack: np.ndarray, listed: np.ndarray, ply: int, alpha: int, beta: int) -> int:
    """The lead in discs that the player to move at stack[ply] reaches against best play."""
    state = stack[ply]
    player = core.to_move(game, state)
    count = core.legal_actions(game, state, listed[ply])
    if count == 0:
        lead = bits.count_bits(state[0]) - bits.count_bits(state[1])
        return lead if player == 0 else -lead
    for i in range(count):
        stack[ply + 1] = state
        core.play(game, stack[ply + 1], listed[ply, i])
        alpha = max(alpha, -best_difference(game, stack, listed, ply + 1, -beta, -alpha))
        if alpha >= beta:
            break
    return alpha


@pytest.mark.slow
def test_the_second_player_wins_4_by_4_by_eight_discs() -> None:
    game = Othello(size=4)
    spec = game.spec()
    stack = np.zeros((spec.max_plies + 1, spec.state_size), dtype=spec.state_dtype)
    stack[0] = games.new_state(game)
    listed = np.empty((spec.max_plies + 1, spec.max_legal), dtype=np.int16)
    assert best_difference(game, stack, listed, 0, -16, 16) == -8


@pytest.mark.parametrize("size", SIZES)
def test_every_size_agrees_with_a_plain_board(size: int) -> None:
    game, rng = Othello(size=size), np.random.default_rng(size)
    passes = 0
    for _ in range(15):
        state, board = games.new_state(game), PlainOthello(size)
        while True:
            assert games.legal(game, state) == board.legal(), game.draw(state)
            assert core.is_over(game, state) == (not board.legal())
            assert (core.to_move(game, state), game.marks(state)) == (board.mover, board.marks())
            viewer = int(rng.integers(2))
            planes = bits.unpack(games.encode_for(game, state, viewer), game.spec().planes)
            assert planes.tolist() == board.planes(viewer)
            if not board.legal():
                break
            action = int(rng.choice(board.legal()))
            if action < size**2:
                turned = board.turned((action % size, action // size), board.mover)
                assert core.move_value(game, state, action) == len(turned)
            core.play(game, state, action)
            board.play(action)
        passes += board.passes
        difference = board.difference()
        assert games.final_scores(game, state) == (np.sign(difference), -np.sign(difference))
        by_margin = games.final_scores(Othello(size=size, margin=True), state)
        assert by_margin == pytest.approx((difference / size**2, -difference / size**2))
    assert passes > 0


@pytest.mark.parametrize("game", [*(Othello(size=size) for size in SIZES), Othello(size=6, margin=True)], ids=str)
def test_every_size_keeps_the_laws(game: Othello) -> None:
    games.check_game(game, games=4)


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from(SIZES))
def test_discs_are_never_removed_and_a_move_adds_one(seed: int, size: int) -> None:
    game, rng = Othello(size=size), np.random.default_rng(seed)
    state = random_state(game, rng)
    marks = game.marks(state)
    for action in games.legal(game, state):
        after = state.copy()
        core.play(game, after, action)
        changed = [(old, new) for old, new in zip(marks, game.marks(after), strict=True) if old != new]
        mine = "XO"[core.to_move(game, state)]
        if action == size**2:
            assert changed == []
        else:
            flips = int(core.move_value(game, state, action))
            assert sorted(changed) == sorted([(".", mine)] + [("OX"["XO".index(mine)], mine)] * flips)
            assert flips > 0


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from(SIZES), which=st.integers(0, 6))
def test_the_rules_are_invariant_under_every_symmetry(seed: int, size: int, which: int) -> None:
    game, rng = Othello(size=size), np.random.default_rng(seed)
    symmetry = game.spec().symmetries[which]
    state = random_state(game, rng)
    image = turned_by(game, state, symmetry)
    while moves := games.legal(game, state):
        assert games.legal(game, image) == sorted(int(symmetry.actions[action]) for action in moves)
        action = int(rng.choice(moves))
        core.play(game, state, action)
        core.play(game, image, int(symmetry.actions[action]))
        assert np.array_equal(image, turned_by(game, state, symmetry))


def turned_by(game: Othello, state: np.ndarray, symmetry: games.Symmetry) -> np.ndarray:
    """The image of a position."""
    marks = game.marks(state)
    rows = "".join(marks[cell] for cell in symmetry.cells)
    picture = " ".join(rows[game.size * y : game.size * (y + 1)] for y in range(game.size))
    return position(picture.replace("X", "#"), mover=core.to_move(game, state), size=game.size)


def test_three_symmetries_preserve_the_start_and_four_swap_its_colours() -> None:
    game = Othello()
    start = games.new_state(game)
    kept = [
        symmetry.name for symmetry in game.spec().symmetries if np.array_equal(turned_by(game, start, symmetry)[:2], start[:2])
    ]
    assert kept == ["rotate90_mirror", "rotate180", "rotate270_mirror"]
    for symmetry in game.spec().symmetries:
        if symmetry.name not in kept:
            assert np.array_equal(turned_by(game, start, symmetry)[:2], start[1::-1])


def test_the_pass_stays_the_pass_under_every_symmetry() -> None:
    assert all(symmetry.actions[64] == 64 for symmetry in Othello().spec().symmetries)


def test_the_first_move_takes_one_of_four_cells() -> None:
    game = Othello()
    assert legal_names(game, games.new_state(game)) == {"d3": 19, "c4": 26, "f5": 37, "e6": 44}
    small = Othello(size=6)
    assert list(legal_names(small, games.new_state(small))) == ["c2", "b3", "e4", "d5"]


def test_a_move_turns_discs_over_in_all_eight_directions() -> None:
    star = """
        #.#.#...
        .OOO....
        #O.O#...
        .OOOO...
        #.#OO...
        .....#..
    """
    game, state = Othello(), position(star)
    core.play(game, state, game.parse_action(state, "c3"))
    assert game.marks(state)[:48].replace("X", "#") == "#.#.#....###....#####....###O...#.#O#........#.."


def test_lines_do_not_wrap_around_the_rim() -> None:
    state = position("........ ......OO O#...... ...O#... ...#O...")
    assert list(legal_names(Othello(), state)) == ["d3", "c4", "f5", "e6"]


def test_only_a_player_without_a_cell_to_take_may_pass() -> None:
    game = Othello(size=4)
    state = position("#O.. ###. #### ##..", mover=1, size=4)
    assert legal_names(game, state) == {"pass": 16}
    assert game.caption(state) == "X 10, O 1, O must pass"
    core.play(game, state, 16)
    assert legal_names(game, state) == {"c1": 2}
    with pytest.raises(
        games.IllegalMove,
        match=r"'pass' is not a legal move here \(passing is legal only if no disc can be flipped\); legal: c1",
    ):
        game.parse_action(state, "pass")
    core.play(game, state, 2)
    assert core.is_over(game, state)
    assert games.final_scores(game, state) == (1.0, -1.0)
    assert games.legal(game, state) == []


def test_equal_numbers_of_discs_are_a_draw() -> None:
    state = position("#### #### OOOO OOOO", size=4)
    assert games.final_scores(Othello(size=4), state) == (0.0, 0.0)
    assert games.final_scores(Othello(size=4, margin=True), state) == (0.0, 0.0)


def test_the_second_player_can_win() -> None:
    state = position("OOOO OOOO OOOO OO..", size=4)
    assert core.is_over(Othello(size=4), state)
    assert games.final_scores(Othello(size=4), state) == (-1.0, 1.0)
    assert games.final_scores(Othello(size=4, margin=True), state) == (-0.875, 0.875)


def test_the_shortest_game_takes_nine_moves() -> None:
    game = Othello()
    state = games.replay(game, games.read_moves(game, "e6 f4 e3 f6 g5 d6 e7 f5 c5"))
    assert core.is_over(game, state)
    assert game.caption(state) == "X 13, O 0, over"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("d4", "'d4' is not a legal move here (d4 is occupied); legal: d3 c4 f5 e6"),
        ("a1", "'a1' is not a legal move here (a disc on a1 flips no disc); legal: d3 c4 f5 e6"),
        ("pass", "(passing is legal only if no disc can be flipped); legal: d3 c4 f5 e6"),
        ("i9", "'i9' is not a legal move here; legal: d3"),
        ("", "'' is not a legal move here; legal: d3"),
    ],
)
def test_an_illegal_move_is_rejected_with_the_reason(text: str, said: str) -> None:
    game = Othello()
    with pytest.raises(games.IllegalMove) as refusal:
        game.parse_action(games.new_state(game), text)
    assert said in str(refusal.value)


def test_no_move_can_be_parsed_after_the_end() -> None:
    game = Othello(size=4)
    with pytest.raises(games.IllegalMove, match="'a1' is not a legal move here: the game is over"):
        game.parse_action(position("#### #### OOOO OOOO", size=4), "a1")


def test_case_and_surrounding_space_are_ignored() -> None:
    game = Othello()
    assert game.parse_action(games.new_state(game), " D3 ") == 19


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"size": 5}, "othello: size=5 is out of range; it must be 4, 6 or 8"),
        ({"size": 10}, "size=10 is out of range"),
        ({"size": "six"}, "size='six' is not int"),
        ({"margin": "often"}, "margin='often' is not bool"),
        ({"rows": 6}, "has no parameter rows; expected size, margin"),
    ],
)
def test_parameters_out_of_range_are_rejected(parameters: dict[str, object], said: str) -> None:
    with pytest.raises(games.InvalidParameters) as refusal:
        games.make("othello", **parameters)
    assert said in str(refusal.value)


def test_the_bounds_on_legal_moves_have_the_documented_values() -> None:
    assert [Othello(size=size).spec().max_legal for size in SIZES] == [11, 25, 46]


def test_the_picture_shows_the_board_and_a_caption() -> None:
    game = Othello(size=6)
    state = games.replay(game, games.read_moves(game, "c2 b2"))
    assert game.draw(state).splitlines() == [
        "  a b c d e f",
        "1 . . . . . .",
        "2 . O X . . .",
        "3 . . O X . .",
        "4 . . X O . .",
        "5 . . . . . .",
        "6 . . . . . .",
        "X 3, O 3, X to move",
    ]


def test_the_svg_shows_discs_and_cells_to_take() -> None:
    game = Othello()
    document = game.draw_svg(games.new_state(game))
    assert document.startswith("<svg ")
    assert document.count("<circle") == 4 + 4
    assert "X 2, O 2, X to move" in document


@compiled
def random_games(game: Othello, count: int, seed: int, state: np.ndarray, tally: np.ndarray) -> None:
    """Play random games; tally counts wins of player 0, wins of player 1, draws, plies and passes (int64 [5])."""
    word = np.array([seed], dtype=np.uint64)
    listed = np.empty(64, dtype=np.int16)
    scores = np.empty(2, dtype=np.float32)
    for _ in range(count):
        core.reset(game, state, 0)
        while not core.is_over(game, state):
            action = listed[uniform_int(word, core.legal_actions(game, state, listed))]
            core.play(game, state, action)
            tally[3] += 1
            tally[4] += action == game.size * game.size
        core.scores(game, state, scores)
        tally[0 if scores[0] > 0 else 1 if scores[0] < 0 else 2] += 1


@pytest.mark.slow
@pytest.mark.parametrize(("size", "shares"), [(6, (0.433, 0.510, 0.057, 32.5, 0.55)), (8, (0.456, 0.503, 0.041, 60.4, 0.45))])
def test_random_games_match_the_documented_statistics(size: int, shares: tuple[float, ...]) -> None:
    game, count = Othello(size=size), 100_000
    tally = np.zeros(5, dtype=np.int64)
    random_games(game, count, 9, games.new_state(game), tally)
    assert tally[:3] / count == pytest.approx(shares[:3], abs=0.007)
    assert tally[3:] / count == pytest.approx(shares[3:], abs=0.05)
