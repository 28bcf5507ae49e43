"""Rock paper scissors: two players choose at once for a fixed number of turns; more turns won win the game.

Actions are 0 rock, 1 paper, 2 scissors. The players commit their choices in secret, one after the other; both are revealed
after the second.

State (uint64): a status word, then the revealed choices, two bits each: words of player 0, then of player 1.
Status: bits 0 to 15 count the turns played, 16 to 31 and 32 to 47 the turns won by each player; bit 48 is the player who
commits first, bit 49 is set once they have, bits 50 and 51 hold the choice; bit 52 is set if the score is the margin.

Planes (C x 1 x 1): the other player's choices, latest first, three bits each, followed by the viewer's with
`own_moves`; turns not yet played are zeros.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from games import notation
from games.compiled import compiled
from games.core import GameSpec, State, register, rule
from games.errors import IllegalMove, InvalidParameters
from games.kit.bits import set_bit
from games.kit.cells import Cell
from games.kit.randomness import mix64
from games.kit.svg import BOARD, LINE, PAPER, PLAYER_COLOURS, Canvas

__all__ = ["NAMES", "RockPaperScissors"]

NAMES = ("rock", "paper", "scissors")
"""Names of the actions, in order; each beats the previous one, cyclically."""

_COUNTERS = np.array([1, 2, 0], dtype=np.int16)
_SCORES = ("result", "margin")
_MAX_TURNS = 1000
_SHOWN = 40
"""Number of latest turns in a picture."""
_SHOWN_IN_PLAY = 16
"""The same in the picture for play, narrow enough for a telephone."""
_LEFT, _STEP, _HEIGHT, _CLICKED = 140, 18, 92, 34  # pixels: first turn, distance of turns, height, radius of a choice

_ONE = np.uint64(1)
_COUNT_MASK, _CHOICE_MASK = np.uint64(0xFFFF), np.uint64(3)
_WON, _FIRST, _CHOSEN, _CHOICE, _MARGIN = np.uint64(16), np.uint64(48), np.uint64(49), np.uint64(50), np.uint64(52)
_SECRET_MASK = np.uint64(7) << _CHOSEN


@register("rock_paper_scissors")
class RockPaperScissors(NamedTuple):
    """Rock paper scissors over many turns, for players who detect patterns."""

    turns: int = 100
    own_moves: bool = False
    score: str = "result"

    def spec(self) -> GameSpec:
        """See `games.core.Game`."""
        return _spec(self)

    def action_name(self, state: State, action: int) -> str:
        """See `games.core.Game`."""
        return NAMES[action]

    def parse_action(self, state: State, text: str) -> int:
        """Parse `rock` or its first letter; raises `IllegalMove`."""
        wanted = text.strip().lower()
        for name, action in notation.legal_names(self, state).items():
            if wanted in (name, name[0]):
                return action
        listed = "none, the game is over" if is_over(self, state) else " ".join(NAMES)
        raise IllegalMove(f"{text.strip()!r} is not a legal move here; legal: {listed}")

    def history(self, state: State, player: int) -> list[int]:
        """Return the revealed choices of a player, in order of turns."""
        at = 1 + player * _words(self)
        words = [int(word) for word in state[at : at + _words(self)]]
        return [words[turn >> 5] >> 2 * (turn & 31) & 3 for turn in range(_turns(state))]

    def draw(self, state: State) -> str:
        """See `games.core.Game`."""
        secret = f"\nplayer {_first(state) + 1} has chosen {NAMES[_secret(state)]}" if _has_chosen(state) else ""
        return self.draw_for(state, 0) + secret

    def draw_for(self, state: State, viewer: int) -> str:
        """Return a text drawing in the view of `viewer`, without choices of the current turn."""
        played = _turns(state)
        lines = [f"turn {played + 1} of {self.turns}" if played < self.turns else "the game is over"]
        for player in range(2):
            letters = " ".join(NAMES[choice][0].upper() for choice in self.history(state, player)[-_SHOWN:])
            dots = ".. " if played > _SHOWN else ""
            lines.append(f"player {player + 1} | {_won(state, player):>3} won | {dots}{letters}".rstrip())
        return "\n".join(lines)

    def draw_svg(self, state: State) -> str:
        """Return an SVG picture: the latest turns in columns, each winning choice in its player's colour."""
        return self._canvas(state, _SHOWN, _HEIGHT).render(self._caption(state))

    def draw_svg_for(self, state: State, viewer: int) -> str:
        """Return a narrow picture with the three choices below it, for clicks; a choice of the current turn is not shown."""
        cells = self.cells(state)
        canvas = self._canvas(state, _SHOWN_IN_PLAY, _HEIGHT + (2 * _CLICKED + 8 if cells else 0))
        for cell in cells:
            canvas.circle(cell.x, cell.y, cell.radius, fill=BOARD)
            canvas.text(cell.x, cell.y, cell.id)
        return canvas.render(self._caption(state))

    def outcome_name(self, before: State, after: State, viewer: int) -> str:
        """Return the other player's choice in the turn that was played, such as `against paper`."""
        return f"against {NAMES[self.history(after, 1 - viewer)[-1]]}"

    def cells(self, state: State) -> tuple[Cell, ...]:
        """Return the choices below the picture, for clicks; none at the end."""
        if is_over(self, state):
            return ()
        middle = _width(_SHOWN_IN_PLAY) / 2
        places = (middle + (action - 1) * 4 * _CLICKED for action in range(3))
        return tuple(Cell(name, x, _HEIGHT + _CLICKED, _CLICKED) for name, x in zip(NAMES, places, strict=True))

    def action_path(self, state: State, action: int) -> tuple[str, ...]:
        """Return the choice to click for an action."""
        return (NAMES[action],)

    def _caption(self, state: State) -> str:
        return f"Rock paper scissors, {_won(state, 0)} to {_won(state, 1)} after {_turns(state)} turns"

    def _canvas(self, state: State, shown: int, height: float) -> Canvas:
        first = max(0, _turns(state) - shown)
        canvas = Canvas(_width(shown), height)
        canvas.text(14, 18, self.draw_for(state, 0).splitlines()[0], size=14, anchor="start", bold=True)
        canvas.rectangle(_LEFT - 6, 32, shown * _STEP + 12, 48, fill=BOARD, corner=6)
        for player in range(2):
            y = 44 + 24 * player
            canvas.circle(22, y, 7, fill=PLAYER_COLOURS[player])
            canvas.text(38, y, f"{player + 1}: {_won(state, player)} won", anchor="start")
            for i, choice in enumerate(self.history(state, player)[first:]):
                won = choice == _COUNTERS[_choice(self, state, 1 - player, first + i)]
                x = _LEFT + _STEP * (i + 0.5)
                canvas.circle(x, y, 8, fill=PLAYER_COLOURS[player] if won else PAPER, stroke=LINE)
                canvas.text(x, y, NAMES[choice][0].upper(), size=11, bold=won)
        return canvas


def _width(shown: int) -> float:
    """Return the width of a picture of the latest `shown` turns, in pixels."""
    return _LEFT + shown * _STEP + 20


@functools.lru_cache(maxsize=64)
def _spec(game: RockPaperScissors) -> GameSpec:
    notation.require_range("rock_paper_scissors", "turns", game.turns, 1, _MAX_TURNS)
    if game.score not in _SCORES:
        raise InvalidParameters(f"rock_paper_scissors: score={game.score!r} is unknown; it must be one of {', '.join(_SCORES)}")
    return GameSpec(
        name="rock_paper_scissors",
        rules_version=1,
        num_players=2,
        num_actions=3,
        max_legal=3,
        state_dtype=np.dtype(np.uint64),
        state_size=1 + 2 * _words(game),
        planes=(3 * game.turns * (2 if game.own_moves else 1), 1, 1),
        max_plies=2 * game.turns,
        information="simultaneous",
        counters=_COUNTERS,
        score_parameters=("score",),
    )


@compiled
def _words(game: RockPaperScissors) -> int:
    """Return the number of words for a player's choices."""
    return (game.turns + 31) // 32


@compiled
def _turns(state: State) -> int:
    return np.int64(state[0] & _COUNT_MASK)  # type: ignore[return-value]


@compiled
def _won(state: State, player: int) -> int:
    return np.int64((state[0] >> (_WON * np.uint64(1 + player))) & _COUNT_MASK)  # type: ignore[return-value]


@compiled
def _first(state: State) -> int:
    return np.int64((state[0] >> _FIRST) & _ONE)  # type: ignore[return-value]


@compiled
def _has_chosen(state: State) -> bool:
    return (state[0] >> _CHOSEN) & _ONE == _ONE  # type: ignore[no-any-return]


@compiled
def _secret(state: State) -> int:
    """Return the choice of the player who committed first."""
    return np.int64((state[0] >> _CHOICE) & _CHOICE_MASK)  # type: ignore[return-value]


@compiled
def _choice(game: RockPaperScissors, state: State, player: int, turn: int) -> int:
    word = state[1 + player * _words(game) + (turn >> 5)]
    return np.int64((word >> np.uint64(2 * (turn & 31))) & _CHOICE_MASK)  # type: ignore[return-value]


@compiled
def _begin_turn(state: State, first: int) -> None:
    """Undo a secret choice and let `first` commit first."""
    state[0] &= ~(_SECRET_MASK | _ONE << _FIRST)
    state[0] |= np.uint64(first) << _FIRST


@compiled
def _record(game: RockPaperScissors, state: State, player: int, choice: int, beaten: int) -> None:
    """Store a player's choice, and a win if it beats `beaten`."""
    turn = _turns(state)
    state[1 + player * _words(game) + (turn >> 5)] |= np.uint64(choice) << np.uint64(2 * (turn & 31))
    if choice == _COUNTERS[beaten]:
        state[0] += _ONE << (_WON * np.uint64(1 + player))


@rule(RockPaperScissors)
def reset(game: RockPaperScissors, state: State, seed: int) -> None:
    """Clear all turns."""
    state[:] = np.uint64(0)
    if game.score == "margin":
        state[0] = _ONE << _MARGIN


@rule(RockPaperScissors)
def to_move(game: RockPaperScissors, state: State) -> int:
    """Return the player to commit: in each turn the first, then the other; player 0 first unless changed by `determinise`."""
    return 1 - _first(state) if _has_chosen(state) else _first(state)


@rule(RockPaperScissors)
def legal_actions(game: RockPaperScissors, state: State, out: np.ndarray) -> int:
    """List all three choices, until the game is over."""
    if is_over(game, state):
        return 0
    for action in range(3):
        out[action] = action
    return 3


@rule(RockPaperScissors)
def play(game: RockPaperScissors, state: State, action: int) -> None:
    """Commit a choice; the second reveals both."""
    if not _has_chosen(state):
        state[0] |= (_ONE << _CHOSEN) | (np.uint64(action) << _CHOICE)
        return
    first, secret = _first(state), _secret(state)
    _record(game, state, first, secret, action)
    _record(game, state, 1 - first, action, secret)
    _begin_turn(state, first)
    state[0] += _ONE


@rule(RockPaperScissors)
def is_over(game: RockPaperScissors, state: State) -> bool:
    """Return whether all turns are played."""
    return _turns(state) == game.turns


@rule(RockPaperScissors)
def scores(game: RockPaperScissors, state: State, out: np.ndarray) -> None:
    """Score 1 for more turns won, -1 for fewer, 0 each for a tie; or the difference as a share of all turns."""
    difference = float(_won(state, 0) - _won(state, 1))
    if (state[0] >> _MARGIN) & _ONE == _ONE:
        out[0] = difference / game.turns
    else:
        out[0] = min(1.0, max(-1.0, difference))
    out[1] = -out[0]


@rule(RockPaperScissors)
def encode(game: RockPaperScissors, state: State, viewer: int, out: np.ndarray) -> None:
    """Encode the other player's choices, latest first; then the viewer's with `own_moves`."""
    out[:] = 0
    turns = _turns(state)
    for i in range(turns):
        set_bit(out, 3 * i + _choice(game, state, 1 - viewer, turns - 1 - i))
        if game.own_moves:
            set_bit(out, 3 * (game.turns + i) + _choice(game, state, viewer, turns - 1 - i))


@rule(RockPaperScissors)
def key(game: RockPaperScissors, state: State) -> np.uint64:
    """Return a hash of the turns played, the player to move and both histories; a secret choice is not included."""
    mixed = mix64(np.uint64(1 + 2 * _turns(state) + to_move(game, state)))
    for i in range(1, state.size):
        mixed = mix64(mixed ^ state[i])
    return mixed


@rule(RockPaperScissors)
def round_of(game: RockPaperScissors, state: State) -> int:
    """Return the number of turns played."""
    return _turns(state)


@rule(RockPaperScissors)
def determinise(game: RockPaperScissors, state: State, viewer: int, seed: int, out: State) -> None:
    """Undo a secret choice, and let `viewer` commit first; nothing else is hidden."""
    for i in range(state.size):
        out[i] = state[i]
    _begin_turn(out, viewer)


@rule(RockPaperScissors)
def foresee(game: RockPaperScissors, state: State, viewer: int, likelihood: np.ndarray, plays: np.ndarray) -> None:
    """Write the other player's likeliest choice."""
    plays[0] = 0
    for action in range(1, 3):
        if likelihood[action] > likelihood[plays[0]]:
            plays[0] = action


@rule(RockPaperScissors)
def play_foreseen(game: RockPaperScissors, state: State, action: int, plays: np.ndarray) -> None:
    """Play the turn with the given choice of the other player."""
    _begin_turn(state, to_move(game, state))
    play(game, state, action)
    play(game, state, plays[0])
