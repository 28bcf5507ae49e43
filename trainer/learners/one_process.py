"""Base of a learner that trains in one process: the members of `trainer.learners.contract.Learning` that all of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import torch

from games.core import Game
from trainer.export import Served
from trainer.learner import LearnerState
from trainer.learners.contract import Accounts
from trainer.ranks import Ranks
from trainer.settings import TrainerSettings
from zerofleet.errors import ConfigurationError

__all__ = ["OneProcessLearner"]


class OneProcessLearner(ABC):
    """Learner without ranks, whose weights can be exported at any time."""

    name: str
    """Value of `train.learner` that selects it."""
    state: LearnerState

    @property
    def progress(self) -> float:
        """Share of the planned training that has passed, in [0, 1]: that of the checkpoint until the trainer has a plan."""
        return self.state.progress

    @progress.setter
    def progress(self, share: float) -> None:
        self.state.progress = share

    @classmethod
    def open(
        cls,
        game: Game,
        settings: TrainerSettings,
        *,
        first: int = 0,
        device: torch.device | None = None,
        ranks: Ranks | None = None,
    ) -> Self:
        """See `Learning.open`. Raises `ConfigurationError` under a torchrun of several processes."""
        if ranks is not None and ranks.size > 1:
            raise ConfigurationError(
                f"train.learner={settings.train.learner} trains in one process, torchrun started {ranks.size}"
            )
        return cls.begin(game, settings, first=first, device=device)

    @classmethod
    @abstractmethod
    def begin(cls, game: Game, settings: TrainerSettings, *, first: int, device: torch.device | None) -> Self:
        """Return the learner that `open` promises; one that trains on the CPU alone ignores `device`."""

    @abstractmethod
    def export(self) -> Served:
        """See `Learning.export`."""

    def snapshot(self) -> Served:
        """See `export`: it needs no samples."""
        return self.export()

    def invited(self, accounts: Accounts) -> list[bytes]:
        """See `Learning.invited`."""
        raise ConfigurationError(f"train.learner={self.name} trains in one process; start the trainer without torchrun")
