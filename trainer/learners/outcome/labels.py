"""Labels: the positions after the moves of a finished game, with the chance that their player to move won.

A position is encoded for its player to move, as models are served (docs/decisions/0014-learners.md): after a move of the winner
it has the label 0. Positions in which the game is over are left out, since the rules decide them.

Axes: N positions, Q moves of a game that are ranked, R positions after their legal moves.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from games import core, positions
from zerofleet.agents.uct.afterstates import Afterstates, afterstates_of
from zerofleet.contracts.played import EXPLORATORY
from zerofleet.contracts.records import ValidatedGame
from zerofleet.presets.outcome import OutcomeSettings

__all__ = ["Labelled", "Ranked", "is_held_out", "read_labels"]

_FEWEST = 2  # positions of a game: batch norm needs two
_MOST_RANKED = 32  # moves of a held-out game, evenly spaced: the positions after all legal moves are many
_DRAWN = 0.5


class Ranked(NamedTuple):
    """Moves of a held-out game among all legal ones."""

    states: np.ndarray  # uint8 [R, packed_bytes], for the player to move there
    same: np.ndarray  # bool [R], whether that is the player who has just moved
    chances: np.ndarray  # float64 [R], chance of winning of the player who has just moved, by the rules; nan: not over
    start: np.ndarray  # int64 [Q + 1]; the moves of a position are rows start[q] to start[q + 1]
    played: np.ndarray  # int64 [Q], place of the played move among the legal ones


@dataclass(frozen=True, slots=True)
class Labelled:
    """Samples of one game; the length is their number."""

    states: np.ndarray  # uint8 [N, packed_bytes]
    labels: np.ndarray  # float32 [N], in [0, 1]
    ranked: Ranked | None = None
    """Moves to rank, in a held-out game, which is not learned from; else None."""

    def __len__(self) -> int:
        """Return the number of positions."""
        return len(self.labels)


def read_labels(played: ValidatedGame, settings: OutcomeSettings) -> Labelled:
    """Return the labelled positions of a validated game; of a held-out one those after the moves of both players.

    Every move from the first recorded choice on counts, those of agents as opponents included. There are no positions for an
    excluded game, nor for one with fewer than two.
    """
    chances = _chances(played.scores, settings)
    plies = _plies(played)
    if chances is None or not len(plies):
        return _nothing(played)
    held_out = is_held_out(played, settings.held_out_share)
    if settings.sides == "one" and not held_out:
        plies = plies[played.movers[plies] == _seat(played)]
    after = [_afterstates(played, ply, settings, held_out=held_out) for ply in plies]
    states = [one.packed[~one.over] for one in after]
    viewers = [one.movers[~one.over] for one in after]
    found = Labelled(
        np.concatenate([*states, _nothing(played).states]),
        np.concatenate([chances[seats] for seats in viewers] + [_nothing(played).labels]),
        _ranked(played) if held_out else None,
    )
    return found if len(found) >= _FEWEST else _nothing(played)


def is_held_out(played: ValidatedGame, share: float) -> bool:
    """Return whether a game belongs to the held-out share: a function of its moves alone."""
    return zlib.crc32(np.array(played.record.moves, dtype="<i4").tobytes()) < share * 2**32


def _nothing(played: ValidatedGame) -> Labelled:
    return Labelled(np.zeros((0, played.game.spec().packed_bytes), np.uint8), np.zeros(0, np.float32))


def _chances(scores: np.ndarray, settings: OutcomeSettings) -> np.ndarray | None:
    """Return the label of each seat, float32 [P]; None for an excluded game."""
    if (np.abs(scores) == 1.0).all():
        return ((scores + 1.0) / 2.0).astype(np.float32)
    return None if settings.undecided == "exclude" else np.full(len(scores), _DRAWN, np.float32)


def _plies(played: ValidatedGame) -> np.ndarray:
    """Return the plies from the first choice in the record on, int [n]: random openings have none."""
    chosen = played.search.ply
    return np.arange(chosen[0] if len(chosen) else len(played.record.moves), len(played.record.moves))


def _seat(played: ValidatedGame) -> int:
    named = int(played.record.learner_seat)
    return named - 1 if named else int(played.record.seed) & 1


def _afterstates(played: ValidatedGame, ply: int, settings: OutcomeSettings, *, held_out: bool) -> Afterstates:
    """Return the position after the move of a ply, or, for `labels=all`, after every legal move."""
    game, state = played.game, played.states[ply]
    if settings.labels == "all" and not held_out:
        return afterstates_of(game, state, np.array(positions.legal(game, state)))
    return afterstates_of(game, state, np.array([played.record.moves[ply]]))


def _ranked(played: ValidatedGame) -> Ranked:
    """Return moves of a game, evenly spaced, with all that were legal beside them."""
    game, search = played.game, played.search
    exploratory = set(search.ply[(search.flags & EXPLORATORY) != 0].tolist())
    plies = [int(ply) for ply in _plies(played) if int(ply) not in exploratory]
    legal = {ply: positions.legal(game, played.states[ply]) for ply in plies}
    plies = [ply for ply in plies if len(legal[ply]) > 1]
    plies = [plies[i] for i in np.unique(np.linspace(0, len(plies) - 1, _MOST_RANKED).astype(int))] if plies else []
    after = [afterstates_of(game, played.states[ply], np.array(legal[ply])) for ply in plies]
    movers = [int(core.to_move(game, played.states[ply])) for ply in plies]
    of_movers = list(zip(after, movers, strict=True))
    return Ranked(
        states=np.concatenate([*(one.packed for one in after), _nothing(played).states]),
        same=np.concatenate([*(one.movers == seat for one, seat in of_movers), np.zeros(0, np.bool_)]),
        chances=np.concatenate([*(_by_rules(one, seat) for one, seat in of_movers), np.zeros(0)]),
        start=np.concatenate(([0], np.cumsum([len(legal[ply]) for ply in plies]))).astype(np.int64),
        played=np.array([legal[ply].index(int(played.record.moves[ply])) for ply in plies], dtype=np.int64),
    )


def _by_rules(after: Afterstates, seat: int) -> np.ndarray:
    """Return the chance of winning of a seat in positions that are over, float64 [n]; nan in all others."""
    return np.where(after.over, (after.scores[:, seat] + 1.0) / 2.0, np.nan)
