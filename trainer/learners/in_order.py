"""Base of a learner of a user's own that uses each game once and in order, with arrays as its whole state.

It has the members of `trainer.learners.contract.Learning`: queue, checkpoints, candidates after a number of games. A subclass
adds the reading of a game, the rule and the served model (docs/own_learner.md).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from games.core import Game
from trainer.export import Served
from trainer.learners import array_checkpoint
from trainer.learners.array_checkpoint import ArrayCheckpoint
from trainer.learners.contract import Accounts, Taken
from trainer.learners.game_by_game import GameByGameLearner, Outcome
from trainer.settings import TrainerSettings

__all__ = ["LearnerInOrder", "Outcome"]

Content = TypeVar("Content", bound=Taken)


class LearnerInOrder(GameByGameLearner[Content]):
    """Learner with a checkpoint of its arrays. With `publish_every_games` of 1 a game without samples gives a candidate too."""

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

    @staticmethod
    def unpack(counts: bytes, tensors: bytes, *, where: str) -> tuple[ArrayCheckpoint, dict[str, Tensor]]:
        """See `Learning.unpack`."""
        return array_checkpoint.unpack(counts, tensors, where=where)

    def pack(self, accounts: Accounts) -> tuple[bytes, bytes]:
        """See `Learning.pack`."""
        return array_checkpoint.pack(
            self.name, self.game, self.network, self.arrays, self.state, accounts, counts_empty=self.window.keeps_empty
        )

    def require_fit(self, checkpoint: ArrayCheckpoint) -> None:
        """See `GameByGameLearner.require_fit`."""
        array_checkpoint.require_fit(checkpoint, self.name, self.game, self.network)
        self.require_counting(checkpoint.counts_empty)

    def export(self) -> Served:
        """Return the model as it stands, with the arrays in single precision as its weights."""
        weights = {name: torch.from_numpy(array.astype(np.float32)) for name, array in self.arrays.items()}
        return Served(self.module(), weights, self.network)
