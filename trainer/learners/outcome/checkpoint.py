"""Content of a checkpoint of the learner `outcome`: weights, momentum, counts and accounts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from games.core import Game
from trainer.checkpoint_parts import (
    Counts,
    identity,
    read,
    require_described,
    require_same,
    stored,
    write_counts,
    write_tensors,
)
from trainer.learner import LearnerState
from trainer.learners.contract import Accounts
from zerofleet.presets import NetworkSettings
from zerofleet.presets.outcome import OutcomeSettings

__all__ = ["OutcomeCheckpoint", "pack", "require_fit", "samples_of", "unpack"]

_SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeCheckpoint(Counts):
    """The JSON part of a checkpoint."""

    outcome: int = _SCHEMA
    """Schema."""
    samples: dict[str, str | float]
    """Settings that determine which positions of a game are samples."""
    position: int
    """Number of the first sample that was not learned from."""


def samples_of(settings: OutcomeSettings) -> dict[str, str | float]:
    """Return the settings on which the samples of a game, and so their numbers, depend."""
    return settings.model_dump(include={"labels", "sides", "undecided", "held_out_share"})


def pack(
    game: Game,
    network: NetworkSettings,
    settings: OutcomeSettings,
    tensors: Mapping[str, Tensor],
    *,
    position: int,
    state: LearnerState,
    accounts: Accounts,
) -> tuple[bytes, bytes]:
    """Return the content of a checkpoint's two files, JSON and safetensors."""
    content = write_tensors(tensors)
    checkpoint = OutcomeCheckpoint(
        **identity(game, network.model_dump()),
        samples=samples_of(settings),
        position=position,
        learner=state,
        accounts=accounts,
        tensors=stored(content),
    )
    return write_counts(checkpoint), content


def unpack(counts: bytes, tensors: bytes, *, where: str) -> tuple[OutcomeCheckpoint, dict[str, Tensor]]:
    """Read the result of `pack`. Raises `CorruptModel` when it was changed, `VersionSkew` when it is another learner's."""
    return read(OutcomeCheckpoint, counts, tensors, where=where)


def require_fit(checkpoint: OutcomeCheckpoint, game: Game, network: NetworkSettings, settings: OutcomeSettings) -> None:
    """Raise `VersionSkew` when a checkpoint is of another game, encoding or network, or counts other samples."""
    require_same(checkpoint, {**identity(game, checkpoint.network), "samples": samples_of(settings)})
    require_described(checkpoint.network, network, name="the checkpoint")
