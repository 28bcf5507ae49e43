"""What comes out of a search block: finished games and the searches behind their moves.

Axes: n actions, P players.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from games.core import Game
from zerofleet.search.arena import History

__all__ = ["FULL_SEARCH", "TARGET_UNIT", "WOULD_RESIGN", "PlayedGame", "SearchedMove", "searched_moves"]

FULL_SEARCH = 1  # MoveFlag.MOVE_FLAG_FULL_SEARCH
WOULD_RESIGN = 2  # MoveFlag.MOVE_FLAG_WOULD_RESIGN
TARGET_UNIT = 65535  # one whole in a fixed-point policy target


@dataclass(frozen=True, slots=True)
class SearchedMove:
    """The search behind one move."""

    ply: int  # index into PlayedGame.moves
    model_version: int
    actions: np.ndarray  # int32 [n], ascending; those with a visit or target weight
    visits: np.ndarray  # int32 [n]
    target: np.ndarray  # uint16 [n] in units of 1/65535; empty when it equals the normalised visits
    root_value: np.ndarray  # float32 [P], mean value of the root, seat order, in [-1, 1]
    flags: int  # FULL_SEARCH | WOULD_RESIGN


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """A finished game."""

    game: Game
    seed: int
    versions: tuple[int, ...]  # model version by seat at the start; EXTERNAL where moves came from outside
    opening_plies: int
    moves: np.ndarray  # int32 [plies], the opening included
    searched: tuple[SearchedMove, ...]  # ascending by ply
    scores: tuple[float, ...]  # by seat, in [-1, 1]
    resigned_seat: int | None
    resignation_control: bool
    tag: object  # whatever `begin` was given


def searched_moves(history: History, slot: int, plies: int) -> tuple[SearchedMove, ...]:
    """Return the searches of the first `plies` plies of a slot's game."""
    found = []
    for ply in np.flatnonzero(history.versions[slot, :plies]):
        count = history.counts[slot, ply]
        found.append(
            SearchedMove(
                ply=int(ply),
                model_version=int(history.versions[slot, ply]),
                actions=history.actions[slot, ply, :count].astype(np.int32),
                visits=history.visits[slot, ply, :count].copy(),
                target=_fixed_point(history.targets[slot, ply, :count]),
                root_value=history.values[slot, ply].copy(),
                flags=int(history.flags[slot, ply]),
            )
        )
    return tuple(found)


def _fixed_point(weights: np.ndarray) -> np.ndarray:
    """Return weights (float32 [n], sum 1) in units of 1/65535 that sum to 65535 exactly; empty when all are 0."""
    if not weights.any():
        return np.zeros(0, dtype=np.uint16)
    scaled = weights.astype(np.float64) / weights.sum(dtype=np.float64) * TARGET_UNIT
    units = np.floor(scaled).astype(np.int64)
    rest = TARGET_UNIT - int(units.sum())
    units[np.argsort(units - scaled, kind="stable")[:rest]] += 1
    return np.asarray(units, dtype=np.uint16)
