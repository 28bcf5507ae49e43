"""Base of a learner of a user's own that uses each game once and in order, with arrays as its whole state.

It has the members of `trainer.learners.contract.Learning`: queue, checkpoints, candidates after a number of games. A subclass
adds the reading of a game, the rule and the served model (docs/own_learner.md).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
import torch

from games.core import Game
from trainer.checkpoint_parts import Counts, require_same
from trainer.export import Served
from trainer.learners.contract import Taken
from trainer.learners.game_by_game import GameByGameLearner, Outcome
from trainer.settings import TrainerSettings

__all__ = ["LearnerInOrder", "NamedCheckpoint", "Outcome"]

Content = TypeVar("Content", bound=Taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCheckpoint(Counts):
    """The JSON part of a checkpoint of any such learner."""

    arrays: int = 1
    """Schema."""
    learner_name: str
    """Name of the learner."""
    counts_empty: bool | None = None
    """Whether a game without samples counted as one; `None` in a checkpoint of an earlier release."""


class LearnerInOrder(GameByGameLearner[Content]):
    """Learner with a checkpoint of its arrays. With `publish_every_games` of 1 a game without samples gives a candidate too."""

    checkpoint_kind = NamedCheckpoint

    def __init__(self, game: Game, settings: TrainerSettings, *, first: int = 0) -> None:
        """Make a learner without samples; `first` is the number of the first one. A subclass then makes its arrays."""
        self.settings = settings
        self.name = settings.train.learner
        super().__init__(game, first=first, keeps_empty=self.publish_every_games == 1)

    @abstractmethod
    def module(self) -> torch.nn.Module:
        """Return the served model of the present arrays, scriptable and in evaluation mode; see `trainer.export.Served`."""

    @classmethod
    def begin(cls, game: Game, settings: TrainerSettings, *, first: int, device: torch.device | None) -> Self:
        """Call the constructor with game, settings and `first`; it trains on the CPU."""
        del device
        return cls(game, settings, first=first)

    def checkpoint_entries(self) -> dict[str, Any]:
        """See `GameByGameLearner.checkpoint_entries`."""
        return {"learner_name": self.name, "counts_empty": self.window.keeps_empty}

    def require_fit(self, checkpoint: NamedCheckpoint) -> None:
        """See `GameByGameLearner.require_fit`."""
        require_same(checkpoint, {"learner_name": self.name})
        super().require_fit(checkpoint)
        self.require_counting(checkpoint.counts_empty)

    def export(self) -> Served:
        """Return the model as it stands, with the arrays in single precision as its weights."""
        weights = {name: torch.from_numpy(array.astype(np.float32)) for name, array in self.arrays.items()}
        return Served(self.module(), weights, self.network)
