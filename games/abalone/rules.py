"""Abalone: push marbles of the other player off a hexagonal board, six to win.

One, two or three marbles in a line move one step, along the line or sideways. Along the line they push a smaller number of
opposing marbles if an empty cell or the rim is behind these; a marble pushed over the rim is captured. Player 0 (X) begins:

            I O O O O O
           H O O O O O O
          G . . O O O . .
         F . . . . . . . .         moves are written A1NE (the line with rear marble A1 moves north-east) and
        E . . . . . . . . .        C3C5NW (the line from C3 to C5 steps sideways to the north-west);
         D . . . . . . . . 9       `games.abalone.board` defines directions and move numbers
          C . . X X X . . 8
           B X X X X X X 7
            A X X X X X 6
               1 2 3 4 5

State (uint64 [3]): marbles of player 0, marbles of player 1 (words of `games.abalone.bitboard`), and a status word: bits 0 to
31 count the plies, bit 32 is set by `play` when the game is over.

Planes (3 x 9 x 9), row I first: my marbles, the other player's, the cells of the board. With `plies_left`, followed by the
binary digits of the number of plies left before the cap, lowest first, each a plane of ones or zeros. With `encoding=signed`
the cells of the board are left out, and a network reads one plane of 1 for my marbles and -1 for the other player's.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from games import notation
from games.abalone import bitboard, board, drawing
from games.abalone import notation as abalone_notation
from games.compiled import compiled
from games.core import GameSpec, State, register, rule
from games.errors import InvalidParameters
from games.kit.bits import count_bits, set_range
from games.kit.cells import Cell
from games.kit.randomness import mix64
from games.parameters import require_choice
from games.reading import counted_reading

__all__ = ["MARBLES", "Abalone"]

MARBLES = 14
_ENCODINGS = ("planes", "signed")
_MAX_PLY_CAP = 1_000_000
_MAX_LEGAL = 234
"""Bound: at most 39 moves in each of six directions. In line, at most one for each of 14 marbles. Sideways, only marbles
with an empty cell ahead step, so none of these is directly ahead of another. Hence, of a marble's neighbours on its two other
lines, at most one of the two above the line of movement is such a marble, and at most one of the two below. Linked to such
neighbours, these marbles form upward chains without cycles: at most 13 pairs and 12 triples."""

_ONE = np.uint64(1)
_PLIES = np.uint64(0xFFFFFFFF)
_OVER = _ONE << np.uint64(32)
_KEY_MOVER = np.uint64(61)
_KEY_OVER = np.uint64(62)
_BYTE = np.uint64(255)
_PLANE = board.SIDE * board.SIDE
_ROW_BITS = np.array([bitboard.bit_of((row, max(0, row - 4))) for row in range(board.SIDE)], dtype=np.uint64)
_ROW_MASKS = np.array([2 ** (9 - abs(row - 4)) - 1 for row in range(board.SIDE)], dtype=np.uint64)
_ROW_PLACES = np.array([board.plane_cell((row, max(0, row - 4))) for row in range(board.SIDE)], dtype=np.int64)
"""Lowest bit in a word, mask of cells, and first cell in a plane, of each row."""
_FIRST = np.array([bitboard.word(first) for first, _ in board.LAYOUTS.values()], dtype=np.uint64)
_SECOND = np.array([bitboard.word(second) for _, second in board.LAYOUTS.values()], dtype=np.uint64)


@register("abalone", choices={"encoding": _ENCODINGS})
class Abalone(NamedTuple):
    """Abalone for two players, with one of three starting positions."""

    layout: str = "standard"
    captures: int = 6
    ply_cap: int = 200
    stalemate_loses: bool = False
    ply_cost: float = 0.0
    actions: int = 1452
    plies_left: bool = False
    encoding: int = 0

    def spec(self) -> GameSpec:
        """See `games.core.Game`."""
        return _spec(self)

    def action_name(self, state: State, action: int) -> str:
        """Return the notation, such as `A1NE` in line or `C3C5NW` sideways."""
        return abalone_notation.names(self.actions)[action]

    def parse_action(self, state: State, text: str) -> int:
        """Parse `A1NE` or `C3C5NW`; raises `IllegalMove` with the reason and the legal moves."""
        return abalone_notation.read(self, state, self.actions, text)

    def draw(self, state: State) -> str:
        """See `games.core.Game`."""
        return drawing.picture(self, state)

    def player_marks(self) -> str:
        """Return the marks of the players in text drawings, by seat."""
        return drawing.MARKS

    def draw_svg(self, state: State) -> str:
        """Return the position as SVG, with the captured marbles beside the board."""
        return drawing.svg_picture(self, state)

    def cells(self, state: State) -> tuple[Cell, ...]:
        """Return the cells of the picture, for clicks."""
        return drawing.cells()

    def action_path(self, state: State, action: int) -> tuple[str, ...]:
        """Return the cells to click for an action."""
        return drawing.path(state, board.moves(self.actions)[action])


@functools.lru_cache(maxsize=64)
def _spec(game: Abalone) -> GameSpec:
    _check(game)
    return GameSpec(
        name="abalone",
        rules_version=1,
        num_players=2,
        num_actions=game.actions,
        max_legal=_MAX_LEGAL,
        state_dtype=np.dtype(np.uint64),
        state_size=3,
        planes=(_base_planes(game) + _digits(game), board.SIDE, board.SIDE),
        max_plies=game.ply_cap,
        symmetries=board.symmetries(game.actions),
        lattice="hexagonal",
        repeats=True,
        reading=counted_reading((1.0, -1.0), _digits(game)) if game.encoding else None,
    )


def _digits(game: Abalone) -> int:
    """Return the number of planes of the plies left."""
    return game.ply_cap.bit_length() if game.plies_left else 0


@compiled
def _base_planes(game: Abalone) -> int:
    """Return the number of planes without the plies left."""
    return 2 if game.encoding == 1 else 3


def _check(game: Abalone) -> None:
    """Raise `InvalidParameters` for a parameter out of range."""
    if game.layout not in board.LAYOUTS:
        raise InvalidParameters(f"abalone: layout={game.layout!r} is unknown; it must be one of {', '.join(board.LAYOUTS)}")
    notation.require_range("abalone", "captures", game.captures, 1, MARBLES)
    notation.require_range("abalone", "ply_cap", game.ply_cap, 1, _MAX_PLY_CAP)
    if game.actions not in board.NUMBERS_OF_MOVES:
        wanted = " or ".join(map(str, board.NUMBERS_OF_MOVES))
        raise InvalidParameters(f"abalone: actions={game.actions} is out of range; it must be {wanted}")
    require_choice("abalone", "encoding", game.encoding, _ENCODINGS)
    if not 0.0 <= game.ply_cost * game.ply_cap <= 1.0:
        raise InvalidParameters(
            f"abalone: ply_cost={game.ply_cost} is out of range; with ply_cap={game.ply_cap} "
            f"it must be between 0 and {1 / game.ply_cap}"
        )


@compiled
def _table(game: Abalone) -> int:
    return 0 if game.actions == 1452 else 1


@compiled
def _player(state: State) -> int:
    return int(np.int64(state[2] & _ONE))


@rule(Abalone)
def reset(game: Abalone, state: State, seed: int) -> None:
    """Set up the marbles of the layout."""
    chosen = 0
    if game.layout == "belgian_daisy":
        chosen = 1
    elif game.layout == "german_daisy":
        chosen = 2
    state[0] = _FIRST[chosen]
    state[1] = _SECOND[chosen]
    state[2] = 0


@rule(Abalone)
def to_move(game: Abalone, state: State) -> int:
    """Return the player to move: players alternate, player 0 begins."""
    return _player(state)


@rule(Abalone)
def legal_actions(game: Abalone, state: State, out: np.ndarray) -> int:
    """List every step of one, two or three marbles in line or sideways, until the game is over."""
    if state[2] & _OVER:
        return 0
    player = _player(state)
    return bitboard.legal(state[player], state[1 - player], _table(game), out)


@rule(Abalone)
def play(game: Abalone, state: State, action: int) -> None:
    """Move the line and test for the end: enough captures, the ply cap, or no legal move for the next player."""
    player = _player(state)
    mine, other = bitboard.moved(state[player], state[1 - player], _table(game), action)
    state[player], state[1 - player] = mine, other
    status = state[2] + _ONE
    if count_bits(other) <= MARBLES - game.captures or status == np.uint64(game.ply_cap) or not bitboard.can_move(other, mine):
        status |= _OVER
    state[2] = status


@rule(Abalone)
def is_over(game: Abalone, state: State) -> bool:
    """Return whether enough marbles are captured, the ply cap is reached, or no legal move is left."""
    return (state[2] & _OVER) != 0  # type: ignore[no-any-return]


@rule(Abalone)
def scores(game: Abalone, state: State, out: np.ndarray) -> None:
    """Score 1 and -1 for enough captures; else the lead in captures / `captures`, or a loss for a player without a move."""
    first, second = MARBLES - count_bits(state[1]), MARBLES - count_bits(state[0])
    score = (first - second) / game.captures
    if first >= game.captures:
        score = 1.0
    elif second >= game.captures:
        score = -1.0
    elif game.stalemate_loses and (state[2] & _PLIES) < np.uint64(game.ply_cap):
        score = -1.0 if _player(state) == 0 else 1.0
    _share(game, state, score, out)


@rule(Abalone)
def standing(game: Abalone, state: State, out: np.ndarray) -> None:
    """Score the lead in captures / `captures`, as at the ply cap.

    Cycles capture nothing, so a recurring position is worth the captures before it.
    """
    _share(game, state, (count_bits(state[0]) - count_bits(state[1])) / game.captures, out)


@compiled
def _share(game: Abalone, state: State, score: float, out: np.ndarray) -> None:
    """Write player 0's score, reduced by the cost of the plies played, and its negative."""
    plies = np.int64(state[2] & _PLIES)
    score *= 1.0 - game.ply_cost * plies
    out[0] = score
    out[1] = 0.0 - score  # a draw is 0.0 to both, never -0.0


@rule(Abalone)
def encode(game: Abalone, state: State, viewer: int, out: np.ndarray) -> None:
    """Encode my marbles, the other player's, the cells of the board unless `signed`, and with `plies_left` its digits."""
    out[:] = 0
    _encode_cells(state[viewer], 0, out)
    _encode_cells(state[1 - viewer], _PLANE, out)
    if game.encoding == 0:
        _encode_cells(bitboard.CELLS, 2 * _PLANE, out)
    if game.plies_left:
        left = game.ply_cap - np.int64(state[2] & _PLIES)
        start = _base_planes(game) * _PLANE
        while left:
            if left & 1:
                set_range(out, start, start + _PLANE)
            left >>= 1
            start += _PLANE


@compiled
def _encode_cells(marbles: np.uint64, start: int, out: np.ndarray) -> None:
    """Set the bits of a word's cells in the plane at bit `start`, row by row."""
    for row in range(9):
        bit = start + _ROW_PLACES[row]
        cells = ((marbles >> _ROW_BITS[row]) & _ROW_MASKS[row]) << np.uint64(bit & 7)
        out[bit >> 3] |= np.uint8(cells & _BYTE)
        if cells > _BYTE:
            out[(bit >> 3) + 1] |= np.uint8(cells >> np.uint64(8))


@rule(Abalone)
def key(game: Abalone, state: State) -> np.uint64:
    """Return a hash of the marbles, the player to move, whether the game is over and, if encoded, the number of plies."""
    over = np.uint64((state[2] & _OVER) != 0) << _KEY_OVER
    mixed = mix64(_repetition_word(state) ^ over)
    if game.plies_left:
        mixed = mix64(mixed + (state[2] & _PLIES))
    return mix64(mixed + state[1])


@rule(Abalone)
def repetition_key(game: Abalone, state: State) -> np.uint64:
    """Return a hash of the marbles and the player to move."""
    return mix64(mix64(_repetition_word(state)) + state[1])


@compiled
def _repetition_word(state: State) -> np.uint64:
    """Return the marbles of player 0, with the player to move in a bit above them."""
    return state[0] | (state[2] & _ONE) << _KEY_MOVER  # type: ignore[no-any-return]


@rule(Abalone)
def move_value(game: Abalone, state: State, action: int) -> float:
    """Return 100 for a capture, plus the steps of my marbles towards the centre and of the other player's away from it."""
    player = _player(state)
    mine, other = state[player], state[1 - player]
    mine_after, other_after = bitboard.moved(mine, other, _table(game), action)
    captured = count_bits(other) - count_bits(other_after)
    towards = bitboard.nearness(mine_after) - bitboard.nearness(mine)
    away = bitboard.nearness(other) - bitboard.nearness(other_after)
    return float(100 * captured + towards + away)


@rule(Abalone)
def estimate(game: Abalone, state: State, out: np.ndarray) -> None:
    """Score the lead in marbles and, at a hundredth of the weight, in neighbours and in distance to the centre.

    The leads are weighted 100 per marble, 1 per neighbour of the same colour and 1.5 per step towards the centre, and divided
    by 100 * (`captures` + 1). Neighbours and distances amount to less than two marbles, and a player who leads by `captures`
    marbles has won, so the estimate stays within (-1, 1).
    """
    first, second = state[0], state[1]
    gathered = bitboard.neighbours(first) - bitboard.neighbours(second)
    distant = _distance(first) - _distance(second)
    lead = count_bits(first) - count_bits(second)
    worth = (100 * lead + gathered - 1.5 * distant) / (100 * (game.captures + 1))
    out[0] = worth
    out[1] = 0.0 - worth


@compiled
def _distance(marbles: np.uint64) -> int:
    """Return the sum of the distances of marbles from the centre, in steps."""
    return 4 * count_bits(marbles) - bitboard.nearness(marbles)


@rule(Abalone)
def may_end(game: Abalone, state: State, plies: int) -> bool:
    """Test for the last capture, the ply cap, and next players who could run out of moves; certain for one ply only.

    A marble beside an empty cell can move. One move fills at most 3 cells and pushes at most one marble away from its up to 6
    neighbours: a player with 10 empty cells beside their marbles keeps one.
    """
    player = _player(state)
    mine, other = state[player], state[1 - player]
    if plies > 1 or count_bits(other) <= MARBLES - game.captures + 1:
        return True
    if (state[2] & _PLIES) + _ONE >= np.uint64(game.ply_cap):
        return True
    empty = bitboard.CELLS & ~(mine | other)
    beside = np.uint64(0)
    for direction in range(6):
        beside |= empty & bitboard.behind(other, direction)
    return count_bits(beside) < 10
