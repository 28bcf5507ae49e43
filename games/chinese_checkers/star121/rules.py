"""Chinese Checkers on the standard star of 121 fields, for two, three, four or six players with ten pieces each.

A move is a whole turn, written and numbered by its source and target fields, irrespective of the jumps between them.
Rows are named by letters from the bottom, fields by their number in the row. Two players, after d1-e5:

    q             2
    p            2 2
    o           2 2 2
    n          2 2 2 2
    m . . . . . . . . . . . . .
    l  . . . . . . . . . . . .
                ..
    f  . . . . . . . . . . . .
    e . . . . 1 . . . . . . . .
    d          . 1 1 1
    c           1 1 1
    b            1 1
    a             1

Seats are numbered clockwise. Planes and action numbers are in the player's view, with the player's home at the bottom; an
action is 121 * from + to, in the fields of `games.chinese_checkers.star121.board`. The last action is the pass.

State (uint64 [1 + 2 P]): a status word, then two words of fields per player, in the view from corner 0. Status: bits 0 to 2
the player to move, bit 3 the end, bits 4 to 6 the number of finished players, from bit 8 on three bits per player for the
place (1 for the first, 0 while playing), from bit 32 on the plies. `play` sets places and the end once.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from games import notation
from games.chinese_checkers.star121 import board as star
from games.chinese_checkers.star121 import drawing
from games.chinese_checkers.star121.board import CELLS, FIELDS, GOAL, HOME, ROWS, SIDE, TURNED, WITHOUT_CORNERS
from games.compiled import compiled
from games.core import GameSpec, State, register, rule
from games.errors import IllegalMove, InvalidParameters
from games.kit.bits import count_bits, lowest_bit, set_bit
from games.kit.cells import Cell, ends_of
from games.kit.randomness import mix64
from games.positions import legal

__all__ = ["ChineseCheckers"]

_SEATS = {2: (0, 3), 3: (0, 2, 4), 4: (0, 1, 3, 4), 6: (0, 1, 2, 3, 4, 5)}
"""Corners of the players; with four, two pairs of opposite corners."""
_PASS = FIELDS * FIELDS
_PIECES = 10
_MAX_ROUNDS = 5000
_HOME_ROWS = 140  # sum of the rows of a full home, counted from the top
_FULL_ADVANCE = 120.0  # rows gained by ten pieces from a full home to a full goal
_NEARLY = 0.99  # an estimate stays below a certain win

_CORNERS = np.array([[*_SEATS.get(players, ()), *[0] * 6][:6] for players in range(7)], dtype=np.int64)
_GOALS = np.array([star.words_of(star.corner_fields((corner + 3) % 6)) for corner in range(6)], dtype=np.uint64)
_HOMES = np.array([star.words_of(star.corner_fields(corner)) for corner in range(6)], dtype=np.uint64)

_ONE = np.uint64(1)
_SEAT = np.uint64(7)
_OVER = np.uint64(8)
_FINISHED, _PLACE, _PLIES = np.uint64(4), np.uint64(8), np.uint64(32)
_WITHOUT_PLIES = np.uint64(0xFFFFFFFF)


@register("chinese_checkers")
class ChineseCheckers(NamedTuple):
    """Chinese Checkers on the star of 121 fields."""

    players: int = 2
    rounds: int = 200
    spoilers: int = 3
    leave_goal: bool = True
    open_corners: bool = True
    places: bool = False
    by_distance: bool = True

    def spec(self) -> GameSpec:
        """See `games.core.Game`."""
        if self.players not in _SEATS:
            raise InvalidParameters(f"chinese_checkers: players={self.players} is out of range; it must be 2, 3, 4 or 6")
        notation.require_range("chinese_checkers", "rounds", self.rounds, 1, _MAX_ROUNDS)
        notation.require_range("chinese_checkers", "spoilers", self.spoilers, 0, _PIECES - 1)
        return _spec(self)

    def action_name(self, state: State, action: int) -> str:
        """Return the source and target fields of a move, such as `d1-e5`, or `pass`."""
        if action == _PASS:
            return "pass"
        back = TURNED[(6 - _corner(self, _player(state))) % 6]
        return "-".join(drawing.FIELD_NAMES[back[field]] for field in divmod(action, FIELDS))

    def parse_action(self, state: State, text: str) -> int:
        """Parse `d1-e5` or `pass`; raises `IllegalMove` with the reason and the legal moves."""
        wanted = text.strip().lower()
        action = _PASS if wanted == "pass" else self._meant(state, wanted)
        if action in legal(self, state):
            return action
        names = notation.legal_names(self, state)
        if not names:
            raise IllegalMove(f"{text.strip()!r} is not a legal move here: the game is over")
        why = drawing.why_not(self.owners(state), _player(state), wanted)
        raise IllegalMove(f"{text.strip()!r} is not a legal move here{why}; legal: {' '.join(names)}")

    def _meant(self, state: State, wanted: str) -> int:
        """Return the action of the player to move written as `d1-e5`, legal or not; -1 if the text does not name two fields."""
        numbers = [drawing.FIELD_NUMBERS.get(name, -1) for name in wanted.split("-")]
        if len(numbers) != 2 or min(numbers) < 0:
            return -1
        origin, target = (int(TURNED[_corner(self, _player(state)), field]) for field in numbers)
        return origin * FIELDS + target

    def owners(self, state: State) -> list[int]:
        """Return the player on each field in the view from corner 0, -1 for none."""
        sets = [int(state[1 + 2 * player]) | int(state[2 + 2 * player]) << 64 for player in range(self.players)]
        return [next((p for p, bits in enumerate(sets) if bits >> field & 1), -1) for field in range(FIELDS)]

    def caption(self, state: State) -> str:
        """Return the places, the player to move or the end, and the plies, such as `player 1 to move, ply 12 of 400`."""
        places = [_place_of(state, player) for player in range(self.players)]
        order = sorted((place, player) for player, place in enumerate(places) if place)
        words = [f"player {player + 1} is at place {place}" for place, player in order]
        plies = f"ply {int(state[0] >> _PLIES)} of {self.rounds * self.players}"
        words += ["over"] if is_over(self, state) else [f"player {_player(state) + 1} to move"]
        return ", ".join([*words, plies])

    def draw(self, state: State) -> str:
        """See `games.core.Game`."""
        return f"{drawing.text(self.owners(state))}\n{self.caption(state)}"

    def draw_svg(self, state: State) -> str:
        """Return the position as SVG, with each home in the colour of its player."""
        return drawing.picture(self.owners(state), _SEATS[self.players], self.caption(state))

    def cells(self, state: State) -> tuple[Cell, ...]:
        """Return the fields of the picture, for clicks."""
        return drawing.cells()

    def action_path(self, state: State, action: int) -> tuple[str, ...]:
        """Return the fields to click for an action; a pass has none."""
        return ends_of(self.action_name(state, action))


@functools.lru_cache(maxsize=64)
def _spec(game: ChineseCheckers) -> GameSpec:
    fields = [(origin, target) for origin in range(FIELDS) for target in range(FIELDS)]
    action_cells = np.array([*((CELLS[origin], CELLS[target]) for origin, target in fields), (-1, -1)], dtype=np.int16)
    action_cells.setflags(write=False)
    return GameSpec(
        name="chinese_checkers",
        rules_version=1,
        num_players=game.players,
        num_actions=_PASS + 1,
        max_legal=star.most_moves(game.players, game.open_corners),
        state_dtype=np.dtype(np.uint64),
        state_size=1 + 2 * game.players,
        planes=(_channels(game), SIDE, SIDE),
        max_plies=game.rounds * game.players,
        symmetries=(star.mirror(),) if game.players == 2 else (),
        lattice="hexagonal",
        action_cells=action_cells,
        repeats=True,
    )


@compiled
def _channels(game: ChineseCheckers) -> int:
    return game.players + (4 if game.players == 4 else 3)


@compiled
def _corner(game: ChineseCheckers, player: int) -> int:
    return int(_CORNERS[game.players, player])


@compiled
def _player(state: State) -> int:
    return int(np.int64(state[0] & _SEAT))


@compiled
def _place_of(state: State, player: int) -> int:
    return int(np.int64((state[0] >> (_PLACE + np.uint64(3 * player))) & _SEAT))


@rule(ChineseCheckers)
def reset(game: ChineseCheckers, state: State, seed: int) -> None:
    """Fill every player's home with pieces."""
    state[0] = 0
    for player in range(game.players):
        corner = _corner(game, player)
        state[1 + 2 * player], state[2 + 2 * player] = _HOMES[corner, 0], _HOMES[corner, 1]


@rule(ChineseCheckers)
def to_move(game: ChineseCheckers, state: State) -> int:
    """Return the player to move: seats in clockwise order, skipping finished players."""
    return _player(state)


@rule(ChineseCheckers)
def legal_actions(game: ChineseCheckers, state: State, out: np.ndarray) -> int:
    """List steps and chains of jumps of every piece; only the pass if there are none."""
    if state[0] & _OVER:
        return 0
    player = _player(state)
    corner = _corner(game, player)
    first, second = _taken(game, state)
    first, second = star.turned(first, second, corner)
    mine, mine_second = star.turned(state[1 + 2 * player], state[2 + 2 * player], corner)
    count, offset = 0, 0
    for _ in range(2):
        while mine:
            origin = lowest_bit(mine) + offset
            mine &= mine - _ONE
            low, high = star.reached(origin, first, second)
            if origin < _PIECES and not game.leave_goal:  # fields 0 .. 9 are the goal
                low, high = low & GOAL[0], np.uint64(0)
            elif not game.open_corners:
                low, high = low & WITHOUT_CORNERS[0], high & WITHOUT_CORNERS[1]
            count = star.list_targets(origin * FIELDS, low, out, count)
            count = star.list_targets(origin * FIELDS + 64, high, out, count)
        mine, offset = mine_second, 64
    if count == 0:
        out[0] = _PASS
        count = 1
    return count


@compiled
def _taken(game: ChineseCheckers, state: State) -> tuple[np.uint64, np.uint64]:
    """Return the occupied fields in the view from corner 0."""
    first, second = state[1], state[2]
    for player in range(1, game.players):
        first |= state[1 + 2 * player]
        second |= state[2 + 2 * player]
    return first, second


@rule(ChineseCheckers)
def play(game: ChineseCheckers, state: State, action: int) -> None:
    """Move the piece, then update places, the end of the game and the player to move."""
    player = _player(state)
    if action != _PASS:
        back = (6 - _corner(game, player)) % 6
        origin = TURNED[back, action // FIELDS]
        target = TURNED[back, action % FIELDS]
        state[1 + 2 * player + (origin >> 6)] ^= _ONE << np.uint64(origin & 63)
        state[1 + 2 * player + (target >> 6)] ^= _ONE << np.uint64(target & 63)
    status = state[0] + (_ONE << _PLIES)
    finished = int(np.int64((status >> _FINISHED) & _SEAT))
    if _has_finished(game, state, player):
        finished += 1
        status += (_ONE << _FINISHED) | (np.uint64(finished) << (_PLACE + np.uint64(3 * player)))
    state[0] = status
    following = (player + 1) % game.players
    last_place = game.players - 1 if game.places else 1
    if finished >= last_place or status >> _PLIES == np.uint64(game.rounds * game.players):
        status |= _OVER
    else:
        while _place_of(state, following):
            following = (following + 1) % game.players
    state[0] = (status & ~_SEAT) | np.uint64(following)


@compiled
def _has_finished(game: ChineseCheckers, state: State, player: int) -> bool:
    """Return whether the player's goal is full, with at most `spoilers` pieces of other players."""
    corner = _corner(game, player)
    first, second = _GOALS[corner, 0], _GOALS[corner, 1]
    missing = first & ~state[1 + 2 * player]
    missing_second = second & ~state[2 + 2 * player]
    if not missing | missing_second:
        return True
    taken, taken_second = _taken(game, state)
    if game.spoilers == 0 or missing & ~taken or missing_second & ~taken_second:
        return False
    others = 0
    while missing:
        missing &= missing - _ONE
        others += 1
    while missing_second:
        missing_second &= missing_second - _ONE
        others += 1
    return others <= game.spoilers


@rule(ChineseCheckers)
def is_over(game: ChineseCheckers, state: State) -> bool:
    """Return whether one player has finished (with `places`: all but one), or the rounds are over."""
    return (state[0] & _OVER) != 0  # type: ignore[no-any-return]


@rule(ChineseCheckers)
def scores(game: ChineseCheckers, state: State, out: np.ndarray) -> None:
    """Score 1 for the first place, evenly down to -1 for the last; players without a place share the mean of the rest."""
    standing(game, state, out)


@rule(ChineseCheckers)
def standing(game: ChineseCheckers, state: State, out: np.ndarray) -> None:
    """Score the places won so far; before the first, 0 each, or with `by_distance` the lead in rows gained."""
    others = game.players - 1
    finished = int(np.int64((state[0] >> _FINISHED) & _SEAT))
    if finished == 0 and game.by_distance:
        total = 0.0
        for player in range(game.players):
            out[player] = _rows_gained(game, state, player) / _FULL_ADVANCE
            total += out[player]
        for player in range(game.players):
            out[player] -= (total - out[player]) / others
        return
    for player in range(game.players):
        place = _place_of(state, player)
        out[player] = 1.0 - 2.0 * (place - 1) / others if place else -finished / others


@compiled
def _rows_gained(game: ChineseCheckers, state: State, player: int) -> int:
    """Return the rows gained by a player's pieces from their home in total: 0 .. 120."""
    first, second = star.turned(state[1 + 2 * player], state[2 + 2 * player], _corner(game, player))
    return _HOME_ROWS - star.sum_of_rows(first, second)


@rule(ChineseCheckers)
def encode(game: ChineseCheckers, state: State, viewer: int, out: np.ndarray) -> None:
    """Encode the pieces of each seat from mine on, my home, my goal, the board, and with four players the seat parity."""
    out[:] = 0
    corner = _corner(game, viewer)
    plane = SIDE * SIDE
    for seat in range(game.players):
        player = (viewer + seat) % game.players
        first, second = star.turned(state[1 + 2 * player], state[2 + 2 * player], corner)
        star.encode_fields(first, second, seat * plane, out)
    start = game.players * plane
    star.encode_fields(HOME[0], HOME[1], start, out)
    star.encode_fields(GOAL[0], GOAL[1], start + plane, out)
    for field in range(FIELDS):
        set_bit(out, start + 2 * plane + CELLS[field])
        if game.players == 4 and viewer % 2 == 0:
            set_bit(out, start + 3 * plane + CELLS[field])


@rule(ChineseCheckers)
def key(game: ChineseCheckers, state: State) -> np.uint64:
    """Return a hash of pieces, places, the player to move and the end; the number of plies is not included."""
    mixed = mix64(state[0] & _WITHOUT_PLIES)
    for i in range(1, 1 + 2 * game.players):
        mixed = mix64(mixed ^ state[i])
    return mixed


@rule(ChineseCheckers)
def move_value(game: ChineseCheckers, state: State, action: int) -> float:
    """Return the rows that a move gains towards the goal."""
    if action == _PASS:
        return 0.0
    return float(ROWS[action // FIELDS] - ROWS[action % FIELDS])


@rule(ChineseCheckers)
def estimate(game: ChineseCheckers, state: State, out: np.ndarray) -> None:
    """Score unfinished players by their lead in rows, scaled to the remaining places; places won keep their scores."""
    standing(game, state, out)
    if is_over(game, state):
        return
    others = game.players - 1
    finished = int(np.int64((state[0] >> _FINISHED) & _SEAT))
    total = 0
    for player in range(game.players):
        if not _place_of(state, player):
            total += _rows_gained(game, state, player)
    for player in range(game.players):
        if not _place_of(state, player):
            gained = _rows_gained(game, state, player)
            lead = (gained - (total - gained) / (others - finished)) / _FULL_ADVANCE
            out[player] = np.float32(-finished / others + (others - finished) / others * _NEARLY * lead)


@rule(ChineseCheckers)
def may_end(game: ChineseCheckers, state: State, plies: int) -> bool:
    """Test for the last round, and for players who lack no more pieces in their goal than they have moves.

    A goal counts as full with up to `spoilers` pieces of others. For one ply only the mover matters.
    """
    if (state[0] >> _PLIES) + np.uint64(plies) >= np.uint64(game.rounds * game.players):
        return True
    mover = _player(state)
    for player in range(game.players):
        if (plies > 1 or player == mover) and not _place_of(state, player):
            corner = _corner(game, player)
            missing = count_bits(_GOALS[corner, 0] & ~state[1 + 2 * player]) + count_bits(
                _GOALS[corner, 1] & ~state[2 + 2 * player]
            )
            if missing <= game.spoilers + plies:
                return True
    return False
