"""Past games: the recently finished games of a worker, and forks of them.

A fork is a position of a past game with other moves than the one played there. Wu 2019 (KataGo, appendix D) branches 5 % of
games: of 3 to 10 random moves the one with the best evaluation is played, so that a share of the games has unusual openings
that are still plausible.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from games import core, positions
from games.core import Game
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

    def fork(self, seed: int, rng: np.random.Generator, *, choices: int) -> Fork | None:
        """Return a fork with up to `choices` moves for the game with this seed; None if none was found.

        Game, position (before any of its moves) and moves are drawn uniformly. A past game that began with another position
        than the game of this seed is not forked.
        """
        start = positions.new_state(self._game, seed)
        for _ in range(_TRIES if self._games else 0):
            past_seed, moves = self._games[int(rng.integers(len(self._games)))]
            if not np.array_equal(start, positions.new_state(self._game, past_seed)):
                continue
            ply = int(rng.integers(len(moves)))
            before = [int(move) for move in moves[:ply]]
            state = positions.replay(self._game, before, seed)
            others = [action for action in positions.legal(self._game, state) if action != moves[ply]]
            found: list[int] = []
            for action in rng.permutation(others):
                after = state.copy()
                core.play(self._game, after, int(action))
                if not core.is_over(self._game, after):
                    found.append(int(action))
                if len(found) == choices:
                    break
            if found:
                return Fork(tuple(before), int(core.to_move(self._game, state)), tuple(found))
        return None
