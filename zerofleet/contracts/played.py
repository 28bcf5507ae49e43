"""Output of a block of games: finished games and the searches, or the values, behind their moves.

Axes: n actions, m actions of a pool, P players; of a whole game M searches, N actions, T targets and K pooled actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import overload

import numpy as np

from games.core import Game

__all__ = [
    "EXPLORATORY",
    "FULL_SEARCH",
    "LAST_SEED",
    "REDUCED",
    "TARGET_UNIT",
    "WOULD_RESIGN",
    "PlayedGame",
    "SearchedMove",
    "Searches",
    "starts",
    "without_searches",
]

FULL_SEARCH = 1  # MoveFlag.MOVE_FLAG_FULL_SEARCH
WOULD_RESIGN = 2  # MoveFlag.MOVE_FLAG_WOULD_RESIGN
REDUCED = 4  # MoveFlag.MOVE_FLAG_REDUCED
EXPLORATORY = 8  # MoveFlag.MOVE_FLAG_EXPLORATORY
LAST_SEED = (1 << 63) - 1  # of a game; fits signed and unsigned words alike
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


@dataclass(frozen=True, slots=True, eq=False)
class Searches(Sequence[SearchedMove]):
    """Searches of a game as columns, which compiled code writes and reads; an item is made when it is read, of views.

    Search i lists entries `start[i] : start[i + 1]` of `actions` and `visits`, and so on. Equal to itself only.
    """

    ply: np.ndarray  # int32 [M], ascending
    model_version: np.ndarray  # int64 [M]
    flags: np.ndarray  # uint8 [M]
    root_value: np.ndarray  # float32 [M, P]; without meaning where the version is 0
    behaviour: np.ndarray  # float32 [M]
    start: np.ndarray  # int64 [M + 1]
    actions: np.ndarray  # int32 [N]
    visits: np.ndarray  # int32 [N]
    target_start: np.ndarray  # int64 [M + 1]
    target: np.ndarray  # uint16 [T]
    pool_start: np.ndarray  # int64 [M + 1]
    pool: np.ndarray  # int32 [K]
    pool_scores: np.ndarray  # float32 [K]

    @classmethod
    def of(cls, searched: Sequence[SearchedMove]) -> Searches:
        """Return moves as columns.

        Raises `ValueError` for an action without a number of visits or a pool without a score for each action,
        `TypeError` for fractions in a column of integers.
        """
        if isinstance(searched, Searches):
            return searched
        players = max((len(move.root_value) for move in searched), default=0)
        root_value = np.zeros((len(searched), players), dtype=np.float32)
        for row, move in enumerate(searched):
            root_value[row, : len(move.root_value)] = move.root_value
            if len(move.visits) != len(move.actions):
                raise ValueError(f"ply {move.ply}: {len(move.actions)} actions have {len(move.visits)} numbers of visits")
            if len(move.pool) != len(move.pool_scores):
                raise ValueError(f"ply {move.ply}: a pool of {len(move.pool)} actions has {len(move.pool_scores)} scores")
        return cls(
            ply=np.array([move.ply for move in searched], dtype=np.int32),
            model_version=np.array([move.model_version for move in searched], dtype=np.int64),
            flags=np.array([move.flags for move in searched], dtype=np.uint8),
            root_value=root_value,
            behaviour=np.array([move.behaviour for move in searched], dtype=np.float32),
            start=starts([len(move.actions) for move in searched]),
            actions=_joined([move.actions for move in searched], np.int32),
            visits=_joined([move.visits for move in searched], np.int32),
            target_start=starts([len(move.target) for move in searched]),
            target=_joined([move.target for move in searched], np.uint16),
            pool_start=starts([len(move.pool) for move in searched]),
            pool=_joined([move.pool for move in searched], np.int32),
            pool_scores=_joined([move.pool_scores for move in searched], np.float32),
        )

    def __len__(self) -> int:
        return len(self.ply)

    @overload
    def __getitem__(self, index: int) -> SearchedMove: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[SearchedMove, ...]: ...
    def __getitem__(self, index: int | slice) -> SearchedMove | tuple[SearchedMove, ...]:
        rows = range(len(self))[index]
        return tuple(self._move(row) for row in rows) if isinstance(rows, range) else self._move(rows)

    def _move(self, row: int) -> SearchedMove:
        listed = slice(self.start[row], self.start[row + 1])
        pooled = slice(self.pool_start[row], self.pool_start[row + 1])
        version = int(self.model_version[row])
        return SearchedMove(
            ply=int(self.ply[row]),
            model_version=version,
            actions=self.actions[listed],
            visits=self.visits[listed],
            target=self.target[self.target_start[row] : self.target_start[row + 1]],
            root_value=self.root_value[row] if version else self.root_value[row, :0],
            flags=int(self.flags[row]),
            behaviour=float(self.behaviour[row]),
            pool=self.pool[pooled],
            pool_scores=self.pool_scores[pooled],
        )


def starts(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return where each of M rows begins among all entries, and the number of entries, int64 [M + 1]."""
    found = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=found[1:])
    return found


def _joined(parts: Sequence[np.ndarray], dtype: type[np.generic]) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype=dtype), *parts], dtype=dtype, casting="same_kind")


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """Finished game."""

    game: Game
    seed: int
    versions: tuple[int, ...]  # model version by seat at the start; EXTERNAL where moves come from outside
    opening_plies: int
    moves: np.ndarray  # int32 [plies], the opening included
    searched: Sequence[SearchedMove]  # ascending by ply; columns (`Searches`) from a block
    scores: tuple[float, ...]  # by seat, in [-1, 1]
    resigned_seat: int | None
    resignation_control: bool
    tag: object  # as passed to `begin`
    learner_seat: int | None = None  # seat from whose moves a learner of values learns; None: every seat of a model
    agents: tuple[str, ...] = ()  # names of the agents by seat, empty for models; empty: there are none


def without_searches(played: PlayedGame) -> PlayedGame:
    """Return a game whose searched moves list only the move that was played, as if it had all the visits.

    For games whose record would be too long with their searches.
    """
    alone = np.ones(1, dtype=np.int32)
    moves = (
        replace(move, actions=played.moves[move.ply : move.ply + 1], visits=alone, target=np.empty(0, dtype=np.uint16))
        for move in played.searched
    )
    return replace(played, searched=tuple(moves))
