"""Base of a learner that uses each game once and in order, with arrays as its whole state.

It has the members of `trainer.learners.contract.Learning`: queue, checkpoints, candidates after a number of games. A subclass
adds the reading of a game, the rule and the served model (docs/own_learner.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from games.core import Game
from trainer.export import Served
from trainer.learner import LearnerState
from trainer.learners import array_checkpoint
from trainer.learners.array_checkpoint import ArrayCheckpoint
from trainer.learners.contract import Accounts, Taken
from trainer.learners.queue import GameQueue
from trainer.ranks import Ranks
from trainer.settings import TrainerSettings
from zerofleet.contracts.manifests import NetworkDict
from zerofleet.contracts.records import ValidatedGame
from zerofleet.errors import ConfigurationError, CorruptModel, VersionSkew

__all__ = ["GameUpdate", "LearnerInOrder", "Outcome"]

Content = TypeVar("Content", bound=Taken)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of learning from one game."""

    squared_error: float
    """Mean of the squared errors; 0 for a game without anything to learn."""
    largest_error: float
    """Largest of their absolute values."""
    learning_rate: float


@dataclass(frozen=True, slots=True)
class GameUpdate:
    """Step of the learner; see `trainer.learners.contract.TakingStep`."""

    samples: int
    outcome: Outcome
    skipped: bool = False

    @property
    def losses(self) -> dict[str, float]:
        """The mean squared error, as total and as loss of the value."""
        return {"total": self.outcome.squared_error, "value": self.outcome.squared_error}

    @property
    def gradient_norm(self) -> float:
        """Largest absolute error, which bounds the updates."""
        return self.outcome.largest_error

    @property
    def learning_rate(self) -> float:
        """Step size."""
        return self.outcome.learning_rate


class LearnerInOrder(ABC, Generic[Content]):
    """Learner of one game; the next step depends on its arrays, its counts and the next game alone."""

    def __init__(self, game: Game, settings: TrainerSettings, *, first: int = 0) -> None:
        """Make a learner without samples; `first` is the number of the first one. A subclass then makes its arrays."""
        self.game = game
        self.settings = settings
        self.state = LearnerState()
        self.window: GameQueue[Content] = GameQueue(self.read, first=first, keeps_empty=self.publish_every_games == 1)
        self.progress = 0.0

    @property
    @abstractmethod
    def publish_every_games(self) -> int:
        """Games between two candidates. With 1 every game gives one, also a game without samples."""

    @property
    @abstractmethod
    def arrays(self) -> Mapping[str, np.ndarray]:
        """Everything that learning changes, by name: the learner's own arrays, changed in place when a checkpoint is loaded."""

    @property
    @abstractmethod
    def network(self) -> NetworkDict:
        """Description of the model for manifests and checkpoints: its `kind`, and all that must not change during a run."""

    @abstractmethod
    def read(self, played: ValidatedGame) -> Content:
        """Return the samples of a game; their length is their number. Raises `RecordRejected` for a game that cannot be used.

        It is called in the thread of the intake, while another learns.
        """

    @abstractmethod
    def learn(self, samples: Content) -> Outcome:
        """Change the arrays by the samples of one game."""

    @abstractmethod
    def module(self) -> torch.nn.Module:
        """Return the served model of the present arrays, scriptable and in evaluation mode; see `trainer.export.Served`."""

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
        """See `Learning.open`; it trains on the CPU, in one process. Calls the constructor with game, settings and `first`."""
        del device
        if ranks is not None and ranks.size > 1:
            raise ConfigurationError(
                f"train.learner={settings.train.learner} trains in one process, torchrun started {ranks.size}"
            )
        return cls(game, settings, first=first)

    @staticmethod
    def unpack(counts: bytes, tensors: bytes, *, where: str) -> tuple[ArrayCheckpoint, dict[str, Tensor]]:
        """See `Learning.unpack`."""
        return array_checkpoint.unpack(counts, tensors, where=where)

    def pack(self, accounts: Accounts) -> tuple[bytes, bytes]:
        """See `Learning.pack`."""
        return array_checkpoint.pack(self._name, self.game, self.network, self.arrays, self.state, accounts)

    def restore(self, checkpoint: ArrayCheckpoint, tensors: dict[str, Tensor]) -> None:
        """See `Learning.restore`. Games learned from before are dropped as they are read from the log again."""
        array_checkpoint.require_same(checkpoint, self._name, self.game, self.network)
        for name, array in self.arrays.items():
            array[...] = tensors[name].numpy()
        self.state = checkpoint.learner
        self.window.skip_to(self.state.samples_trained)

    def adopt(self, network: Mapping[str, object], tensors: dict[str, Tensor], *, name: str) -> None:
        """See `Learning.adopt`. The games in the log are not learned from again: which of them were is not known."""
        if dict(network) != self.network:
            raise VersionSkew(
                f"{name} has network {dict(network)}, the settings have {self.network}; restore the settings, or start "
                "another run"
            )
        for key, array in self.arrays.items():
            array[...] = tensors[key].numpy()
        self.window.skip_to(self.window.total)
        self.state.samples_trained = self.window.total

    @property
    def reuse(self) -> float:
        """Share of the received samples that were learned from."""
        return self.state.samples_trained / max(1, self.window.total)

    def steps_allowed(self) -> int:
        """Return the number of games that wait."""
        return self.window.games

    def step(self) -> GameUpdate:
        """Learn from the next game. Raises `CorruptModel` when an error or an array is no longer finite."""
        samples = self.window.take()
        outcome = self.learn(samples)
        if not (np.isfinite(outcome.squared_error) and all(np.isfinite(array).all() for array in self.arrays.values())):
            raise CorruptModel(
                f"an update of game {self.state.step} is not finite: the weights have diverged; lower the learning rate and "
                "start another run"
            )
        self.state.step += 1
        self.state.samples_trained = self.window.taken
        self.state.progress = self.progress
        return GameUpdate(len(samples), outcome)

    def is_candidate_due(self, accounts: Accounts) -> bool:
        """Return whether enough games were learned from since the last candidate."""
        return self.state.step - accounts.candidate_step >= self.publish_every_games

    def export(self) -> Served:
        """Return the model as it stands, with the arrays in single precision as its weights."""
        weights = {name: torch.from_numpy(array.astype(np.float32)) for name, array in self.arrays.items()}
        return Served(self.module(), weights, self.network)

    def snapshot(self) -> Served:
        """See `export`: it needs no samples."""
        return self.export()

    def invited(self, accounts: Accounts) -> list[bytes]:
        """See `Learning.invited`."""
        raise ConfigurationError(f"train.learner={self._name} trains in one process; start the trainer without torchrun")

    @property
    def _name(self) -> str:
        return self.settings.train.learner
