"""Output of a block of games: finished games and the searches, or the values, behind their moves.

Axes: n actions, m actions of a pool, P players.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from games.core import Game

__all__ = ["EXPLORATORY", "FULL_SEARCH", "REDUCED", "TARGET_UNIT", "WOULD_RESIGN", "PlayedGame", "SearchedMove"]

FULL_SEARCH = 1  # MoveFlag.MOVE_FLAG_FULL_SEARCH
WOULD_RESIGN = 2  # MoveFlag.MOVE_FLAG_WOULD_RESIGN
REDUCED = 4  # MoveFlag.MOVE_FLAG_REDUCED
EXPLORATORY = 8  # MoveFlag.MOVE_FLAG_EXPLORATORY
TARGET_UNIT = 65535  # 1.0 in a fixed-point policy target
_NO_POOL = np.empty(0, dtype=np.int32)


def _no_pool() -> np.ndarray:
    return _NO_POOL


@dataclass(frozen=True, slots=True)
class SearchedMove:
    """Search behind one move."""

    ply: int  # index into PlayedGame.moves
    model_version: int
    actions: np.ndarray  # int32 [n], ascending; those with a visit or target weight
    visits: np.ndarray  # int32 [n]
    target: np.ndarray  # uint16 [n] in units of 1/65535; empty when it equals the normalised visits
    root_value: np.ndarray  # float32 [P], value of the root (`zerofleet.search.decide.root_value`), seat order, in [-1, 1]
    flags: int  # FULL_SEARCH | WOULD_RESIGN | REDUCED | EXPLORATORY
    behaviour: float = 0.0  # probability with which the move played was chosen, in (0, 1]; 0: not recorded
    pool: np.ndarray = field(default_factory=_no_pool)  # int32 [m], actions to choose from, best first; empty: not recorded
    pool_scores: np.ndarray = field(default_factory=_no_pool)  # float32 [m], their values for the mover, in [-1, 1]


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """Finished game."""

    game: Game
    seed: int
    versions: tuple[int, ...]  # model version by seat at the start; EXTERNAL where moves come from outside
    opening_plies: int
    moves: np.ndarray  # int32 [plies], the opening included
    searched: tuple[SearchedMove, ...]  # ascending by ply
    scores: tuple[float, ...]  # by seat, in [-1, 1]
    resigned_seat: int | None
    resignation_control: bool
    tag: object  # as passed to `begin`
    learner_seat: int | None = None  # seat from whose moves a learner of values learns; None: every seat of a model
    agents: tuple[str, ...] = ()  # names of the agents by seat, empty for models; empty: there are none
