"""Chinese Checkers for three on a star of 37 fields: move all six pieces into the opposite corner.

A field is named by the letter of its column (columns run down to the right) and the number of its row from the bottom:

                g9 .
               f8 . . g8
       c7 O O O . Z Z Z i7
        c6 O O . . Z Z h6
         c5 O . . . Z g5          the start; X is player 0, O player 1, Z player 2
        b4 . . . . . . g4
       a3 . . X X X . . g3
             c2 X X d2
              c1 X c1

Actions are in the mover's view, rotated so that the mover starts at the bottom: 150 hops (25 fields x 6 directions), 169
pairs of fields that a chain of jumps can connect, and the pass. All players' moves are written with the names above: `c3-c4`.

State (uint64 [3]):

    word 0    bits 0 .. 36 the occupied spots, 40 and 41 the first to finish (1 + player, or 0), 42 .. 44 one bit for each
              player who is second, 48 .. 63 the number of plies
    word 1    fields of player 0 from bit 0, of player 1 from bit 32, each in its owner's view
    word 2    fields of player 2

`games.chinese_checkers.star37.board` defines the numbering of spots and fields.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from games import notation
from games.chinese_checkers.star37 import board, drawing
from games.chinese_checkers.star37.moves import list_moves, seen_by
from games.compiled import compiled
from games.core import GameSpec, State, register, rule
from games.kit.bits import count_bits, lowest_bit, set_bit, set_range
from games.kit.cells import Cell, ends_of
from games.kit.randomness import mix64
from games.parameters import require_choice
from games.reading import counted_reading

__all__ = ["ChineseCheckersStar37"]

_PLAYERS = 3
_MOST_MOVES = 1000
_CELLS = board.SIDE * board.SIDE
_PLANES = 7
_ENCODINGS = ("planes", "numbered")
_NUMBERED_PLANES = 4
_COUNTER_PLANES = 8
_ONE = np.uint64(1)
_SPOTS = np.uint64((1 << 37) - 1)
_FIELDS = np.uint64((1 << 25) - 1)
_WHERE_FIRST, _WHERE_SECOND, _WHERE_PLIES = np.uint64(40), np.uint64(42), np.uint64(48)
_TWO_BITS, _THREE_BITS = np.uint64(3), np.uint64(7)
_HALF = np.uint64(32)
_PLY = _ONE << _WHERE_PLIES
_SECOND = -1.0 / 3.0  # the score of the second place
_WHOLE_WAY = 32.0  # rows gained by six pieces from their own corner to the end zone
_NEARLY_HALF = 0.495  # an estimate stays below a certain win
_START_SPOTS = np.uint64(
    sum(int(bit) for bits in board.FIELD_SPOTS for f, bit in enumerate(bits) if int(board.START_FIELDS) >> f & 1)
)


@register("chinese_checkers_star37", choices={"encoding": _ENCODINGS})
class ChineseCheckersStar37(NamedTuple):
    """Three players with six pieces each, and scores for the first and the second to finish."""

    moves_cap: int = 40
    end_zone_locks: bool = True
    corners_passable: bool = False
    move_counter: bool = False
    ranked_stop: bool = False
    encoding: int = 0

    def spec(self) -> GameSpec:
        """See `games.core.Game`."""
        return _spec(self)

    def action_name(self, state: State, action: int) -> str:
        """Return the source and target fields, such as `c3-c4`, or `pass`."""
        return drawing.action_name(int(to_move(self, state)), action)

    def parse_action(self, state: State, text: str) -> int:
        """Parse `c3-c4`, also without the hyphen, or `pass`; raises `IllegalMove` with the reason and the legal moves."""
        return drawing.parse_action(self, state, text)

    def draw(self, state: State) -> str:
        """See `games.core.Game`."""
        return drawing.text(self, state)

    def player_marks(self) -> str:
        """Return the marks of the players in text drawings, by seat."""
        return drawing.MARKS

    def draw_svg(self, state: State) -> str:
        """Return the position as SVG; rings mark the end zones."""
        return drawing.picture(self, state)

    def cells(self, state: State) -> tuple[Cell, ...]:
        """Return the fields of the picture, for clicks."""
        return drawing.cells()

    def action_path(self, state: State, action: int) -> tuple[str, ...]:
        """Return the fields to click for an action; a pass has none."""
        return ends_of(self.action_name(state, action))


@functools.lru_cache(maxsize=64)
def _spec(game: ChineseCheckersStar37) -> GameSpec:
    notation.require_range("chinese_checkers_star37", "moves_cap", game.moves_cap, 1, _MOST_MOVES)
    require_choice("chinese_checkers_star37", "encoding", game.encoding, _ENCODINGS)
    return GameSpec(
        name="chinese_checkers_star37",
        rules_version=1,
        num_players=_PLAYERS,
        num_actions=board.PASS + 1,
        max_legal=board.MOST_LEGAL,
        state_dtype=np.dtype(np.uint64),
        state_size=3,
        planes=(_base_planes(game) + (_COUNTER_PLANES if game.move_counter else 0), board.SIDE, board.SIDE),
        max_plies=_PLAYERS * game.moves_cap,
        lattice="hexagonal",
        action_cells=board.action_cells(),
        repeats=True,
        reading=counted_reading((1.0, 2.0, 3.0, 4.0), _COUNTER_PLANES if game.move_counter else 0) if game.encoding else None,
    )


@compiled
def _base_planes(game: ChineseCheckersStar37) -> int:
    """Return the number of planes without the counter."""
    return _NUMBERED_PLANES if game.encoding == 1 else _PLANES


@compiled
def _plies(state: State) -> int:
    return int(np.int64(state[0] >> _WHERE_PLIES))


@compiled
def _first(state: State) -> int:
    """Return 1 + the first player to finish, or 0."""
    return int(np.int64((state[0] >> _WHERE_FIRST) & _TWO_BITS))


@compiled
def _own(state: State, player: int) -> np.uint64:
    """Return the fields of a player's pieces, in that player's view."""
    word: np.uint64 = state[2] if player == 2 else state[1] >> _HALF if player == 1 else state[1]
    return word & _FIELDS


@rule(ChineseCheckersStar37)
def reset(game: ChineseCheckersStar37, state: State, seed: int) -> None:
    """Place each player's pieces in their own corner."""
    state[0] = _START_SPOTS
    state[1] = board.START_FIELDS | board.START_FIELDS << _HALF
    state[2] = board.START_FIELDS


@rule(ChineseCheckersStar37)
def to_move(game: ChineseCheckersStar37, state: State) -> int:
    """Return the player to move: 0, 1, 2 in turn, including finished players."""
    return _plies(state) % 3


@rule(ChineseCheckersStar37)
def legal_actions(game: ChineseCheckersStar37, state: State, out: np.ndarray) -> int:
    """List hops and chains of jumps; only the pass if there are none or the mover has finished."""
    if is_over(game, state):
        return 0
    player = _plies(state) % 3
    count = 0
    if _first(state) != player + 1:
        passable = _SPOTS if game.corners_passable else board.USABLE_SPOTS
        count = list_moves(_own(state, player), seen_by(state[0], player), game.end_zone_locks, passable, out)
    if count == 0:
        out[0] = board.PASS
        count = 1
    return count


@rule(ChineseCheckersStar37)
def play(game: ChineseCheckersStar37, state: State, action: int) -> None:
    """Move the piece or pass; then update the players who have finished."""
    word = state[0]
    if action != board.PASS:
        player = _plies(state) % 3
        start, end = board.ACTION_FROM[action], board.ACTION_TO[action]
        word ^= board.FIELD_SPOTS[player, start] | board.FIELD_SPOTS[player, end]
        moved = _ONE << np.uint64(start) | _ONE << np.uint64(end)
        state[1 + (player >> 1)] ^= moved << np.uint64(32 * (player & 1))
        if not (word >> _WHERE_FIRST) & _TWO_BITS and _own(state, player) == board.END_FIELDS:
            word |= np.uint64(player + 1) << _WHERE_FIRST
        word = _with_second(word)
    state[0] = word + _PLY


@compiled
def _with_second(word: np.uint64) -> np.uint64:
    """Return word 0 with all players whose end zone is full marked as second, once there is a first."""
    first = (word >> _WHERE_FIRST) & _TWO_BITS
    if first:
        for player in range(3):
            zone = board.END_SPOTS[player]
            if word & zone == zone and first != np.uint64(player + 1):
                word |= _ONE << (_WHERE_SECOND + np.uint64(player))
    return word


@rule(ChineseCheckersStar37)
def is_over(game: ChineseCheckersStar37, state: State) -> bool:
    """Return whether a player is second, or all players have had `moves_cap` moves."""
    return bool((state[0] >> _WHERE_SECOND) & _THREE_BITS) or _plies(state) >= 3 * game.moves_cap


@rule(ChineseCheckersStar37)
def scores(game: ChineseCheckersStar37, state: State, out: np.ndarray) -> None:
    """Map 3 points for the first, 1 for the second, 0 for others to 1, -1/3 and -1; `ranked_stop` adds thirds of points."""
    _score(state, game.ranked_stop and not (state[0] >> _WHERE_SECOND) & _THREE_BITS, out)


@rule(ChineseCheckersStar37)
def standing(game: ChineseCheckersStar37, state: State, out: np.ndarray) -> None:
    """Score the points earned so far, and none for unfinished players: cycles earn nothing."""
    _score(state, False, out)


@compiled
def _score(state: State, ranked: bool, out: np.ndarray) -> None:
    """Write the scores for the points earned and, if `ranked`, for thirds of a point by rank."""
    for player in range(3):
        points = 3.0 if _first(state) == player + 1 else 0.0
        if (state[0] >> (_WHERE_SECOND + np.uint64(player))) & _ONE:
            points = 1.0
        if ranked and points == 0.0:
            points = _points_of_rank(state, player)
        out[player] = np.float32(2.0 / 3.0 * points - 1.0)


@compiled
def _points_of_rank(state: State, player: int) -> float:
    """Return a third of a point for each unfinished player further back, and a sixth for each one level."""
    points = 0.0
    for other in range(3):
        if other != player and _first(state) != other + 1:
            ahead = _rows_to_go(state, other) - _rows_to_go(state, player)
            points += 1.0 / 3.0 if ahead > 0 else 1.0 / 6.0 if ahead == 0 else 0.0
    return points


@compiled
def _rows_to_go(state: State, player: int) -> int:
    """Return the sum of the rows of a player's pieces, counted from the top in the player's view."""
    rows = 0
    left = _own(state, player)
    while left:
        rows += board.FIELD_CELLS[0, lowest_bit(left)] // board.SIDE
        left &= left - _ONE
    return rows


@compiled
def _counter(game: ChineseCheckersStar37, state: State) -> int:
    """Return the number of full counter planes: elapsed ninths of the longest game, at most 8."""
    if not game.move_counter:
        return 0
    return min(_plies(state) * (_COUNTER_PLANES + 1) // (3 * game.moves_cap), _COUNTER_PLANES)


@rule(ChineseCheckersStar37)
def encode(game: ChineseCheckersStar37, state: State, viewer: int, out: np.ndarray) -> None:
    """Encode my pieces, the next player's, the previous player's, our end zones, the board, and the counter if enabled.

    With `numbered`, the cells off the board in place of the end zones and the board: 1, 2, 3 and 4 when read.
    """
    out[:] = 0
    constant = board.OUTSIDE if game.encoding == 1 else board.CONSTANT_PLANES
    for i in range(constant.size):
        out[i] = constant[i]
    for seat in range(3):
        left = _own(state, (viewer + seat) % 3)
        while left:
            set_bit(out, seat * _CELLS + board.FIELD_CELLS[seat, lowest_bit(left)])
            left &= left - _ONE
    full = _counter(game, state)
    if full > 0:
        first = _base_planes(game)
        set_range(out, first * _CELLS, (first + full) * _CELLS)


@rule(ChineseCheckersStar37)
def repetition_key(game: ChineseCheckersStar37, state: State) -> np.uint64:
    """Return a hash of the pieces, the player to move and the end; finished players follow from the pieces."""
    flags = np.uint64(_plies(state) % 3)
    if is_over(game, state):
        flags |= np.uint64(4)
    return mix64(mix64(state[1]) + (state[2] | flags << _HALF))


@rule(ChineseCheckersStar37)
def key(game: ChineseCheckersStar37, state: State) -> np.uint64:
    """Return a hash of `repetition_key` and the counter."""
    return mix64(repetition_key(game, state) + np.uint64(_counter(game, state)))


@rule(ChineseCheckersStar37)
def move_value(game: ChineseCheckersStar37, state: State, action: int) -> float:
    """Return the rows that the piece gains in the mover's view; 0 for the pass."""
    return float(board.ROWS_GAINED[action])


@rule(ChineseCheckersStar37)
def estimate(game: ChineseCheckersStar37, state: State, out: np.ndarray) -> None:
    """Score unfinished players by their lead in rows, scaled to the best remaining score; points earned keep their scores."""
    scores(game, state, out)
    if is_over(game, state):
        return
    best = 1.0 if _first(state) == 0 else _SECOND
    for player in range(3):
        if _first(state) != player + 1:
            out[player] = np.float32(-1.0 + (best + 1.0) * (0.5 + _NEARLY_HALF * _lead(state, player)))


@compiled
def _lead(state: State, player: int) -> float:
    """Return a player's lead over the mean of the other unfinished players, in [-1, 1]; 1 is the whole way."""
    ahead, others = 0.0, 0
    for other in range(3):
        if other != player and _first(state) != other + 1:
            ahead += _rows_to_go(state, other) - _rows_to_go(state, player)
            others += 1
    return ahead / (others * _WHOLE_WAY)


@rule(ChineseCheckersStar37)
def may_end(game: ChineseCheckersStar37, state: State, plies: int) -> bool:
    """Test for the last moves, and for a second player: an end zone with as few holes as moves, once there can be a first."""
    if _plies(state) + plies >= 3 * game.moves_cap:
        return True
    first = _first(state)
    can_be_first = first > 0
    can_be_second = False
    for player in range(3):
        can_be_first |= count_bits(board.END_FIELDS & ~_own(state, player)) <= plies
        can_be_second |= first != player + 1 and count_bits(board.END_SPOTS[player] & ~state[0]) <= plies
    return can_be_first and can_be_second
