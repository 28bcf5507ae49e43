"""Chinese Checkers on 121 fields: counts, ends, places, views, notation, and the tables against a plain board."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import games
from games import core
from games.chinese_checkers.star121 import ChineseCheckers
from games.chinese_checkers.star121 import board as star
from games.compiled import compiled
from games.kit import bits
from games.kit.randomness import uniform_int
from games.notation import legal_names
from games.tools.perft import perft

Place = tuple[int, int]
"""Row from the top, and column in half steps from the left."""

PASS = 121 * 121
STEPS = ((-1, -1), (-1, 1), (0, -2), (0, 2), (1, -1), (1, 1))
TIPS = ((16, 12), (12, 0), (4, 0), (0, 12), (4, 24), (12, 24))
BOARD_BY_CORNER = """\
            3
           3 3
          3 3 3
         3 3 3 3
2 2 2 2 . . . . . 4 4 4 4
 2 2 2 . . . . . . 4 4 4
  2 2 . . . . . . . 4 4
   2 . . . . . . . . 4
    . . . . . . . . .
   1 . . . . . . . . 5
  1 1 . . . . . . . 5 5
 1 1 1 . . . . . . 5 5 5
1 1 1 1 . . . . . 5 5 5 5
         0 0 0 0
          0 0 0
           0 0
            0
"""
SEATS = {2: (0, 3), 3: (0, 2, 4), 4: (0, 1, 3, 4), 6: (0, 1, 2, 3, 4, 5)}
VARIANTS = [
    ChineseCheckers(),
    ChineseCheckers(leave_goal=False, open_corners=False),
    ChineseCheckers(players=3, spoilers=0, places=True),
    ChineseCheckers(players=4, spoilers=9, open_corners=False),
    ChineseCheckers(players=6, leave_goal=False, by_distance=False, places=True),
]


MARKS = {(y, x): mark for y, row in enumerate(BOARD_BY_CORNER.splitlines()) for x, mark in enumerate(row) if mark != " "}
BOARD = sorted(MARKS)
CORNERS = [{place for place, mark in MARKS.items() if mark == str(corner)} for corner in range(6)]
MIDDLE = {place for place, mark in MARKS.items() if mark == "."}
NAMES = {
    place: f"{'qponmlkjihgfedcba'[y]}{i + 1}"
    for y, row in itertools.groupby(BOARD, key=lambda place: place[0])
    for i, place in enumerate(row)
}


class PlainBoard:
    """The game on a dictionary of places, in half steps, without turning anything."""

    def __init__(self, game: ChineseCheckers) -> None:
        self.game = game
        self.corners = SEATS[game.players]
        self.pieces = {place: player for player, corner in enumerate(self.corners) for place in CORNERS[corner]}
        self.mover, self.plies = 0, 0
        self.finished: list[int] = []

    def goal(self, player: int) -> set[Place]:
        return CORNERS[(self.corners[player] + 3) % 6]

    def over(self) -> bool:
        wanted = self.game.players - 1 if self.game.places else 1
        return len(self.finished) >= wanted or self.plies == self.game.rounds * self.game.players

    def targets(self, origin: Place) -> set[Place]:
        player = self.pieces.pop(origin)
        places = set(BOARD)
        found = {(origin[0] + dy, origin[1] + dx) for dy, dx in STEPS} & places - set(self.pieces)

        def jump(place: Place) -> None:
            for dy, dx in STEPS:
                over, landing = (place[0] + dy, place[1] + dx), (place[0] + 2 * dy, place[1] + 2 * dx)
                if over in self.pieces and landing in places and landing not in self.pieces and landing not in found:
                    found.add(landing)
                    jump(landing)

        jump(origin)
        self.pieces[origin] = player
        found.discard(origin)
        if not self.game.open_corners:
            found &= MIDDLE | CORNERS[self.corners[player]] | self.goal(player)
        if not self.game.leave_goal and origin in self.goal(player):
            found &= self.goal(player)
        return found

    def legal(self) -> set[tuple[Place, Place] | None]:
        if self.over():
            return set()
        own = [place for place, player in self.pieces.items() if player == self.mover]
        return {(origin, target) for origin in own for target in self.targets(origin)} or {None}

    def play(self, move: tuple[Place, Place] | None) -> None:
        player = self.mover
        if move is not None:
            self.pieces[move[1]] = self.pieces.pop(move[0])
        self.plies += 1
        holders = [self.pieces.get(place) for place in self.goal(player)]
        if None not in holders and holders.count(player) >= 10 - self.game.spoilers:
            self.finished.append(player)
        self.mover = (player + 1) % self.game.players
        while not self.over() and self.mover in self.finished:
            self.mover = (self.mover + 1) % self.game.players

    def names(self) -> set[str]:
        return {"pass" if move is None else f"{NAMES[move[0]]}-{NAMES[move[1]]}" for move in self.legal()}

    def gained(self, player: int) -> int:
        tip = TIPS[(self.corners[player] + 3) % 6]
        depth = [rows_below(tip, place) for place, owner in self.pieces.items() if owner == player]
        return 140 - sum(depth)

    def planes(self, viewer: int) -> np.ndarray:
        corner = self.corners[viewer]
        wanted = [
            *(
                {place for place, owner in self.pieces.items() if owner == (viewer + seat) % self.game.players}
                for seat in range(self.game.players)
            ),
            CORNERS[corner],
            CORNERS[(corner + 3) % 6],
            set(BOARD),
            *([set(BOARD) if viewer in (0, 2) else set()] if self.game.players == 4 else []),
        ]
        found = np.zeros((len(wanted), 17, 17), dtype=np.uint8)
        for plane, places in enumerate(wanted):
            for place in places:
                found[plane, *seen_from(corner, place)] = 1
        return found


def rows_below(tip: Place, place: Place) -> int:
    """How many rows a place lies from a tip, across the axis through the tip and the centre."""
    axis = (tip[0] - 8) * math.sqrt(3) / 2, (tip[1] - 12) / 2
    length = math.hypot(*axis)
    along = ((place[0] - 8) * math.sqrt(3) / 2 * axis[0] + (place[1] - 12) / 2 * axis[1]) / length
    return round((length - along) / (math.sqrt(3) / 2))


def seen_from(corner: int, place: Place) -> tuple[int, int]:
    """The cell of a place in planes that are turned so that a corner lies at the bottom: by angles, not by tables."""
    down, right = (place[0] - 8) * math.sqrt(3) / 2, (place[1] - 12) / 2
    angle = math.radians(60 * corner)  # corners are counted clockwise; the board is turned the other way
    down, right = down * math.cos(angle) - right * math.sin(angle), down * math.sin(angle) + right * math.cos(angle)
    row = round(down / (math.sqrt(3) / 2))
    return row + 8, round(right - row / 2) + 8


def likely_moves(game: ChineseCheckers, state: np.ndarray, rng: np.random.Generator) -> int:
    """A legal action, one that goes forward more often than not."""
    moves = games.legal(game, state)
    if rng.random() < 0.3:
        return int(rng.choice(moves))
    return max(moves, key=lambda action: core.move_value(game, state, action) + 2 * rng.random())


def walk(game: ChineseCheckers, seed: int, plies: int) -> Iterator[tuple[np.ndarray, int]]:
    """Positions of a game of likely moves, and the move that is played next."""
    rng = np.random.default_rng(seed)
    state = games.new_state(game)
    for _ in range(plies):
        if core.is_over(game, state):
            return
        action = likely_moves(game, state, rng)
        yield state, action
        core.play(game, state, action)


def position(game: ChineseCheckers, *, mover: int = 0, **fields: str) -> np.ndarray:
    """A position with the pieces of players p0, p1, .. on fields given by name."""
    state = np.zeros(game.spec().state_size, dtype=np.uint64)
    state[0] = mover
    numbers = {NAMES[place]: number for number, place in enumerate(BOARD)}
    for player in range(game.players):
        state[1 + 2 * player : 3 + 2 * player] = star.words_of([numbers[name] for name in fields[f"p{player}"].split()])
    return state


TOP = "q1 p1 p2 o1 o2 o3 n1 n2 n3 n4"
BOTTOM = "a1 b1 b2 c1 c2 c3 d1 d2 d3 d4"
ROW_I = "i1 i2 i3 i4 i5 i6 i7 i8 i9"


@pytest.mark.slow
def test_sequence_counts_of_two_players_match_known_values() -> None:
    assert perft(ChineseCheckers(), 4) == [14, 196, 4760, 115600]


def test_sequence_counts_of_more_players_match_known_values() -> None:
    assert perft(ChineseCheckers(players=3), 4) == [14, 196, 2744, 66640]
    assert perft(ChineseCheckers(players=4), 3) == [14, 199, 2786]
    assert perft(ChineseCheckers(players=6), 3) == [14, 199, 2828]


def test_sequence_counts_with_closed_corners_match_known_values() -> None:
    assert perft(ChineseCheckers(open_corners=False), 4) == [14, 196, 4648, 110224]


@pytest.mark.slow
@pytest.mark.parametrize("game", VARIANTS, ids=str)
def test_the_plain_board_gives_the_same_sequence_counts(game: ChineseCheckers) -> None:
    def count(moves: list[tuple[Place, Place] | None], depth: int) -> int:
        board = PlainBoard(game)
        for move in moves:
            board.play(move)
        following = board.legal()
        return len(following) if depth == 1 else sum(count([*moves, move], depth - 1) for move in following)

    assert [count([], depth) for depth in (1, 2, 3)] == perft(game, 3)


def test_the_star_has_121_fields_and_six_corners_of_ten() -> None:
    assert len(BOARD) == 121 == len(star.PLACES)
    assert [len(corner) for corner in CORNERS] == [10] * 6
    for corner in range(6):
        assert [BOARD[field] for field in star.corner_fields(corner)] == sorted(CORNERS[corner])


def test_six_rotations_are_the_identity_and_the_mirror_is_its_own_inverse() -> None:
    everywhere = np.arange(121)
    for corner in range(6):
        assert (star.TURNED[(6 - corner) % 6][star.TURNED[corner]] == everywhere).all()
        cells = [divmod(int(star.CELLS[star.TURNED[corner, field]]), 17) for field in range(121)]
        assert cells == [seen_from(corner, place) for place in BOARD]
    assert (star.MIRROR[star.MIRROR] == everywhere).all()


@pytest.mark.slow
@pytest.mark.parametrize("game", VARIANTS, ids=str)
def test_whole_games_agree_with_the_plain_board(game: ChineseCheckers) -> None:
    game = game._replace(rounds=120)
    board = PlainBoard(game)
    by_name = {name: place for place, name in NAMES.items()}
    viewers = itertools.cycle(range(game.players))
    for state, action in walk(game, 3, 1000):
        names = legal_names(game, state)
        assert set(names) == board.names(), game.draw(state)
        assert len(names) <= game.spec().max_legal
        assert core.to_move(game, state) == board.mover
        viewer = next(viewers)
        planes = bits.unpack(games.encode_for(game, state, viewer), game.spec().planes)
        assert np.array_equal(planes, board.planes(viewer))
        assert [place for place, owner in zip(BOARD, game.owners(state), strict=True) if owner >= 0] == sorted(board.pieces)
        name = game.action_name(state, action)
        before = board.gained(board.mover), board.mover
        board.play(None if name == "pass" else tuple(by_name[field] for field in name.split("-")))  # type: ignore[arg-type]
        assert core.move_value(game, state, action) == board.gained(before[1]) - before[0]
    core.play(game, state, action) if not core.is_over(game, state) else None
    assert board.over()
    assert core.is_over(game, state)


@pytest.mark.slow
@pytest.mark.parametrize("game", VARIANTS, ids=str)
def test_every_variant_keeps_the_laws(game: ChineseCheckers) -> None:
    games.check_game(game._replace(rounds=20), games=2)


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), game=st.sampled_from(VARIANTS))
def test_moves_are_steps_or_preserve_the_parity_of_row_and_column(seed: int, game: ChineseCheckers) -> None:
    for state, action in walk(game, seed, 30):
        origin, target = (star.PLACES[field] for field in divmod(action, 121))
        gap = (origin[0] - target[0], origin[1] - target[1])
        assert gap in star.DIRECTIONS or (gap[0] % 2, gap[1] % 2) == (0, 0)
        owners = game.owners(state)
        assert [owners.count(player) for player in range(game.players)] == [10] * game.players


def one_seat_on(game: ChineseCheckers, state: np.ndarray) -> np.ndarray:
    """The position with every piece turned to the next seat and given to its player, who is to move."""
    turn = (6 - 6 // game.players) % 6
    image = state.copy()
    for player in range(game.players):
        following = (player + 1) % game.players
        image[1 + 2 * following : 3 + 2 * following] = star.turned(state[1 + 2 * player], state[2 + 2 * player], turn)
    image[0] = state[0] - np.uint64(core.to_move(game, state)) + np.uint64((core.to_move(game, state) + 1) % game.players)
    return image


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), players=st.sampled_from([2, 3, 6]))
def test_the_rules_are_invariant_under_rotation_of_the_seats(seed: int, players: int) -> None:
    game = ChineseCheckers(players=players)
    now, then = np.empty(players, dtype=np.float32), np.empty(players, dtype=np.float32)
    for state, action in walk(game, seed, 40):
        image = one_seat_on(game, state)
        assert games.legal(game, image) == games.legal(game, state)
        core.play(game, image, action)
        after = state.copy()
        core.play(game, after, action)
        assert np.array_equal(image[1:], one_seat_on(game, after)[1:])
        assert core.is_over(game, image) == core.is_over(game, after)
        assert (core.to_move(game, after) + 1) % players == core.to_move(game, image)
        for viewer in range(players):
            following = (viewer + 1) % players
            assert np.array_equal(games.encode_for(game, image, following), games.encode_for(game, after, viewer))
        core.standing(game, after, now)
        core.standing(game, image, then)
        assert np.array_equal(then, np.roll(now, 1))


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_scores_by_distance_are_leads_in_rows(seed: int) -> None:
    for game in (ChineseCheckers(rounds=15), ChineseCheckers(players=3, rounds=15)):
        board = PlainBoard(game)
        by_name = {name: place for place, name in NAMES.items()}
        for state, action in walk(game, seed, 45):
            origin, target = (by_name[field] for field in game.action_name(state, action).split("-"))
            board.play((origin, target))
        assert core.is_over(game, state)
        gained = [board.gained(player) / 120 for player in range(game.players)]
        wanted = [own - (sum(gained) - own) / (game.players - 1) for own in gained]
        assert games.final_scores(game, state) == pytest.approx(wanted, abs=1e-6)
        plain = game._replace(by_distance=False)
        assert games.final_scores(plain, state) == (0.0,) * game.players


def test_two_players_start_in_opposite_corners_with_equal_planes() -> None:
    game = ChineseCheckers()
    state = games.new_state(game)
    assert np.array_equal(games.encode_for(game, state, 0), games.encode_for(game, state, 1))
    names = legal_names(game, state)
    assert len(names) == 14
    core.play(game, state, names["d1-e5"])
    assert legal_names(game, state)["n4-m9"] == names["d1-e5"]


def test_a_full_goal_wins() -> None:
    game = ChineseCheckers()
    state = position(game, p0="q1 p1 p2 o1 o2 o3 n1 n2 n3 m8", p1=f"{ROW_I} a1")
    core.play(game, state, game.parse_action(state, "m8-n4"))
    assert core.is_over(game, state)
    assert games.final_scores(game, state) == (1.0, -1.0)
    assert games.legal(game, state) == []
    assert game.caption(state) == "player 1 is at place 1, over, ply 1 of 400"


def test_a_piece_of_another_player_in_the_goal_does_not_spoil_it() -> None:
    game = ChineseCheckers()
    state = position(game, p0="p1 p2 o1 o2 o3 n1 n2 n3 m8 m9", p1=f"q1 {ROW_I}")
    move = game.parse_action(state, "m9-n4")
    core.play(game, state, move)
    assert games.final_scores(game, state) == (1.0, -1.0)
    strict = ChineseCheckers(spoilers=0)
    state = position(strict, p0="p1 p2 o1 o2 o3 n1 n2 n3 m8 m9", p1=f"q1 {ROW_I}")
    core.play(strict, state, move)
    assert not core.is_over(strict, state)


@pytest.mark.parametrize(("spoilers", "over"), [(9, True), (4, True), (3, False), (0, False)])
def test_more_pieces_of_others_than_allowed_spoil_a_goal(spoilers: int, over: bool) -> None:
    game = ChineseCheckers(spoilers=spoilers)
    state = position(game, p0="o1 o2 o3 n1 n2 m8 a1 b1 b2 c1", p1="q1 p1 p2 n3 i1 i2 i3 i4 i5 i6")
    core.play(game, state, game.parse_action(state, "m8-n4"))
    assert core.is_over(game, state) == over


def test_a_goal_full_of_other_pieces_only_does_not_win() -> None:
    game = ChineseCheckers(spoilers=9)
    state = games.replay(game, games.read_moves(game, "d1-e5"))
    assert not core.is_over(game, state)


def test_the_two_losers_of_three_share_the_loss() -> None:
    game = ChineseCheckers(players=3)
    state = position(game, p0="q1 p1 p2 o1 o2 o3 n1 n2 n3 m8", p1=BOTTOM, p2=f"{ROW_I} h1")
    core.play(game, state, game.parse_action(state, "m8-n4"))
    assert games.final_scores(game, state) == (1.0, -0.5, -0.5)


def test_with_places_the_game_continues_without_finished_players() -> None:
    game = ChineseCheckers(players=3, places=True)
    goals = [[NAMES[place] for place in sorted(CORNERS[(corner + 3) % 6])] for corner in SEATS[3]]
    state = position(
        game, p0=f"{' '.join(goals[0][:9])} m8", p1=" ".join([*goals[1][:9], "i5"]), p2=" ".join([*goals[2][:9], "h5"])
    )
    core.play(game, state, game.parse_action(state, "m8-n4"))
    assert not core.is_over(game, state)
    scores = np.empty(3, dtype=np.float32)
    core.standing(game, state, scores)
    assert scores.tolist() == [1.0, -0.5, -0.5]
    movers = []
    for _ in range(4):
        movers.append(core.to_move(game, state))
        quiet = [
            action
            for action in games.legal(game, state)
            if not core.is_over(game, after(game, state, action)) and core.move_value(game, state, action) == 0
        ]
        core.play(game, state, quiet[0])
    assert movers == [1, 2, 1, 2]


def after(game: ChineseCheckers, state: np.ndarray, action: int) -> np.ndarray:
    """The position after a move."""
    copy = state.copy()
    core.play(game, copy, action)
    return copy


def test_the_last_place_is_settled_with_the_one_before_it() -> None:
    game = ChineseCheckers(players=3, places=True)
    state = position(game, mover=1, p0=TOP, p1="", p2=ROW_I)
    state[0] |= np.uint64(1 << 4 | 1 << 8)  # player 0 has finished
    goal = [NAMES[place] for place in sorted(CORNERS[5])]
    state[3:5] = position(game, p0="", p1=f"h9 {' '.join(goal[1:])}", p2="")[3:5]
    names = [name for name in legal_names(game, state) if name == f"h9-{goal[0]}"]
    core.play(game, state, game.parse_action(state, names[0]))
    assert core.is_over(game, state)
    assert games.final_scores(game, state) == (1.0, 0.0, -1.0)
    assert game.caption(state).startswith("player 1 is at place 1, player 2 is at place 2, over")


def test_only_a_player_without_a_move_may_pass() -> None:
    game = ChineseCheckers(players=3)
    state = position(game, p0=BOTTOM, p1="e5 e6 e7 e8 e9 f4 f5 f6 f7 f8", p2="f9 i1 i2 i3 i4 i5 i6 i7 i8 i9")
    assert legal_names(game, state) == {"pass": PASS}
    before = state[1:].copy()
    core.play(game, state, PASS)
    assert np.array_equal(state[1:], before)
    assert core.to_move(game, state) == 1
    with pytest.raises(
        games.IllegalMove, match=r"'pass' is not a legal move here \(passing is legal only if no piece can move\); legal: "
    ):
        game.parse_action(state, "pass")


def test_a_piece_cannot_leave_its_goal_without_leave_goal() -> None:
    pieces = {"p0": "n1 a1 b1 b2 c1 c2 c3 d1 d2 d3", "p1": f"{ROW_I} q1"}
    free, bound = ChineseCheckers(), ChineseCheckers(leave_goal=False)
    names = [name for name in legal_names(free, position(free, **pieces)) if name.startswith("n1-")]
    assert names == ["n1-o1", "n1-n2", "n1-m5", "n1-m6"]
    names = [name for name in legal_names(bound, position(bound, **pieces)) if name.startswith("n1-")]
    assert names == ["n1-o1", "n1-n2"]


def test_chains_may_jump_through_closed_corners() -> None:
    #    g  . 1 . .        from f5 to f3, in a corner to the side, and on to h4
    #   f  . . . 1 0
    pieces = {"p0": "f5 a1 b1 b2 c1 c2 c3 d1 d2 d3", "p1": "f4 g3 q1 p1 p2 o1 o2 o3 n1 n2"}
    free, closed = ChineseCheckers(), ChineseCheckers(open_corners=False)
    jumps = {
        game: {name for name in legal_names(game, position(game, **pieces)) if name.startswith("f5-")}
        for game in (free, closed)
    }
    assert jumps[free] - jumps[closed] == {"f5-f3"}
    assert "f5-h3" in jumps[closed]


def test_the_game_ends_after_its_rounds() -> None:
    game = ChineseCheckers(rounds=1)
    state = games.replay(game, games.read_moves(game, "d1-e5 n1-m5"))
    assert core.is_over(game, state)
    assert games.final_scores(game, state) == (0.0, 0.0)
    state = games.replay(game, games.read_moves(game, "c1-e7 n1-m5"))
    assert games.final_scores(game, state) == pytest.approx((1 / 120, -1 / 120))


def test_the_key_does_not_depend_on_the_number_of_plies() -> None:
    game = ChineseCheckers()
    state = games.replay(game, games.read_moves(game, "d1-e5 n1-m5 e5-d1 m5-n1"))
    assert core.key(game, state) == core.key(game, games.new_state(game))
    assert not np.array_equal(state, games.new_state(game))


def test_the_mirror_swaps_left_and_right() -> None:
    game = ChineseCheckers()
    (mirror,) = game.spec().symmetries
    state = games.new_state(game)
    names = legal_names(game, state)
    assert mirror.actions[names["d1-e5"]] == names["d4-e9"]
    assert mirror.actions[PASS] == PASS
    assert [len(ChineseCheckers(players=players).spec().symmetries) for players in (3, 4, 6)] == [0, 0, 0]


def test_action_cells_are_the_source_and_target() -> None:
    game = ChineseCheckers()
    cells = game.spec().action_cells
    assert cells is not None
    assert cells[PASS].tolist() == [-1, -1]
    action = legal_names(game, games.new_state(game))["d1-e5"]
    assert [divmod(int(cell), 17) for cell in cells[action]] == [(13, 4), (12, 4)]


def test_the_bounds_on_legal_moves_have_the_documented_values() -> None:
    open_star = [ChineseCheckers(players=players).spec().max_legal for players in (2, 3, 4, 6)]
    closed = [ChineseCheckers(players=players, open_corners=False).spec().max_legal for players in (2, 3, 4, 6)]
    assert open_star == [234, 320, 352, 352]
    assert closed == [228, 247, 247, 247]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("d1-e9", "'d1-e9' is not a legal move here; legal: d1-e5"),
        ("d1-c1", "(c1 is occupied); legal: d1-e5"),
        ("n1-m5", "(no piece of player 1 is on n1); legal: "),
        ("e5-f5", "(no piece of player 1 is on e5); legal: "),
        ("d1-e14", "(there is no field 'e14'; moves look like d1-e2); legal: "),
        ("pass", "(passing is legal only if no piece can move); legal: d1-e5"),
        ("d1", "(moves look like d1-e2); legal: "),
        ("d1-", "(moves look like d1-e2); legal: "),
        ("d1-e5-f5", "(moves look like d1-e2); legal: "),
        ("", "(moves look like d1-e2); legal: "),
    ],
)
def test_an_illegal_move_is_rejected_with_the_reason(text: str, said: str) -> None:
    game = ChineseCheckers()
    with pytest.raises(games.IllegalMove) as refusal:
        game.parse_action(games.new_state(game), text)
    assert said in str(refusal.value)


def test_no_move_can_be_parsed_after_the_end() -> None:
    game = ChineseCheckers(rounds=1)
    state = games.replay(game, games.read_moves(game, "d1-e5 n1-m5"))
    with pytest.raises(games.IllegalMove, match="the game is over"):
        game.parse_action(state, "e5-f5")


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"players": 5}, "chinese_checkers: players=5 is out of range; it must be 2, 3, 4 or 6"),
        ({"players": 1}, "players=1 is out of range"),
        ({"rounds": 0}, "rounds=0 is out of range; it must be between 1 and 5000"),
        ({"rounds": 5001}, "rounds=5001 is out of range"),
        ({"spoilers": 10}, "spoilers=10 is out of range; it must be between 0 and 9"),
        ({"spoilers": -1}, "spoilers=-1 is out of range"),
        ({"places": "some"}, "places='some' is not bool"),
        ({"size": 4}, "has no parameter size; expected players, rounds, spoilers"),
    ],
)
def test_parameters_out_of_range_are_rejected(parameters: dict[str, object], said: str) -> None:
    with pytest.raises(games.InvalidParameters) as refusal:
        games.make("chinese_checkers", **parameters)
    assert said in str(refusal.value)


def test_the_picture_shows_the_pieces_of_three_players() -> None:
    game = ChineseCheckers(players=3)
    state = games.replay(game, games.read_moves(game, "c2-e6"))
    assert game.draw(state).splitlines() == [
        "q             .",
        "p            . .",
        "o           . . .",
        "n          . . . .",
        "m 2 2 2 2 . . . . . 3 3 3 3",
        "l  2 2 2 . . . . . . 3 3 3",
        "k   2 2 . . . . . . . 3 3",
        "j    2 . . . . . . . . 3",
        "i     . . . . . . . . .",
        "h    . . . . . . . . . .",
        "g   . . . . . . . . . . .",
        "f  . . . . . . . . . . . .",
        "e . . . . . 1 . . . . . . .",
        "d          1 1 1 1",
        "c           1 . 1",
        "b            1 1",
        "a             1",
        "player 2 to move, ply 1 of 600",
    ]


@pytest.mark.parametrize("players", [2, 3, 4, 6])
def test_the_svg_shows_every_field_and_colours_the_homes(players: int) -> None:
    game = ChineseCheckers(players=players)
    document = game.draw_svg(games.new_state(game))
    assert document.count("<circle") == 121
    assert document.count("<polygon") == 7
    assert document.count('r="12.92"') == 10 * players


@compiled
def greedy_games(game: ChineseCheckers, count: int, state: np.ndarray, tally: np.ndarray) -> None:
    """Play games of greedy players who move at random once in 20 moves.

    Tally counts games with a winner, plies, legal moves and wins of player 0 (int64 [4]).
    """
    word = np.array([9], dtype=np.uint64)
    listed = np.empty(352, dtype=np.int16)
    scores = np.empty(6, dtype=np.float32)
    for _ in range(count):
        core.reset(game, state, 0)
        while not core.is_over(game, state):
            moves = core.legal_actions(game, state, listed)
            chosen = listed[uniform_int(word, moves)]
            if uniform_int(word, 20) > 0:
                best, ties = -1000.0, 0
                for i in range(moves):
                    value = core.move_value(game, state, listed[i])
                    ties = ties + 1 if value == best else 1 if value > best else ties
                    if value > best or (value == best and uniform_int(word, ties) == 0):
                        best, chosen = value, listed[i]
            core.play(game, state, chosen)
            tally[1] += 1
            tally[2] += moves
        core.scores(game, state, scores)
        for player in range(game.players):
            tally[0] += scores[player] == 1.0
        tally[3] += scores[0] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "won", "plies", "branching"),
    [
        (ChineseCheckers(), 0.98, 220, 35.5),
        (ChineseCheckers(leave_goal=False, open_corners=False), 1.0, 123, 39.5),
        (ChineseCheckers(players=3), 1.0, 264, 38.7),
        (ChineseCheckers(players=4), 1.0, 205, 47.0),
        (ChineseCheckers(players=6), 1.0, 204, 49.6),
    ],
    ids=str,
)
def test_games_of_greedy_players_match_the_documented_statistics(
    game: ChineseCheckers, won: float, plies: float, branching: float
) -> None:
    tally, count = np.zeros(4, dtype=np.int64), 1000
    greedy_games(game, count, games.new_state(game), tally)
    assert tally[0] / count == pytest.approx(won, abs=0.015)
    assert tally[1] / count == pytest.approx(plies, rel=0.04)
    assert tally[2] / tally[1] == pytest.approx(branching, rel=0.02)
