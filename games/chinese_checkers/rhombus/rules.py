"""Chinese Checkers for two on a rhombus of 9 x 9 cells: move all ten pieces into the opposite corner.

A piece steps to a touching cell, or makes any number of hops over touching pieces of either side. Cells are named by column
and row from the corner of player 0 (X), who is drawn at the bottom and moves first:

     . . . . . . . . .
    9 . . . . . . . . i      columns run up to the left, rows up to the right
     8 . . . . . . . h
      7 . . . . . . g        X may move c1-e1, which hops over d1, or c1-c3, over c2
       6 . . . . . f
        5 X X X X e
         4 X X X d
          3 X X c
           2 X b
            1 a

Actions are 81 * from + to, by cell numbers in the mover's view: rotated by 180 degrees for player 1, so that forward is the
same for both. Moves are written with the names above for both players: `a3-a5`.

State (uint64):

    word 0        bits 0 .. 31 the number of plies, 32 .. 34 the result (0 playing, 1 or 2 player 0 or 1 won, 3 drawn, 4 stopped
                  at the cap and scored by distance)
    words 1, 2    pieces of player 0, on even- and odd-numbered cells (`games.chinese_checkers.rhombus.board`)
    words 3, 4    pieces of player 1
    words 5 ..    with `repetitions` only: keys of the last `remembered` positions, ply n in word 5 + n % remembered

Planes (2 x 9 x 9), rotated like the actions, so that the viewer starts in row 0, column 0: my pieces, the other player's. From
these a network reads one plane with `encoding=signed`, of 1 and -1, or `doubled`, of 2 and 1.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from games import core, notation
from games.chinese_checkers.rhombus import board, drawing
from games.chinese_checkers.rhombus.moves import can_move, list_moves
from games.compiled import compiled
from games.core import GameSpec, State, Symmetry, register, rule
from games.errors import IllegalMove, InvalidParameters
from games.kit.bits import count_bits, lowest_bit, set_bit
from games.kit.cells import Cell, ends_of
from games.kit.randomness import mix64
from games.parameters import require_choice
from games.reading import Reading

__all__ = ["WORDS", "ChineseCheckersRhombus"]

_NAME = "chinese_checkers_rhombus"
_ENCODINGS = ("planes", "signed", "doubled")
_READINGS = (None, Reading(cells=((1.0, -1.0),)), Reading(cells=((2.0, 1.0),)))
_MOST_PLIES = 10_000
_MOST_REPETITIONS = 8
_SHORTEST_CYCLE = 4  # both sides move and move back
_MOST_REMEMBERED = 256
_MOST_MOVES, _MOST_MOVES_LONG = 192, 247
"""Bounds on the number of legal moves, with short and with long hops.

Hops keep a piece in its zone: rows and columns even or odd. So q pieces of the mover in a zone of n cells reach at most
n - q cells each. The maximum over all distributions of ten pieces is 187; with 60 steps, 247.

Short hops are scarcer. An occupied cell is the middle of one hop in each zone but its own, so a zone with t of the 20 pieces
has at most e = 20 - t hops. Connecting m empty cells takes m - 1 of these, and one more for each piece that joins them: a
pieces reach a * m <= a * (e + 1 - a) cells, and several groups of cells never more than one. A piece that hops has a
neighbour, so at most five steps. The maximum over all distributions of ten and ten pieces is 192. The most found is 187.
"""
_ACTIONS = board.CELLS * board.CELLS
_LAST_ACTION = _ACTIONS - 1
_LAST_CELL = board.CELLS - 1
WORDS = 5
_ONE = np.uint64(1)
_RESULT = np.uint64(32)
_PLIES = np.uint64(0xFFFFFFFF)
_DRAWN, _BROKEN_OFF = 3, 4
_EVEN_BITS, _ODD_BITS = np.uint64(41), np.uint64(40)
_FREE_OF_EVEN = np.uint64(64 - 41)


@register(_NAME, choices={"encoding": _ENCODINGS})
class ChineseCheckersRhombus(NamedTuple):
    """Chinese Checkers for two on 81 cells."""

    anti_spoiling: bool = True
    ply_cap: int = 400
    distance_at_cap: bool = True
    repetitions: int = 0
    remembered: int = 32
    long_hops: bool = False
    encoding: int = 0

    def spec(self) -> GameSpec:
        """See `games.core.Game`."""
        return _spec(self)

    def action_name(self, state: State, action: int) -> str:
        """Return the source and target cells of a move, such as `a3-a5`."""
        if core.to_move(self, state) == 1:
            action = _LAST_ACTION - action
        start, target = divmod(action, board.CELLS)
        return f"{drawing.CELL_NAMES[start]}-{drawing.CELL_NAMES[target]}"

    def parse_action(self, state: State, text: str) -> int:
        """Parse `a3-a5` or `a3a5`; raises `IllegalMove` with the reason and the legal moves."""
        wanted = text.strip().lower().replace("-", "")
        start, target = wanted[:2], wanted[2:]
        if start in drawing.CELL_NAMES and target in drawing.CELL_NAMES:
            action = board.CELLS * drawing.CELL_NAMES.index(start) + drawing.CELL_NAMES.index(target)
            if core.to_move(self, state) == 1:
                action = _LAST_ACTION - action
            listed = np.empty(self.spec().max_legal, dtype=np.int16)
            if action in listed[: core.legal_actions(self, state, listed)]:
                return action
        legal = notation.legal_names(self, state)
        refused = f"{text.strip()!r} is not a legal move here"
        if not legal:
            raise IllegalMove(f"{refused}: the game is over")
        raise IllegalMove(f"{refused}{self._why_not(state, start, target)}; legal: {' '.join(legal)}")

    def _why_not(self, state: State, start: str, target: str) -> str:
        """Return the reason why a piece cannot move from one cell to another."""
        marks = dict(zip(drawing.CELL_NAMES, self.marks(state), strict=True))
        if start not in marks or target not in marks:
            return " (cells are a1 to i9, a move is two cells, such as a3-a5)"
        mover = "XO"[core.to_move(self, state)]
        if marks[start] != mover:
            return f" ({start} holds no piece of {mover})"
        if marks[target] != ".":
            return f" ({target} is occupied)"
        return f" (no step or chain of hops leads from {start} to {target})"

    def marks(self, state: State) -> str:
        """Return the cells in the order of their numbers: `X` for player 0, `O` for player 1, `.` for empty ones."""
        words = [int(word) for word in state[1:WORDS]]
        taken = [(words[cell & 1] >> (cell >> 1) & 1, words[2 + (cell & 1)] >> (cell >> 1) & 1) for cell in range(board.CELLS)]
        return "".join("X" if first else "O" if second else "." for first, second in taken)

    def caption(self, state: State) -> str:
        """Return the levels to go of both players and the player to move, such as `X 120, O 120 levels to go, X to move`."""
        to_go = [board.levels_to_go(player, state[1 + 2 * player], state[2 + 2 * player]) for player in range(2)]
        after = ("XO"[core.to_move(self, state)] + " to move", "X has won", "O has won", "drawn", "broken off")
        return f"X {to_go[0]}, O {to_go[1]} levels to go, {after[int(state[0] >> _RESULT)]}"

    def draw(self, state: State) -> str:
        """See `games.core.Game`."""
        return f"{drawing.text_of(self.marks(state))}\n{self.caption(state)}"

    def player_marks(self) -> str:
        """Return the marks of the players in text drawings, by seat."""
        return "XO"

    def draw_svg(self, state: State) -> str:
        """Return the position as SVG."""
        return drawing.svg_of(self.marks(state), self.caption(state))

    def cells(self, state: State) -> tuple[Cell, ...]:
        """Return the cells of the picture, for clicks."""
        return drawing.cells()

    def action_path(self, state: State, action: int) -> tuple[str, ...]:
        """Return the cells to click for an action."""
        return ends_of(self.action_name(state, action))


@functools.lru_cache(maxsize=16)
def _spec(game: ChineseCheckersRhombus) -> GameSpec:
    notation.require_range(_NAME, "ply_cap", game.ply_cap, 1, _MOST_PLIES)
    if game.repetitions != 0 and not 2 <= game.repetitions <= _MOST_REPETITIONS:
        wanted = f"it must be 0 (off) or between 2 and {_MOST_REPETITIONS}"
        raise InvalidParameters(f"{_NAME}: repetitions={game.repetitions} is out of range; {wanted}")
    fewest = 1 + _SHORTEST_CYCLE * max(1, game.repetitions - 1)  # with fewer the rule would never apply
    notation.require_range(_NAME, "remembered", game.remembered, fewest, _MOST_REMEMBERED)
    require_choice(_NAME, "encoding", game.encoding, _ENCODINGS)
    cells = np.arange(board.CELLS, dtype=np.int32)
    mirror = cells.reshape(board.SIDE, board.SIDE).T.ravel().copy()
    start, target = np.divmod(np.arange(_ACTIONS, dtype=np.int32), board.CELLS)
    return GameSpec(
        name=_NAME,
        rules_version=1,
        num_players=2,
        num_actions=_ACTIONS,
        max_legal=_MOST_MOVES_LONG if game.long_hops else _MOST_MOVES,
        state_dtype=np.dtype(np.uint64),
        state_size=WORDS + (game.remembered if game.repetitions else 0),
        planes=(2, board.SIDE, board.SIDE),
        max_plies=game.ply_cap,
        symmetries=(Symmetry("mirror", mirror, (board.CELLS * mirror[start] + mirror[target]).astype(np.int16)),),
        lattice="hexagonal",
        action_cells=np.stack([start, target], axis=1).astype(np.int16),
        repeats=True,
        reading=_READINGS[game.encoding],
    )


@compiled
def _state_key(state: State) -> np.uint64:
    """Return a hash of the pieces, the player to move and whether the game is over: 164 bits, packed into three words."""
    over = np.uint64(2) if state[0] >> _RESULT else np.uint64(0)
    first = state[1] | state[4] << _EVEN_BITS
    second = state[2] | state[4] >> _FREE_OF_EVEN << _ODD_BITS
    third = state[3] | (over | (state[0] & _ONE)) << _EVEN_BITS
    return mix64(mix64(mix64(first) + second) + third)


@rule(ChineseCheckersRhombus)
def reset(game: ChineseCheckersRhombus, state: State, seed: int) -> None:
    """Set up both homes."""
    state[:] = 0
    state[1], state[2] = board.HOMES[0, 0], board.HOMES[0, 1]
    state[3], state[4] = board.HOMES[1, 0], board.HOMES[1, 1]
    if game.repetitions:
        state[WORDS] = _state_key(state)


@rule(ChineseCheckersRhombus)
def to_move(game: ChineseCheckersRhombus, state: State) -> int:
    """Return the player to move: players alternate, player 0 begins."""
    return int(state[0] & _ONE)


@rule(ChineseCheckersRhombus)
def legal_actions(game: ChineseCheckersRhombus, state: State, out: np.ndarray) -> int:
    """List every step and every target of a chain of hops, in the mover's view."""
    if state[0] >> _RESULT:
        return 0
    taken = (state[1] | state[3], state[2] | state[4])
    if not state[0] & _ONE:
        return list_moves(state[1], state[2], taken, game.long_hops, out)
    count = list_moves(state[3], state[4], taken, game.long_hops, out)
    for i in range(count >> 1):  # rotating the board reverses the order
        out[i], out[count - 1 - i] = _LAST_ACTION - out[count - 1 - i], _LAST_ACTION - out[i]
    if count & 1:
        out[count >> 1] = _LAST_ACTION - out[count >> 1]
    return count


@rule(ChineseCheckersRhombus)
def play(game: ChineseCheckersRhombus, state: State, action: int) -> None:
    """Move the piece, and store the result if the game ends."""
    player = int(state[0] & _ONE)
    seen = action if player == 0 else _LAST_ACTION - action
    start, target = seen // board.CELLS, seen % board.CELLS
    state[1 + 2 * player + (start & 1)] ^= _ONE << np.uint64(start >> 1)
    state[1 + 2 * player + (target & 1)] ^= _ONE << np.uint64(target >> 1)
    state[0] += _ONE
    state[0] |= np.uint64(_result(game, state, player)) << _RESULT


@compiled
def _result(game: ChineseCheckersRhombus, state: State, player: int) -> int:
    """Return the result after a move of `player`, 0 if the game is not over."""
    taken = (state[1] | state[3], state[2] | state[4])
    if _has_won(game, state, taken, player):
        return 1 + player
    if _has_won(game, state, taken, 1 - player):  # the other side can fill the last hole in a goal
        return 2 - player
    if not can_move(state[3 - 2 * player], state[4 - 2 * player], taken):
        return 1 + player
    if game.repetitions and _has_recurred(game, state):
        return _DRAWN
    if int(state[0] & _PLIES) >= game.ply_cap:
        return _BROKEN_OFF if game.distance_at_cap else _DRAWN
    return 0


@compiled
def _has_won(game: ChineseCheckersRhombus, state: State, taken: tuple[np.uint64, np.uint64], player: int) -> bool:
    """Return whether a player's goal is full of their pieces or, with `anti_spoiling`, full with at least one of them."""
    even_goal, odd_goal = board.HOMES[1 - player, 0], board.HOMES[1 - player, 1]
    if (even_goal & ~taken[0]) | (odd_goal & ~taken[1]):
        return False
    even, odd = even_goal & state[1 + 2 * player], odd_goal & state[2 + 2 * player]
    if game.anti_spoiling:
        return (even | odd) != 0  # type: ignore[no-any-return]
    return even == even_goal and odd == odd_goal  # type: ignore[no-any-return]


@compiled
def _has_recurred(game: ChineseCheckersRhombus, state: State) -> bool:
    """Store the position's key; return whether it occurs often enough among the stored ones for a draw."""
    here = _state_key(state)
    state[WORDS + int(state[0] & _PLIES) % game.remembered] = here
    times = 0
    for i in range(WORDS, WORDS + game.remembered):
        if state[i] == here:
            times += 1
    return times >= game.repetitions


@rule(ChineseCheckersRhombus)
def is_over(game: ChineseCheckersRhombus, state: State) -> bool:
    """Return whether a goal is full, the player to move has no move, or repetition or the ply cap ends the game."""
    return (state[0] >> _RESULT) != 0  # type: ignore[no-any-return]


@rule(ChineseCheckersRhombus)
def scores(game: ChineseCheckersRhombus, state: State, out: np.ndarray) -> None:
    """Score 1 and -1 for a win, 0 each for a draw; a game stopped at the cap by the levels to go."""
    result = int(state[0] >> _RESULT)
    out[:] = 0.0
    if 1 <= result <= 2:
        out[result - 1] = 1.0
        out[2 - result] = -1.0
    elif result == _BROKEN_OFF:
        _score_distance(state, out)


@rule(ChineseCheckersRhombus)
def standing(game: ChineseCheckersRhombus, state: State, out: np.ndarray) -> None:
    """Score as at the ply cap; a draw if repetition is a draw."""
    if state[0] >> _RESULT:
        scores(game, state, out)
    elif game.distance_at_cap and not game.repetitions:
        _score_distance(state, out)
    else:
        out[:] = 0.0


@rule(ChineseCheckersRhombus)
def estimate(game: ChineseCheckersRhombus, state: State, out: np.ndarray) -> None:
    """Score the lead in levels as a share of the total climb, even where the ply cap is a draw."""
    if state[0] >> _RESULT:
        scores(game, state, out)
    else:
        _score_distance(state, out)


@compiled
def _score_distance(state: State, out: np.ndarray) -> None:
    """Write the lead in levels as a share of the total climb of a side."""
    lead = board.levels_to_go(1, state[3], state[4]) - board.levels_to_go(0, state[1], state[2])
    out[0] = lead / board.LEVELS_TO_GO
    out[1] = -lead / board.LEVELS_TO_GO


@rule(ChineseCheckersRhombus)
def encode(game: ChineseCheckersRhombus, state: State, viewer: int, out: np.ndarray) -> None:
    """Encode my pieces and the other player's, on a board rotated so that I start in row 0, column 0."""
    out[:] = 0
    for i in range(1, WORDS):
        owner, parity = (i - 1) >> 1, (i - 1) & 1
        first_bit = 0 if owner == viewer else board.CELLS
        word = state[i]
        while word:
            cell = 2 * lowest_bit(word) + parity
            set_bit(out, first_bit + (cell if viewer == 0 else _LAST_CELL - cell))
            word &= word - _ONE


@rule(ChineseCheckersRhombus)
def key(game: ChineseCheckersRhombus, state: State) -> np.uint64:
    """Return a hash of the pieces, the player to move and the end; plies and earlier positions are not included."""
    return _state_key(state)


@rule(ChineseCheckersRhombus)
def move_value(game: ChineseCheckersRhombus, state: State, action: int) -> float:
    """Return the levels that the piece climbs."""
    start, target = action // board.CELLS, action % board.CELLS
    climbed = target // board.SIDE + target % board.SIDE - start // board.SIDE - start % board.SIDE
    return float(climbed)


@rule(ChineseCheckersRhombus)
def may_end(game: ChineseCheckersRhombus, state: State, plies: int) -> bool:
    """Test for goals with as few holes as moves, the ply cap, and players who could run out of steps.

    A full home gains a hole and loses it again only if its owner moves out first. A move fills one cell, and takes one piece
    away from its up to 6 neighbours: of 9 empty cells beside the mover's pieces one is left after two moves. With
    `repetitions` any move may end the game.
    """
    if game.repetitions or int(state[0] & _PLIES) + plies >= game.ply_cap:
        return True
    player = int(state[0] & _ONE)
    taken = (state[1] | state[3], state[2] | state[4])
    for side in range(2):
        holes = count_bits(board.HOMES[side, 0] & ~taken[0]) + count_bits(board.HOMES[side, 1] & ~taken[1])
        if holes <= plies and (holes > 0 or (plies > 1 and side == player)):
            return True
    if plies > 1 and _cells_beside(state[1 + 2 * player], state[2 + 2 * player], taken) < 9:
        return True
    return _cells_beside(state[3 - 2 * player], state[4 - 2 * player], taken) < 2


@compiled
def _cells_beside(even: np.uint64, odd: np.uint64, taken: tuple[np.uint64, np.uint64]) -> int:
    """Return the number of empty cells that touch the pieces `even` and `odd`."""
    even_cells, odd_cells = np.uint64(0), np.uint64(0)
    for parity in range(2):
        word = even if parity == 0 else odd
        while word:
            cell = 2 * lowest_bit(word) + parity
            even_cells |= board.STEPS[cell, 0]
            odd_cells |= board.STEPS[cell, 1]
            word &= word - _ONE
    return count_bits(even_cells & ~taken[0]) + count_bits(odd_cells & ~taken[1])
