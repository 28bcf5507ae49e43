"""Finished games as the tables read them: replayed, with the values that the search gave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from games import core
from games.core import Game
from games.positions import new_state
from zerofleet.contracts.records import ValidatedGame

__all__ = ["FinishedGame", "of_moves", "of_record"]


@dataclass(frozen=True, slots=True)
class FinishedGame:
    """Game of n moves for P players."""

    game: Game
    moves: tuple[int, ...]
    states: np.ndarray  # spec.state_dtype [n + 1, S]; row i is the position before move i
    movers: np.ndarray  # int8 [n]
    scores: np.ndarray  # float32 [P], seat order
    seed: int
    """Seed of the deal."""
    version: int
    """Highest model version on any seat at the start; 0 without a model."""
    values: np.ndarray  # float32 [m], value of the search for the mover, of each move that a model searched
    random_plies: int = 0
    """Plies of the random opening of a game of self-play."""


def of_record(found: ValidatedGame) -> FinishedGame:
    """Return the game of a record."""
    search, record = found.search, found.record
    by_model = search.model_version > 0
    return FinishedGame(
        game=found.game,
        moves=tuple(int(move) for move in record.moves),
        states=found.states,
        movers=found.movers,
        scores=found.scores,
        seed=int(record.seed),
        version=max(record.seat_versions, default=0),
        values=search.root_value[by_model, found.movers[search.ply[by_model]]],
        random_plies=int(search.ply[0]) if len(search.ply) else len(record.moves),  # opening moves alone are not searched
    )


def of_moves(game: Game, moves: tuple[int, ...], *, seed: int, scores: tuple[float, ...], version: int = 0) -> FinishedGame:
    """Return a game from its legal moves and scores; it has no values of a search."""
    states = np.empty((len(moves) + 1, game.spec().state_size), dtype=game.spec().state_dtype)
    movers = np.empty(len(moves), dtype=np.int8)
    states[0] = new_state(game, seed)
    for ply, move in enumerate(moves):
        movers[ply] = core.to_move(game, states[ply])
        states[ply + 1] = states[ply]
        core.play(game, states[ply + 1], move)
    return FinishedGame(
        game, moves, states, movers, np.asarray(scores, np.float32), seed, version, np.empty(0, dtype=np.float32)
    )
