"""Contract of a learner: what it takes from a game, one step, and what it exports.

A trainer process stores games, counts, reports, publishes and resumes; what it learns, and how, is a class with the members of
`Learning`, found by the name in `train.learner` (`trainer.learners`):

    game ── Window.read ──► taken ── Window.add ──► window ── Learning.step ──► weights ── Learning.export ──► Served

The intake calls `Window.read` and `Window.add` in its thread; everything else runs in the learner's thread. A learner that is
restored from its checkpoint takes the next step that the stopped one would have taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import torch
from pydantic import ConfigDict

from games.core import Game
from trainer.export import Served
from trainer.learner import LearnerState
from trainer.ranks import Ranks
from trainer.settings import TrainerSettings
from zerofleet.contracts.records import ValidatedGame

__all__ = ["Accounts", "Learning", "Stored", "Taken", "TakingStep", "Window"]


@dataclass(slots=True)
class Accounts:
    """Counts of the service outside the learner."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    candidate_version: int = 0
    """Newest version published by this run; 0 before the first."""
    candidate_samples: int = 0
    """Samples received when it was published."""
    candidate_trained: int = 0
    """Samples trained on by then."""
    marks: tuple[tuple[int, int], ...] = ()
    """(game number in the log, samples before it), ascending: places from which the window can be filled."""
    active_s: float = 0.0
    """Time that the trainer has run, in all sessions."""
    candidate_step: int = 0
    """Steps taken when the newest version was published; 0 in checkpoints of earlier releases."""


class Taken(Protocol):
    """Samples of one game, in the form that a learner needs; the length is their number."""

    def __len__(self) -> int: ...


Content = TypeVar("Content")


class Window(Protocol[Content]):
    """Samples that a learner keeps in memory. One thread may add while another learns.

    Samples are numbered from 0 in order of arrival, over the whole run.
    """

    refuses_late: bool
    """Whether a game of a model older than those of all samples kept is refused on arrival."""

    @property
    def total(self) -> int:
        """Samples that ever arrived."""
        ...

    def __len__(self) -> int:
        """Return the number of samples kept: the newest ones, from `total - len` on."""
        ...

    @property
    def waiting(self) -> int:
        """Samples that wait for a learner that takes each game in order; 0 for a window that it draws from."""
        ...

    def read(self, played: ValidatedGame) -> Content:
        """Return the samples of a game. Raises `RecordRejected` for a game it cannot use."""
        ...

    def add(self, samples: Content) -> None:
        """Append the samples of a game."""
        ...


class TakingStep(Protocol):
    """Outcome of a step."""

    @property
    def samples(self) -> int:
        """Samples trained on."""
        ...

    @property
    def skipped(self) -> bool:
        """Whether the step changed nothing, since it would have damaged the weights."""
        ...

    @property
    def gradient_norm(self) -> float:
        """Norm of the gradient; not finite in a skipped step."""
        ...

    @property
    def learning_rate(self) -> float: ...

    @property
    def losses(self) -> Mapping[str, float]:
        """Losses and meters by name: `total`, and those of `trainer.history.FIGURES` that the learner has."""
        ...


class Stored(Protocol):
    """JSON part of a learner's checkpoint."""

    @property
    def accounts(self) -> Accounts:
        """Counts of the service."""
        ...


class Learning(Protocol):
    """Learner of one game."""

    state: LearnerState
    window: Window[Any]
    progress: float
    """Share of the planned training that has passed, in [0, 1]; set before a step."""

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
        """Return a learner with fresh weights, determined by the seed, and an empty window that begins with sample `first`.

        `device` and `ranks`: by default the CPU, and this process alone. Raises `ConfigurationError` for a game or settings
        that it does not support.
        """
        ...

    @staticmethod
    def unpack(counts: bytes, tensors: bytes, *, where: str) -> tuple[Any, dict[str, torch.Tensor]]:
        """Read the two files of a checkpoint: its JSON part (`Stored`) and its tensors.

        Raises `CorruptModel` when they were changed, `VersionSkew` for another schema.
        """
        ...

    def pack(self, accounts: Accounts) -> tuple[bytes, bytes]:
        """Return the two files of a checkpoint, JSON and safetensors: everything that determines the next step."""
        ...

    def restore(self, checkpoint: Any, tensors: dict[str, torch.Tensor]) -> None:
        """Load the result of `unpack` into a fresh learner. Raises `VersionSkew` for another game or other settings."""
        ...

    def adopt(self, network: Mapping[str, object], tensors: dict[str, torch.Tensor], *, name: str) -> None:
        """Load the stored weights of the version called `name`; `network` is that of its manifest.

        Raises `VersionSkew` when the settings describe another network.
        """
        ...

    def steps_allowed(self) -> int:
        """Return the number of steps allowed before new samples must arrive."""
        ...

    def step(self) -> TakingStep:
        """Take one step. Raises `Diverged` when the weights have diverged."""
        ...

    def is_candidate_due(self, accounts: Accounts) -> bool:
        """Return whether enough was learned since the last candidate."""
        ...

    @property
    def reuse(self) -> float:
        """Mean number of uses of a received sample."""
        ...

    def export(self) -> Served:
        """Return the candidate: what has been learned, ready for export. The window may be empty. Raises `UnfitModel`."""
        ...

    def snapshot(self) -> Served:
        """Return the weights as they stand, without a look at samples."""
        ...

    def invited(self, accounts: Accounts) -> list[bytes]:
        """Return the texts that make another process a copy of this learner (`trainer.follower`).

        Raises `ConfigurationError` for a learner that trains in one process.
        """
        ...
