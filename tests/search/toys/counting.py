"""A game for three: count to a limit together; who reaches it wins, and hurts the one who would have been next.

On a turn the count goes up by 1, 2 or 3. After a 1 or 3 the next seat is to move, after a 2 the seat after that one, so
turns do not simply go round. Whoever brings the count to the limit scores 1, the seat to their left -1, the third 0:
every outcome is worth something else to each seat, so that max^n has one value vector and no ties between outcomes.

State (int64 [2]): count, seat to move. Planes (1 x 1 x limit + 3): one bit, the count; whose turn it is the network need
not know, for seats differ in nothing but order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from games import notation
from games.core import GameSpec, State, register, rule
from games.kit.bits import set_bit
from games.kit.randomness import mix64

SEATS = 3


@register("counting")
class Counting(NamedTuple):
    """Parameters: the number to count to."""

    limit: int = 9

    def spec(self) -> GameSpec:
        """See `games.core.Game`."""
        return GameSpec(
            name="counting",
            rules_version=1,
            num_players=SEATS,
            num_actions=3,
            max_legal=3,
            state_dtype=np.dtype(np.int64),
            state_size=2,
            planes=(1, 1, self.limit + 3),
            max_plies=self.limit,
        )

    def action_name(self, state: State, action: int) -> str:
        """See `games.core.Game`."""
        return str(action + 1)

    def parse_action(self, state: State, text: str) -> int:
        """See `games.core.Game`."""
        return notation.parse_listed(self, state, text)

    def draw(self, state: State) -> str:
        """See `games.core.Game`."""
        return f"{state[0]} of {self.limit}, seat {state[1]} to move"


@rule(Counting)
def reset(game: Counting, state: State, seed: int) -> None:
    """Begin at 0 with the seat the seed says."""
    state[0] = 0
    state[1] = seed % SEATS


@rule(Counting)
def to_move(game: Counting, state: State) -> int:
    """The state says it."""
    return int(state[1])


@rule(Counting)
def legal_actions(game: Counting, state: State, out: np.ndarray) -> int:
    """Add 1, 2 or 3, until the limit is reached."""
    if state[0] >= game.limit:
        return 0
    for action in range(3):
        out[action] = action
    return 3


@rule(Counting)
def play(game: Counting, state: State, action: int) -> None:
    """Count on. The seat of a finished game is the one after the winner, skipped or not."""
    state[0] += action + 1
    skips = action == 1 and state[0] < game.limit
    state[1] = (state[1] + (2 if skips else 1)) % SEATS


@rule(Counting)
def is_over(game: Counting, state: State) -> bool:
    """The limit is reached."""
    return bool(state[0] >= game.limit)


@rule(Counting)
def scores(game: Counting, state: State, out: np.ndarray) -> None:
    """The winner sits before the seat to move."""
    left = int(state[1])
    out[left] = -1.0
    out[(left + 1) % SEATS] = 0.0
    out[(left + 2) % SEATS] = 1.0


@rule(Counting)
def encode(game: Counting, state: State, viewer: int, out: np.ndarray) -> None:
    """One bit."""
    out[:] = 0
    set_bit(out, int(state[0]))


@rule(Counting)
def key(game: Counting, state: State) -> Any:
    """Count and seat, mixed."""
    return mix64(np.uint64(state[0] * SEATS + state[1]))
