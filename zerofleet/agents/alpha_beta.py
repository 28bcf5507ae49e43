"""Alpha-beta search to a fixed depth, with nothing but the rules at its leaves: the classical opponent of known strength.

A position in which the game goes on counts 0 at the horizon; a finished one counts its scores. So the agent takes every
win and avoids every loss that it can force or see within `depth` plies, and otherwise plays at random. It does not prefer
a quick win to a slow one.

Every move of the root is searched with the full window. Were the bound of one move passed on to the next, a worse move
would often come back with just that bound, look as good as the best, and be chosen: a weaker opponent under the same name.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from games import core
from games.compiled import lean
from games.core import Game, State
from games.positions import copy_state, legal
from zerofleet.agents.base import Choice, Evaluate, require_duel
from zerofleet.agents.scratch import Scratch, scratch_for
from zerofleet.agents.spelling import Spelling
from zerofleet.errors import InvalidRequest

__all__ = ["MAX_DEPTH", "AlphaBetaAgent", "SearchedMoves", "from_spelling", "search_moves"]

MAX_DEPTH = 60
"""Deeper than any machine gets; what is deeper is a slip of the finger."""

_LOWEST, _HIGHEST = -1.0, 1.0  # bounds of a score: the full window


@dataclass(frozen=True, slots=True)
class SearchedMoves:
    """The moves of a position with their values."""

    actions: np.ndarray  # int16 [n], ascending
    values: np.ndarray  # float64 [n], for the player to move
    nodes: int
    """Positions looked at, the root among them."""

    def best(self) -> np.ndarray:
        """Return the actions of the highest value, int16 [m]."""
        return np.asarray(self.actions[self.values == self.values.max()])


class AlphaBetaAgent:
    """Searches `depth` plies and chooses among the equally best moves with equal chances."""

    def __init__(self, game: Game, depth: int) -> None:
        """Take the game to play and the depth, 1 to `MAX_DEPTH`; raises `InvalidRequest`."""
        if not 1 <= depth <= MAX_DEPTH:
            raise InvalidRequest(f"alpha_beta:{depth} is out of range; the depth must be between 1 and {MAX_DEPTH}")
        self.name = f"alpha_beta:{depth}"
        self.depth = depth
        require_duel(self.name, game)

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`."""
        searched = search_moves(game, state, self.depth)
        return Choice(int(rng.choice(searched.best())), searched.nodes, float(searched.values.max()))


def from_spelling(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> AlphaBetaAgent:
    """Return the agent written `alpha_beta:DEPTH`."""
    spelling.refuse_options()
    if not (spelling.argument.isascii() and spelling.argument.isdigit()):
        raise InvalidRequest(f"{str(spelling)!r} needs a depth in plies, such as alpha_beta:5")
    return AlphaBetaAgent(game, int(spelling.argument))


def search_moves(game: Game, state: State, depth: int) -> SearchedMoves:
    """Return every legal move with its exact value `depth` plies from here.

    Args:
        game: The rules, of a game of two players with perfect information.
        state: A position in which the game goes on; it stays as it is.
        depth: How many plies to look ahead, the move itself included; at least 1.
    """
    scratch = scratch_for(game, state, depth)
    stack = scratch.stack
    player = core.to_move(game, stack[0])
    actions = legal(game, stack[0])
    values = np.empty(len(actions))
    for i, action in enumerate(actions):
        stack[1] = stack[0]
        core.play(game, stack[1], action)
        values[i] = _value(game, scratch, 1, player, _LOWEST, _HIGHEST)
    return SearchedMoves(np.array(actions, dtype=np.int16), values, int(scratch.nodes[0]))


@lean
def _value(game: Game, scratch: Scratch, ply: int, player: int, alpha: float, beta: float) -> float:
    """Return the value of stack[ply] for `player`, exact if it lies between `alpha` and `beta`, else a bound.

    Args:
        game: The rules.
        scratch: Its depth is the horizon.
        ply: How far from the root.
        player: Whose value is meant, whoever is to move here.
        alpha: Value that `player` has for sure elsewhere.
        beta: Value to which the opponent can hold `player` elsewhere.
    """
    stack, listed = scratch.stack, scratch.listed
    scratch.nodes[0] += 1
    if core.is_over(game, stack[ply]):
        core.scores(game, stack[ply], scratch.scores)
        return float(scratch.scores[player])
    if ply + 1 == stack.shape[0]:
        return 0.0
    maximising = core.to_move(game, stack[ply]) == player
    best = -np.inf if maximising else np.inf
    for i in range(core.legal_actions(game, stack[ply], listed[ply])):
        copy_state(stack[ply], stack[ply + 1])
        core.play(game, stack[ply + 1], listed[ply, i])
        value = _value(game, scratch, ply + 1, player, alpha, beta)
        if maximising:
            best = max(best, value)
            alpha = max(alpha, best)
        else:
            best = min(best, value)
            beta = min(beta, best)
        if beta <= alpha:
            break
    return best
