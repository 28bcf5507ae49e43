"""Checkpoint of a learner whose state is arrays, counts and accounts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from pydantic import ConfigDict
from torch import Tensor

from games.core import Game
from trainer.checkpoint_parts import identity, read, require_same, stored, tensors_of, write_counts, write_tensors
from trainer.learner import LearnerState
from trainer.learners.contract import Accounts
from zerofleet.contracts.manifests import NetworkDict, StoredFile

__all__ = ["ArrayCheckpoint", "pack", "require_fit", "unpack"]

ARRAY_CHECKPOINT_SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayCheckpoint:
    """The JSON part of a checkpoint."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    arrays: int = ARRAY_CHECKPOINT_SCHEMA
    """Schema, under a key of its own, so that a checkpoint of another kind is recognised."""
    learner_name: str
    """Name of the learner."""
    game: str
    parameters: dict[str, str]
    encoder: str
    network: NetworkDict
    learner: LearnerState
    accounts: Accounts
    tensors: StoredFile
    counts_empty: bool | None = None
    """Whether a game without samples counted as one; `None` in a checkpoint of an earlier release."""


def pack(
    name: str,
    game: Game,
    network: NetworkDict,
    arrays: Mapping[str, np.ndarray],
    state: LearnerState,
    accounts: Accounts,
    *,
    counts_empty: bool,
) -> tuple[bytes, bytes]:
    """Return the content of a checkpoint's two files: JSON and safetensors."""
    tensors = write_tensors(tensors_of(arrays))
    checkpoint = ArrayCheckpoint(
        **identity(game, network),
        learner_name=name,
        learner=state,
        accounts=accounts,
        tensors=stored(tensors),
        counts_empty=counts_empty,
    )
    return write_counts(checkpoint), tensors


def unpack(counts: bytes, tensors: bytes, *, where: str) -> tuple[ArrayCheckpoint, dict[str, Tensor]]:
    """Read the result of `pack`. Raises `CorruptModel` when it was changed, `VersionSkew` when it is of another kind."""
    return read(ArrayCheckpoint, counts, tensors, where=where)


def require_fit(checkpoint: ArrayCheckpoint, name: str, game: Game, network: NetworkDict) -> None:
    """Raise `VersionSkew` when a checkpoint is of another learner, game, encoding or network."""
    require_same(checkpoint, {"learner_name": name, **identity(game, network)})
