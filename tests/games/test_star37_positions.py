"""The star of 37 fields against a second set of rules, on set-up positions, and turned by thirds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import games
from games import core
from games.chinese_checkers.star37 import ChineseCheckersStar37, board
from games.chinese_checkers.star37.drawing import field_name, marks
from games.errors import InvalidDrawing
from games.kit import bits
from games.kit.stones import drawings_of, read_drawing

Cell = tuple[int, int]
Board = dict[Cell, int]  # the 37 fields: 0 empty, 1 the mover, 2 the next player, 3 the previous one

GAME = ChineseCheckersStar37()
DEFAULT, UNLOCKED, THROUGH_CORNERS = GAME, GAME._replace(end_zone_locks=False), GAME._replace(corners_passable=True)

ARRAY = """
4 4 4 4 4 4 0 4 4
4 4 4 4 4 0 0 4 4
4 4 2 2 2 0 3 3 3
4 4 2 2 0 0 3 3 4
4 4 2 0 0 0 3 4 4
4 0 0 0 0 0 0 4 4
0 0 1 1 1 0 0 4 4
4 4 1 1 4 4 4 4 4
4 4 1 4 4 4 4 4 4
"""
START = {(r, c): int(v) for r, line in enumerate(ARRAY.split("\n")[1:-1]) for c, v in enumerate(line.split()) if v != "4"}
CORNERS = {(2, 2), (2, 3), (3, 2), (2, 7), (2, 8), (3, 7), (5, 1), (6, 0), (6, 1), (5, 6), (6, 5), (6, 6)}
END_ZONE = {(0, 6), (1, 5), (1, 6), (2, 4), (2, 5), (2, 6)}
STEPS = ((-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0))


# --- the second set of rules: on dictionaries, with chains of jumps searched path by path ---------------------------------


def clockwise(cell: Cell) -> Cell:
    return cell[1], 12 - cell[0] - cell[1]


def relabelled(value: int, player: int) -> int:
    return 0 if value == 0 else (value - 1 - player) % 3 + 1


def view(position: Board, player: int) -> Board:
    """The board as `player` sees it: turned so that their start is at the bottom, pieces told as mine, next, previous."""
    seen = position
    for _ in range(-player % 3):
        seen = {clockwise(cell): value for cell, value in seen.items()}
    return {cell: relabelled(value, player) for cell, value in seen.items()}


def moves_of(seen: Board, game: ChineseCheckersStar37) -> set[tuple[Cell, Cell]]:
    """Every move but the pass for the player who sees the board this way, as two fields."""
    found = set()
    for start in [cell for cell, value in seen.items() if value == 1]:
        ends = {(start[0] + dr, start[1] + dc) for dr, dc in STEPS} & {cell for cell, value in seen.items() if value == 0}
        ends |= {path[-1] for path in paths({**seen, start: 0}, [start], game)}
        locked = game.end_zone_locks and start in END_ZONE
        found |= {(start, end) for end in ends - CORNERS - {start} if end in END_ZONE or not locked}
    return found


def paths(seen: Board, path: list[Cell], game: ChineseCheckersStar37) -> Iterator[list[Cell]]:
    """Every chain of jumps that visits no field twice."""
    row, column = path[-1]
    for dr, dc in STEPS:
        over, onto = (row + dr, column + dc), (row + 2 * dr, column + 2 * dc)
        if seen.get(over, 0) == 0 or seen.get(onto, 1) != 0 or onto in path:
            continue
        if onto in CORNERS and not game.corners_passable:
            continue
        yield [*path, onto]
        yield from paths(seen, [*path, onto], game)


# --- positions -----------------------------------------------------------------------------------------------------------


def state_of(position: Board, plies: int = 0, first: int | None = None) -> np.ndarray:
    """The state of a board whose values 1, 2, 3 are players 0, 1, 2."""
    word, fields = plies << 48 | (0 if first is None else first + 1) << 40, [0, 0, 0]
    for field, cell in enumerate(board.FIELDS):
        for player in range(3):
            if position[board.turned(cell, player)] == player + 1:
                fields[player] |= 1 << field
                word |= int(board.FIELD_SPOTS[player, field])
    return np.array([word, fields[0] | fields[1] << 32, fields[2]], dtype=np.uint64)


def board_of(state: np.ndarray) -> Board:
    return {cell: ".XOZ".index(mark) for cell, mark in marks(state).items()}


def read(picture: str) -> Board:
    """The board of a picture; what stands three spaces or more to the right of it is a comment."""
    drawn = "".join(line.strip().partition("   ")[0].replace(" ", "") for line in picture.splitlines())
    return {cell: ".XOZ".index(mark) for cell, mark in zip(sorted(START), drawn, strict=True)}


def cells_of(actions: list[int]) -> set[tuple[Cell, Cell]]:
    """The two fields of each action in the mover's view, by `action_cells`."""
    pairs = [GAME.spec().action_cells[action] for action in actions if action != board.PASS]
    return {(divmod(int(start), 9), divmod(int(end), 9)) for start, end in pairs}


def scattered(rng: np.random.Generator) -> Board:
    """Six pieces for each player anywhere that they may stand."""
    position = dict.fromkeys(START, 0)
    for player in range(3):
        allowed = [clockwise(clockwise(cell)) if player == 2 else clockwise(cell) if player == 1 else cell for cell in START]
        own = [cell for cell, seen in zip(allowed, START, strict=True) if seen not in CORNERS and position[cell] == 0]
        for i in rng.choice(len(own), size=6, replace=False):
            position[own[i]] = player + 1
    return position


def random_states(count: int, seed: int) -> Iterator[np.ndarray]:
    """Positions of games of hasty players and scattered pieces in equal parts."""
    rng = np.random.default_rng(seed)
    state = games.new_state(GAME)
    for i in range(count):
        if i % 2:
            yield state_of(scattered(rng), plies=int(rng.integers(100)))
            continue
        legal = games.legal(GAME, state)
        if not legal:
            state = games.new_state(GAME)
            legal = games.legal(GAME, state)
        gains = board.ROWS_GAINED[legal]
        hasty = rng.random() < 0.8  # so that games come to their end
        core.play(GAME, state, int(rng.choice(np.array(legal)[gains == gains.max()] if hasty else legal)))
        yield state.copy()


def test_the_start_matches_the_thesis() -> None:
    assert board_of(games.new_state(GAME)) == START
    assert np.array_equal(state_of(START), games.new_state(GAME))


def test_all_players_see_the_same_start() -> None:
    assert all(view(START, player) == START for player in range(3))


@pytest.mark.slow
@pytest.mark.parametrize(("game", "count", "seed"), [(DEFAULT, 4_000, 7), (UNLOCKED, 2_000, 9), (THROUGH_CORNERS, 2_000, 10)])
def test_both_generators_list_the_same_moves(game: ChineseCheckersStar37, count: int, seed: int) -> None:
    for state in random_states(count, seed):
        if core.is_over(game, state):
            continue
        mover = core.to_move(game, state)
        finished = int(state[0]) >> 40 & 3 == mover + 1
        wanted = set() if finished else moves_of(view(board_of(state), mover), game)
        actions = games.legal(game, state)
        assert cells_of(actions) == wanted, game.draw(state)
        assert len(actions) == max(1, len(wanted))
        assert (actions == [board.PASS]) == (not wanted)


@pytest.mark.slow
def test_both_sets_of_rules_count_the_same_sequences() -> None:
    def count(position: Board, player: int, depth: int) -> int:
        if depth == 0:
            return 1
        seen = view(position, player)
        total = 0
        for start, end in moves_of(seen, GAME):
            after = view({**seen, start: 0, end: 1}, -player % 3)
            total += count(after, (player + 1) % 3, depth - 1)
        return total

    assert [count(START, 0, depth) for depth in (1, 2, 3)] == [10, 102, 1091]


# --- turned by thirds ------------------------------------------------------------------------------------------------------


def turned_to_first_seat(state: np.ndarray) -> np.ndarray:
    """The same position as the player to move sees it, with that player in seat 0."""
    mover = core.to_move(GAME, state)
    first = int(state[0]) >> 40 & 3
    seat = None if first == 0 else (first - 1 - mover) % 3
    return state_of(view(board_of(state), mover), plies=int(state[0]) >> 48, first=seat)


def at_ply(state: np.ndarray, plies: int) -> np.ndarray:
    """The position with another number of plies."""
    changed = state.copy()
    changed[0] = np.uint64(int(state[0]) & (1 << 48) - 1 | plies << 48)
    return changed


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 6])
def test_the_rules_commute_with_rotation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for given in random_states(5_000, seed):
        if core.is_over(GAME, given):
            continue
        mover = core.to_move(GAME, given)
        state, turned = at_ply(given, 30 + mover), at_ply(turned_to_first_seat(given), 30)
        actions = games.legal(GAME, state)
        assert games.legal(GAME, turned) == actions
        for seat in range(3):
            same = games.encode_for(GAME, turned, seat) == games.encode_for(GAME, state, (mover + seat) % 3)
            assert same.all()
        action = int(rng.choice(actions))
        core.play(GAME, state, action)
        core.play(GAME, turned, action)
        assert board_of(turned) == view(board_of(state), mover)
        absolute, relative = standing(state), standing(turned)
        assert relative == (*absolute[mover:], *absolute[:mover])
        assert absolute == tuple(np.roll(relative, mover))


@pytest.mark.parametrize("viewer", range(3))
def test_planes_rotated_back_match_the_board(viewer: int) -> None:
    for state in random_states(60, seed=viewer):
        planes = bits.unpack(games.encode_for(GAME, state, viewer), GAME.spec().planes)
        read_back = dict.fromkeys(START, 0)
        for seat in range(3):
            for row, column in zip(*np.nonzero(planes[seat]), strict=True):
                cell = (int(row), int(column))
                for _ in range(viewer):
                    cell = clockwise(cell)
                read_back[cell] = (viewer + seat) % 3 + 1
        assert read_back == board_of(state)


# --- set-up positions --------------------------------------------------------------------------------------------------------


NEAR_A_CORNER = """
              .
             . .
        . O . . . . .
         O . . . . .
          X . . . .           c5 jumps over c6 into the corner of O, and on over d7 to e7
         . . . . . .
        . . . . . . .
             . .
              .
"""


def test_a_chain_may_pass_a_foreign_corner_only_with_corners_passable() -> None:
    state = state_of(read(NEAR_A_CORNER))
    names = {game: set(games.notation.legal_names(game, state)) for game in (DEFAULT, THROUGH_CORNERS)}
    assert names[THROUGH_CORNERS] - names[DEFAULT] == {"c5-e7"}
    assert names[DEFAULT] == {"c5-d6", "c5-d5", "c5-c4"}


CORNERED = """
              X
             X X
        . . O X X . Z
         O O . . Z Z
          X O O . .           X could only leave the end zone or enter the corners of O and Z
         Z Z . . O .
        . . Z . . . .
             . .
              .
"""


def test_a_player_without_a_move_passes() -> None:
    state = state_of(read(CORNERED))
    assert games.legal(DEFAULT, state) == [board.PASS]
    assert board.PASS not in games.legal(UNLOCKED, state)
    games.advance(DEFAULT, state, board.PASS)
    assert core.to_move(DEFAULT, state) == 1
    assert board_of(state) == read(CORNERED)


ALMOST = """
              X
             X X
        . . . X X . .
         . . X . . .
          . O . Z O           X lacks e7, the end zone of O lacks e3
         Z Z . . O O
        Z Z . Z . O O
             . .
              .
"""


def test_a_full_end_zone_counts_only_after_a_player_is_first() -> None:
    state = state_of(read(ALMOST), plies=41)
    games.advance(GAME, state, GAME.parse_action(state, "d3-e3"))
    assert not core.is_over(GAME, state)
    assert standing(state) == (0, 0, 0)
    games.advance(GAME, state, GAME.parse_action(state, "e6-e7"))
    assert core.is_over(GAME, state)
    assert standing(state) == (3, 1, 0)


PARTED = """
              X
             X X
        . . X X X . .
         . . . . . .
          . O . Z O           X was first; the end zone of O lacks e3
         Z Z . . O O
        Z Z . Z . O O
             . .
              .
"""


def test_a_foreign_piece_can_complete_the_second_place_on_any_players_turn() -> None:
    state = state_of(read(PARTED), plies=44, first=0)
    assert standing(state) == (3, 0, 0)
    games.advance(GAME, state, GAME.parse_action(state, "d3-e3"))
    assert core.is_over(GAME, state)
    assert standing(state) == (3, 1, 0)


def test_a_drawing_in_which_a_second_end_zone_is_full_after_a_first_player_is_refused() -> None:
    cells = {field_name(cell): owner - 1 for cell, owner in read(PARTED).items() if owner}
    rules = drawings_of(GAME)
    assert not core.is_over(GAME, read_drawing(GAME, rules, cells, 1))
    cells["e3"] = cells.pop("d3")
    with pytest.raises(InvalidDrawing, match="player 1 has finished and the end zone of player 2 is full"):
        read_drawing(GAME, rules, cells, 1)


def test_a_finished_player_passes_although_pieces_could_move() -> None:
    state = state_of(read(PARTED), plies=45, first=0)
    assert len(games.legal(UNLOCKED, state_of(read(PARTED), plies=45))) > 1
    assert games.legal(UNLOCKED, state) == [board.PASS]
    with pytest.raises(games.IllegalMove, match=r"'e7-e6' .*\(X has finished\); legal: pass"):
        UNLOCKED.parse_action(state, "e7-e6")


def standing(state: np.ndarray) -> tuple[int, ...]:
    """The scores as they stand, in the points of the game."""
    scores = np.empty(3, dtype=np.float32)
    core.standing(GAME, state, scores)
    return tuple(round((float(score) + 1) * 1.5) for score in scores)
