"""A game whose deal depends on the signedness of its seed: one move, and the first player wins an even deal.

State (int64 [2]): deal, whether the move was made.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from games import notation
from games.core import GameSpec, State, register, rule

__all__ = ["Dealt"]


@register("dealt")
class Dealt(NamedTuple):
    def spec(self) -> GameSpec:
        return GameSpec(
            name="dealt",
            rules_version=1,
            num_players=2,
            num_actions=1,
            max_legal=1,
            state_dtype=np.dtype(np.int64),
            state_size=2,
            planes=(1, 1, 1),
            max_plies=1,
        )

    def action_name(self, state: State, action: int) -> str:
        return "look"

    def parse_action(self, state: State, text: str) -> int:
        return notation.parse_listed(self, state, text)

    def draw(self, state: State) -> str:
        return f"deal {state[0]}"


@rule(Dealt)
def reset(game: Dealt, state: State, seed: int) -> None:
    """Deal by xorshift, whose right shift keeps the sign of a signed word alone."""
    word = seed ^ (seed << 13)
    word ^= word >> 7
    state[0] = (word ^ (word << 17)) % 1000
    state[1] = 0


@rule(Dealt)
def to_move(game: Dealt, state: State) -> int:
    return 0


@rule(Dealt)
def legal_actions(game: Dealt, state: State, out: np.ndarray) -> int:
    if state[1]:
        return 0
    out[0] = 0
    return 1


@rule(Dealt)
def play(game: Dealt, state: State, action: int) -> None:
    state[1] = 1


@rule(Dealt)
def is_over(game: Dealt, state: State) -> bool:
    return state[1] == 1


@rule(Dealt)
def scores(game: Dealt, state: State, out: np.ndarray) -> None:
    out[0] = 1.0 if state[0] % 2 == 0 else -1.0
    out[1] = -out[0]


@rule(Dealt)
def encode(game: Dealt, state: State, viewer: int, out: np.ndarray) -> None:
    out[:] = 0
