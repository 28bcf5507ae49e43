"""A game that can go round: two walkers share one token in a corridor and pull it to their own ends.

Each turn the mover takes the token one step left or right. At cell 0 player 0 wins, at the last cell player 1; after `turns`
plies it is a draw. Positions recur all the time. As things stand the nearer one leads: `standing` is the distance from the
middle, so that a cut is seen in the values.

State (int64 [2]): cell of the token, plies played.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from games import notation
from games.core import GameSpec, State, register, rule
from games.kit.bits import set_bit
from games.kit.randomness import mix64


@register("corridor")
class Corridor(NamedTuple):
    """Parameters: cells of the corridor (odd), plies of a game."""

    cells: int = 7
    turns: int = 24

    def spec(self) -> GameSpec:
        """See `games.core.Game`."""
        return GameSpec(
            name="corridor",
            rules_version=1,
            num_players=2,
            num_actions=2,
            max_legal=2,
            state_dtype=np.dtype(np.int64),
            state_size=2,
            planes=(2, 1, self.cells),
            max_plies=self.turns,
            repeats=True,
        )

    def action_name(self, state: State, action: int) -> str:
        """See `games.core.Game`."""
        return ("left", "right")[action]

    def parse_action(self, state: State, text: str) -> int:
        """See `games.core.Game`."""
        return notation.parse_listed(self, state, text)

    def draw(self, state: State) -> str:
        """See `games.core.Game`."""
        return "".join("o" if cell == state[0] else "." for cell in range(self.cells))


@rule(Corridor)
def reset(game: Corridor, state: State, seed: int) -> None:
    """The token lies in the middle."""
    state[0] = game.cells // 2
    state[1] = 0


@rule(Corridor)
def to_move(game: Corridor, state: State) -> int:
    """Turns alternate."""
    return int(state[1] & 1)


@rule(Corridor)
def legal_actions(game: Corridor, state: State, out: np.ndarray) -> int:
    """Left and right, until an end is reached."""
    if state[0] == 0 or state[0] == game.cells - 1 or state[1] >= game.turns:
        return 0
    out[0] = 0
    out[1] = 1
    return 2


@rule(Corridor)
def play(game: Corridor, state: State, action: int) -> None:
    """One step."""
    state[0] += 2 * action - 1
    state[1] += 1


@rule(Corridor)
def is_over(game: Corridor, state: State) -> bool:
    """At an end, or out of turns."""
    return bool(state[0] == 0 or state[0] == game.cells - 1 or state[1] >= game.turns)


@rule(Corridor)
def scores(game: Corridor, state: State, out: np.ndarray) -> None:
    """Whose end the token lies at."""
    out[0] = 1.0 if state[0] == 0 else (-1.0 if state[0] == game.cells - 1 else 0.0)
    out[1] = -out[0]


@rule(Corridor)
def encode(game: Corridor, state: State, viewer: int, out: np.ndarray) -> None:
    """The token, and whether the viewer is player 0; whose turn it is the network sees by being asked."""
    out[:] = 0
    set_bit(out, int(state[0]))
    if viewer == 0:
        set_bit(out, game.cells)


@rule(Corridor)
def key(game: Corridor, state: State) -> np.uint64:
    """Cell and player to move: how many plies there were changes nothing but when the game ends."""
    over = state[0] == 0 or state[0] == game.cells - 1 or state[1] >= game.turns
    return mix64(np.uint64(4 * state[0] + 2 * (1 if over else 0) + (state[1] & 1)))


@rule(Corridor)
def standing(game: Corridor, state: State, out: np.ndarray) -> None:
    """The nearer one leads."""
    out[0] = (game.cells // 2 - state[0]) / game.cells
    out[1] = -out[0]
