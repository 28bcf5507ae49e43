"""A game that is a tree: every position has as many moves, every game as many plies, and the scores are known by the path.

Without `listed`, taking any move but the best costs the mover something, whatever else is played: the moves of a position
are best first, or with `worst_first` (for at most 8 moves) the other way round. With `listed`, the scores of seat 0 stand
in the state.

State (float64 [3] or [3 + branching ** plies]): plies played, number of the leaf reached so far, score of seat 0 so far; then
the scores at the leaves, from left to right.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import games
from games import notation
from games.core import GameSpec, State, register, rule
from games.kit.randomness import mix64

PLY, PATH, SCORE, LEAVES = range(4)
COST = 2.0**-12  # of a move that is one place worse; exact in float32


@register("uniform_tree")
class UniformTree(NamedTuple):
    """Parameters: moves of each position, plies of each game, and the two switches above."""

    branching: int = 2
    plies: int = 3
    listed: bool = False
    worst_first: bool = False

    def spec(self) -> GameSpec:
        """See `games.core.Game`."""
        return GameSpec(
            name="uniform_tree",
            rules_version=1,
            num_players=2,
            num_actions=self.branching,
            max_legal=self.branching,
            state_dtype=np.dtype(np.float64),
            state_size=LEAVES + (self.branching**self.plies if self.listed else 0),
            planes=(1, 1, 1),
            max_plies=self.plies,
        )

    def action_name(self, state: State, action: int) -> str:
        """See `games.core.Game`."""
        return str(action)

    def parse_action(self, state: State, text: str) -> int:
        """See `games.core.Game`."""
        return notation.parse_listed(self, state, text)

    def draw(self, state: State) -> str:
        """See `games.core.Game`."""
        return f"ply {state[PLY]:.0f}, path {state[PATH]:.0f}"


def tree_of(branching: int, *leaves: float) -> tuple[UniformTree, State]:
    """Return a tree with these scores of seat 0 at its leaves, and its root."""
    plies = next(plies for plies in range(1, 40) if branching**plies >= len(leaves))
    game = UniformTree(branching, plies, listed=True)
    state = games.new_state(game)
    state[LEAVES:] = leaves
    return game, state


@rule(UniformTree)
def reset(game: UniformTree, state: State, seed: int) -> None:
    """Stand at the root; listed leaves are worth nothing."""
    state[:] = 0.0


@rule(UniformTree)
def to_move(game: UniformTree, state: State) -> int:
    """The seats take turns."""
    return int(state[PLY]) & 1


@rule(UniformTree)
def legal_actions(game: UniformTree, state: State, out: np.ndarray) -> int:
    """Every branch, until the leaf."""
    if state[PLY] == game.plies:
        return 0
    for i in range(game.branching):
        out[i] = i
    return game.branching


@rule(UniformTree)
def play(game: UniformTree, state: State, action: int) -> None:
    """Go down a branch."""
    cost = COST * action
    if game.worst_first:  # a choice decides more than all later ones together: no bound of an earlier branch reaches far
        cost = (game.branching - 1 - action) * 16.0 ** -(state[PLY] + 1.0)
    if not game.listed:
        state[SCORE] -= cost if int(state[PLY]) % 2 == 0 else -cost
    state[PLY] += 1
    state[PATH] = state[PATH] * game.branching + action


@rule(UniformTree)
def is_over(game: UniformTree, state: State) -> bool:
    """At a leaf."""
    return bool(state[PLY] == game.plies)


@rule(UniformTree)
def scores(game: UniformTree, state: State, out: np.ndarray) -> None:
    """What stands at the leaf."""
    out[0] = state[LEAVES + int(state[PATH])] if game.listed else state[SCORE]
    out[1] = -out[0]


@rule(UniformTree)
def encode(game: UniformTree, state: State, viewer: int, out: np.ndarray) -> None:
    """Nothing."""
    out[:] = 0


@rule(UniformTree)
def key(game: UniformTree, state: State) -> Any:
    """Where in the tree."""
    return mix64(np.uint64(int(state[PLY])) * np.uint64(1 << 40) + np.uint64(int(state[PATH])))


@rule(UniformTree)
def determinise(game: UniformTree, state: State, viewer: int, seed: int, out: State) -> None:
    """Nothing is hidden."""
    for i in range(state.size):
        out[i] = state[i]


@rule(UniformTree)
def estimate(game: UniformTree, state: State, out: np.ndarray) -> None:
    """What the way so far has cost; nothing is known of listed leaves."""
    out[0] = state[SCORE]
    out[1] = -state[SCORE]
