"""The greedy agent: maximises `games.core.move_value`; the baseline of games whose data sheet has a greedy player.

The move value is the rows gained in Chinese Checkers, the discs turned over in Othello. Ties are broken uniformly, so in a
game without that rule the agent plays at random.

    greedy_games(game, 4000, seed=1).plies.mean()      mean length of games between greedy players
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from games import core
from games.compiled import lean
from games.core import Game, State
from games.kit.randomness import mix64, uniform_int
from games.positions import legal, new_state
from zerofleet.agents.base import Choice, Evaluate
from zerofleet.agents.spelling import Spelling

__all__ = ["GreedyAgent", "GreedyGames", "from_spelling", "greedy_games", "keep_best"]


class GreedyAgent:
    """Chooses uniformly among the legal moves of the largest `move_value`."""

    name = "greedy"

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`."""
        actions = np.array(legal(game, state))
        return Choice(int(rng.choice(actions[_are_best(game, state, actions)])))

    def policy(self, game: Game, state: State) -> np.ndarray:
        """See `zerofleet.agents.PolicyAgent`."""
        best = _are_best(game, state, np.array(legal(game, state)))
        return np.asarray(best / best.sum())


def _are_best(game: Game, state: State, actions: np.ndarray) -> np.ndarray:
    """Return a mask of the actions with the largest `move_value`, bool [n]."""
    values = np.array([core.move_value(game, state, int(action)) for action in actions])
    return np.asarray(values == values.max())


def from_spelling(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> GreedyAgent:
    """Return the agent written `greedy`."""
    spelling.refuse_argument()
    spelling.refuse_options()
    return GreedyAgent()


@dataclass(frozen=True, slots=True)
class GreedyGames:
    """Results of games in which every seat is greedy. N games, P players."""

    plies: np.ndarray  # int64 [N]
    scores: np.ndarray  # float32 [N, P], by seat


def greedy_games(game: Game, count: int, seed: int, *, random_plies: int = 0) -> GreedyGames:
    """Play games among greedy players only.

    Args:
        game: The rules.
        count: Number of games N.
        seed: Determines all games; each has its own random numbers and, where chance decides it, its own start.
        random_plies: Number of uniformly random plies at the beginning of each game.
    """
    spec = game.spec()
    played = GreedyGames(np.empty(count, dtype=np.int64), np.empty((count, spec.num_players), dtype=np.float32))
    listed = np.empty(spec.max_legal, dtype=np.int16)
    first = mix64(np.uint64(seed))
    for i in range(count):
        word = np.array([mix64(np.uint64((int(first) + i) % 2**64))], dtype=np.uint64)
        state = new_state(game, int(word[0] >> np.uint64(33)))
        played.plies[i] = _play_out(game, state, word, listed, random_plies)
        core.scores(game, state, played.scores[i])
    return played


@lean
def _play_out(game: Game, state: State, word: np.ndarray, listed: np.ndarray, random_plies: int) -> int:
    """Play to the end in place and return the number of plies.

    Args:
        game: The rules.
        state: Start of the game.
        word: uint64 [1], state of the random generator.
        listed: int16 [L], scratch for legal actions.
        random_plies: Number of random plies at the beginning.
    """
    ply = 0
    while not core.is_over(game, state):
        count = core.legal_actions(game, state, listed)
        if ply >= random_plies:
            count = keep_best(game, state, listed, count)
        core.play(game, state, listed[uniform_int(word, count)])
        ply += 1
    return ply


@lean
def keep_best(game: Game, state: State, listed: np.ndarray, count: int) -> int:
    """Move the actions of the largest value to the front of `listed` and return their number."""
    best, kept = -np.inf, 0
    for i in range(count):
        value = core.move_value(game, state, listed[i])
        if value > best:
            best, kept = value, 0
        if value == best:
            listed[kept] = listed[i]
            kept += 1
    return kept
