"""Base of a learner that uses each game once and in order: one step learns from one game.

Its state is arrays and counts. It has the members of `trainer.learners.contract.Learning`; a subclass adds the rule and the
model, and to the counts of a checkpoint its schema.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from torch import Tensor

from games.core import Game
from trainer.checkpoint_parts import (
    Counts,
    identity,
    load_arrays,
    read,
    require_network,
    require_same,
    stored,
    tensors_of,
    write_counts,
    write_tensors,
)
from trainer.learner import LearnerState
from trainer.learners.contract import Accounts, Taken
from trainer.learners.one_process import OneProcessLearner
from trainer.learners.queue import GameQueue
from trainer.learners.report import ValueReport
from zerofleet.contracts.manifests import NetworkDict
from zerofleet.contracts.records import ValidatedGame
from zerofleet.errors import ConfigurationError, Diverged, VersionSkew

__all__ = ["GameByGameLearner", "Outcome"]

Content = TypeVar("Content", bound=Taken)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of learning from one game."""

    squared_error: float
    """Mean of the squared errors; 0 for a game without anything to learn."""
    largest_error: float
    """Largest of their absolute values."""
    learning_rate: float


class GameByGameLearner(OneProcessLearner, Generic[Content]):
    """Learner of one game; the next step depends on its arrays, its counts and the next game alone."""

    checkpoint_kind: ClassVar[type[Counts]]
    """Class of the JSON part of its checkpoints."""
    rate_setting = "the learning rate"
    """Setting to lower where the weights diverge."""

    def __init__(self, game: Game, *, first: int = 0, keeps_empty: bool = False) -> None:
        """Make a learner without samples; a subclass then makes its arrays.

        `first`: number of the first sample. `keeps_empty`: whether a game without samples is a step too.
        """
        self.game = game
        self.state = LearnerState()
        self.window: GameQueue[Content] = GameQueue(self.read, first=first, keeps_empty=keeps_empty)

    @property
    @abstractmethod
    def publish_every_games(self) -> int:
        """Games between two candidates."""

    @property
    @abstractmethod
    def arrays(self) -> Mapping[str, np.ndarray]:
        """Everything that learning changes, by name; at least one array.

        They are the arrays that `learn` works on, not copies: a resumption writes those of the checkpoint into them.
        """

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

    def require_fit(self, checkpoint: Any) -> None:
        """Raise `VersionSkew` when a checkpoint is of another learner, game, network or count of samples."""
        require_same(checkpoint, identity(self.game, self.network))

    def require_counting(self, counts_empty: bool | None) -> None:
        """Raise `VersionSkew` unless a checkpoint counted games without samples as this learner does.

        `counts_empty`: whether each counted as one sample, `None` in a checkpoint of an earlier release.
        """
        if counts_empty is not None and counts_empty != self.window.keeps_empty:
            raise VersionSkew(
                f"the checkpoint was written with {self.name}.publish_every_games {'= 1' if counts_empty else 'above 1'}, the "
                f"settings have {self.publish_every_games}: games without samples are counted with 1 alone, so the next game "
                "to learn from would be another; restore the setting, or start another run"
            )

    @classmethod
    def unpack(cls, counts: bytes, tensors: bytes, *, where: str) -> tuple[Any, dict[str, Tensor]]:
        """See `Learning.unpack`; the tensors have the names of `arrays`."""
        return read(cls.checkpoint_kind, counts, tensors, where=where)

    def pack(self, accounts: Accounts) -> tuple[bytes, bytes]:
        """See `Learning.pack`."""
        tensors = write_tensors(tensors_of(self.arrays))
        checkpoint = self.checkpoint_kind(
            **identity(self.game, self.network),
            **self.checkpoint_entries(),
            learner=self.state,
            accounts=accounts,
            tensors=stored(tensors),
        )
        return write_counts(checkpoint), tensors

    def checkpoint_entries(self) -> dict[str, Any]:
        """Return the entries that `checkpoint_kind` has besides those of every checkpoint and its schema; by default none."""
        return {}

    def restore(self, checkpoint: Any, tensors: dict[str, Tensor]) -> None:
        """See `Learning.restore`. Games learned from before are dropped as they are read from the log again."""
        self.require_fit(checkpoint)
        self._load(tensors, name="the checkpoint")
        self.state = checkpoint.learner
        self.window.skip_to(self.state.samples_trained)

    def adopt(self, network: Mapping[str, object], tensors: dict[str, Tensor], *, name: str) -> None:
        """See `Learning.adopt`. The games in the log are not learned from again: which of them were is not known."""
        require_network(network, self.network, name=name)
        self._load(self.learned(tensors), name=name)
        self.window.skip_to(self.window.total)
        self.state.samples_trained = self.window.total

    def _load(self, tensors: Mapping[str, Tensor], *, name: str) -> None:
        """Write tensors into `arrays`. Raises `VersionSkew` for others, `ConfigurationError` for arrays that are copies."""
        written = self.arrays
        load_arrays(written, tensors, name=name)
        found = self.arrays
        if lost := [key for key in written if not np.array_equal(written[key], found[key], equal_nan=True)]:
            raise ConfigurationError(
                f"{type(self).__name__}.arrays returns a copy of {', '.join(lost)}, so that {name} cannot be loaded into it; "
                "return the array that learning changes"
            )

    def learned(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the weights of a stored version under the names, and in the shapes, of `arrays`; by default they are equal."""
        return tensors

    @property
    def reuse(self) -> float:
        """Share of the received samples that were learned from."""
        return self.state.samples_trained / max(1, self.window.total)

    def steps_allowed(self) -> int:
        """Return the number of games that wait."""
        return self.window.games

    def step(self) -> ValueReport:
        """Learn from the next game. Raises `Diverged` when an error or an array is no longer finite."""
        samples = self.window.take()
        outcome = self.learn(samples)
        if not (np.isfinite(outcome.squared_error) and all(np.isfinite(array).all() for array in self.arrays.values())):
            raise Diverged(
                f"an update of game {self.state.step} is not finite: the weights have diverged; lower {self.rate_setting} and "
                "start another run"
            )
        self.state.step += 1
        self.state.samples_trained = self.window.taken
        return ValueReport(len(samples), outcome.learning_rate, outcome.squared_error, outcome.largest_error)

    def is_candidate_due(self, accounts: Accounts) -> bool:
        """Return whether `publish_every_games` games were learned from since the last candidate."""
        return self.state.step - accounts.candidate_step >= self.publish_every_games
