"""Content of a checkpoint of the learner `sarsa_lambda`: weights in double precision, counts and accounts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pydantic import ConfigDict
from torch import Tensor

from games.core import Game
from trainer.checkpoint_parts import identity, read, require_same, stored, tensors_of, write_counts, write_tensors
from trainer.learner import LearnerState
from trainer.learners.contract import Accounts
from zerofleet.contracts.manifests import NetworkDict, StoredFile

__all__ = ["SarsaCheckpoint", "pack", "require_fit", "unpack"]

_SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SarsaCheckpoint:
    """The JSON part of a checkpoint."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    sarsa_lambda: int = _SCHEMA
    """Schema, under a key of its own, so that a checkpoint of another learner is recognised."""
    game: str
    parameters: dict[str, str]
    encoder: str
    network: NetworkDict
    learner: LearnerState
    accounts: Accounts
    tensors: StoredFile


def pack(game: Game, network: NetworkDict, weights: np.ndarray, state: LearnerState, accounts: Accounts) -> tuple[bytes, bytes]:
    """Return the content of a checkpoint's two files, JSON and safetensors; `weights` is float64 [3, F]."""
    tensors = write_tensors(tensors_of({"weights": weights}))
    checkpoint = SarsaCheckpoint(**identity(game, network), learner=state, accounts=accounts, tensors=stored(tensors))
    return write_counts(checkpoint), tensors


def unpack(counts: bytes, tensors: bytes, *, where: str) -> tuple[SarsaCheckpoint, dict[str, Tensor]]:
    """Read the result of `pack`. Raises `CorruptModel` when it was changed, `VersionSkew` when it is another learner's."""
    return read(SarsaCheckpoint, counts, tensors, where=where)


def require_fit(checkpoint: SarsaCheckpoint, game: Game, network: NetworkDict) -> None:
    """Raise `VersionSkew` when a checkpoint is of another game, encoding or network."""
    require_same(checkpoint, identity(game, network))
