"""A game of nerve for two: take a small prize, or dare to guess the coin that the other one has seen.

    seat 0:  safe ── seat 0 wins a little
             dare ── seat 1: nod or shake ── seat 0: heads or tails ── won if right, lost if wrong

With the coin in sight a dare is won. Without it a dare is worth nothing, unless the answer tells. A search that solved each
deal by itself would think it knew the coin.

State (int64 [3]): coin, stage (0 .. 2, OVER), last action. Planes (bits): the stage, the last action, and the coin for seat 1
or if it lies open.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from games import notation
from games.core import GameSpec, State, register, rule
from games.kit.bits import set_bit
from games.kit.randomness import mix64

COIN, STAGE, LAST = range(3)
OVER = 3
COIN_BIT, LAST_BIT = 3, 5
SAFE, DARE = 0, 1
PRIZE = 0.25


@register("coin")
class Coin(NamedTuple):
    """Parameters: whether the coin lies open."""

    in_sight: bool = False

    def spec(self) -> GameSpec:
        """See `games.core.Game`."""
        return GameSpec(
            name="coin",
            rules_version=1,
            num_players=2,
            num_actions=2,
            max_legal=2,
            state_dtype=np.dtype(np.int64),
            state_size=3,
            planes=(7, 1, 1),
            max_plies=3,
            information="perfect" if self.in_sight else "hidden",
        )

    def action_name(self, state: State, action: int) -> str:
        """See `games.core.Game`."""
        return str(action)

    def parse_action(self, state: State, text: str) -> int:
        """See `games.core.Game`."""
        return notation.parse_listed(self, state, text)

    def draw(self, state: State) -> str:
        """See `games.core.Game`."""
        return f"stage {state[STAGE]}"


@rule(Coin)
def reset(game: Coin, state: State, seed: int) -> None:
    """Toss the coin."""
    state[:] = 0
    state[COIN] = np.int64(mix64(np.uint64(seed + 1)) & np.uint64(1))


@rule(Coin)
def to_move(game: Coin, state: State) -> int:
    """Seat 1 answers a dare."""
    return 1 if state[STAGE] == 1 else 0


@rule(Coin)
def legal_actions(game: Coin, state: State, out: np.ndarray) -> int:
    """Two ways at every stage."""
    if state[STAGE] == OVER:
        return 0
    out[0] = 0
    out[1] = 1
    return 2


@rule(Coin)
def play(game: Coin, state: State, action: int) -> None:
    """Go on to the next stage; whoever plays safe is done. A finished game keeps whether the guess was right in its coin."""
    if state[STAGE] == 0 and action == SAFE:
        state[COIN] = 2
        state[STAGE] = OVER
    else:
        if state[STAGE] == 2:
            state[COIN] = 1 if state[COIN] == action else 0
        state[STAGE] += 1
    state[LAST] = action


@rule(Coin)
def is_over(game: Coin, state: State) -> bool:
    """Played safe, or guessed."""
    return bool(state[STAGE] == OVER)


@rule(Coin)
def scores(game: Coin, state: State, out: np.ndarray) -> None:
    """What seat 0 wins, seat 1 loses."""
    out[0] = PRIZE if state[COIN] == 2 else 2.0 * state[COIN] - 1.0
    out[1] = -out[0]


@rule(Coin)
def encode(game: Coin, state: State, viewer: int, out: np.ndarray) -> None:
    """The stage, the last action, and the coin for who may see it."""
    out[:] = 0
    if state[STAGE] < OVER:
        set_bit(out, state[STAGE])
    set_bit(out, LAST_BIT + state[LAST])
    if state[STAGE] < OVER and (viewer == 1 or game.in_sight):
        set_bit(out, COIN_BIT + state[COIN])


@rule(Coin)
def key(game: Coin, state: State) -> Any:
    """The whole truth, mixed."""
    return mix64(np.uint64(state[COIN] * 100 + state[STAGE] * 10 + state[LAST]))


@rule(Coin)
def determinise(game: Coin, state: State, viewer: int, seed: int, out: State) -> None:
    """Toss the coin again for seat 0."""
    for i in range(state.size):
        out[i] = state[i]
    if viewer == 0 and state[STAGE] < OVER:
        out[COIN] = np.int64(mix64(np.uint64(seed)) & np.uint64(1))
