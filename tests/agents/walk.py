"""A walk: player 0 stays or goes a step and wins with the third; player 1 waits; after `turns` plies it is a draw.

Positions recur, and the key leaves out the plies, which decide how many steps are still possible.

State (int64 [2]): steps, plies played.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from games import notation
from games.core import GameSpec, State, register, rule
from games.kit.bits import set_range
from games.kit.randomness import mix64

GOAL = 3


@register("walk")
class Walk(NamedTuple):
    """Parameter: plies of a game."""

    turns: int = 12

    def spec(self) -> GameSpec:
        """See `games.core.Game`."""
        return GameSpec(
            name="walk",
            rules_version=1,
            num_players=2,
            num_actions=2,
            max_legal=2,
            state_dtype=np.dtype(np.int64),
            state_size=2,
            planes=(GOAL + 1, 1, 1),
            max_plies=self.turns,
            repeats=True,
        )

    @property
    def max_positions(self) -> int:
        """Steps by plies."""
        return (GOAL + 1) * (self.turns + 1)

    def action_name(self, state: State, action: int) -> str:
        """See `games.core.Game`."""
        return ("stay", "go")[action]

    def parse_action(self, state: State, text: str) -> int:
        """See `games.core.Game`."""
        return notation.parse_listed(self, state, text)

    def draw(self, state: State) -> str:
        """See `games.core.Game`."""
        return f"{int(state[0])} steps"


@rule(Walk)
def reset(game: Walk, state: State, seed: int) -> None:
    """No step."""
    state[:] = 0


@rule(Walk)
def to_move(game: Walk, state: State) -> int:
    """Turns alternate."""
    return int(state[1] & 1)


@rule(Walk)
def legal_actions(game: Walk, state: State, out: np.ndarray) -> int:
    """Player 0 stays or goes, player 1 waits."""
    if is_over(game, state):
        return 0
    out[0] = 0
    out[1] = 1
    return 2 - int(state[1] & 1)


@rule(Walk)
def play(game: Walk, state: State, action: int) -> None:
    """One ply."""
    state[0] += action
    state[1] += 1


@rule(Walk)
def is_over(game: Walk, state: State) -> bool:
    """At the goal, or out of turns."""
    return bool(state[0] == GOAL or state[1] >= game.turns)


@rule(Walk)
def scores(game: Walk, state: State, out: np.ndarray) -> None:
    """Won at the goal."""
    out[0] = 1.0 if state[0] == GOAL else 0.0
    out[1] = 0.0 - out[0]


@rule(Walk)
def encode(game: Walk, state: State, viewer: int, out: np.ndarray) -> None:
    """The steps."""
    out[:] = 0
    set_range(out, 0, 1 + state[0])


@rule(Walk)
def key(game: Walk, state: State) -> np.uint64:
    """Steps, player to move, and whether the game is over."""
    over = 1 if is_over(game, state) else 0
    return mix64(np.uint64(4 * state[0] + 2 * (state[1] & 1) + over))
