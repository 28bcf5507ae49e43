"""Past games: the recently finished games of a worker, and forks of them.

A fork is a position of a past game with other moves than the one played there. Wu 2019 (KataGo, appendix D) branches 5 % of
games: of 3 to 10 random moves the one with the best evaluation is played, so that a share of the games has unusual openings
that are still plausible.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from games import core, positions
from games.compiled import compiled
from games.core import Game, State
from games.kit.randomness import uniform_int
from zerofleet.search import PlayedGame

__all__ = ["Fork", "PastGames"]

_TRIES = 20
"""Positions drawn for a fork; one with a single move, or none but moves that end the game, is redrawn."""


@dataclass(frozen=True, slots=True)
class Fork:
    """Position of a past game, and moves to play there that the game did not play."""

    moves: tuple[int, ...]
    """Moves from the start to the position."""
    mover: int
    """Player to move at the position."""
    choices: tuple[int, ...]
    """Legal moves, distinct and in random order, none of which ends the game."""


class PastGames:
    """Bounded store of finished games, the latest `capacity`. Not thread-safe."""

    def __init__(self, game: Game, *, capacity: int) -> None:
        self._game = game
        self._games: deque[tuple[int, np.ndarray]] = deque(maxlen=capacity)  # seed and moves, int32 [n]

    def __len__(self) -> int:
        return len(self._games)

    def add(self, played: PlayedGame) -> None:
        """Store a game, in place of the oldest if there are `capacity`."""
        if len(played.moves):
            self._games.append((played.seed, played.moves))

    def warm_up(self) -> None:
        """Load the compiled code, or compile it."""
        self._fork_of(np.zeros(1, dtype=np.int32), (0, 0), np.zeros(1, dtype=np.uint64), choices=1)

    def fork(self, seed: int, word: np.ndarray, *, choices: int) -> Fork | None:
        """Return a fork with up to `choices` moves for the game with this seed; None if none was found.

        Game, position (before any of its moves) and moves are drawn uniformly by `word` (`games.kit.randomness`, uint64 [1]). A
        past game that began with another position than the game of this seed is not forked.
        """
        for _ in range(_TRIES if self._games else 0):
            past_seed, moves = self._games[uniform_int(word, len(self._games))]
            if (found := self._fork_of(moves, (seed, past_seed), word, choices=choices)) is not None:
                return found
        return None

    def _fork_of(self, moves: np.ndarray, seeds: tuple[int, int], word: np.ndarray, *, choices: int) -> Fork | None:
        """Return a fork at a random position of a past game; None if it has none there, or the `seeds` begin differently."""
        state, past = (positions.new_state(self._game, seed) for seed in seeds)
        if not np.array_equal(state, past):
            return None
        found = np.empty(choices, dtype=np.int16)
        workspace = np.empty_like(state), np.empty(self._game.spec().max_legal, dtype=np.int16)
        ply, mover, count = _draw_fork(self._game, state, moves, word, workspace, found)
        return Fork(tuple(moves[:ply].tolist()), mover, tuple(found[:count].tolist())) if count else None


@compiled
def _draw_fork(
    game: Any, state: State, moves: np.ndarray, word: np.ndarray, workspace: tuple[State, np.ndarray], found: np.ndarray
) -> tuple[int, int, int]:
    """Play a random number of `moves` (int32 [n], not all) in place; write other moves, in random order, into `found`.

    `found`: int16 [m]; moves that end the game are left out. `workspace`: another state and int16 [L]. Return the number of
    moves played, the player to move and the number of moves found.
    """
    after, legal = workspace
    ply = uniform_int(word, moves.size)
    for i in range(ply):
        core.play(game, state, moves[i])
    left, count = core.legal_actions(game, state, legal), 0
    while left and count < found.size:
        drawn = uniform_int(word, left)
        left -= 1
        action, legal[drawn] = legal[drawn], legal[left]
        if action == moves[ply]:
            continue
        positions.copy_state(state, after)
        core.play(game, after, action)
        if not core.is_over(game, after):
            found[count] = action
            count += 1
    return ply, core.to_move(game, state), count
