"""Content of a checkpoint of the learner `td_lambda`: weights in double precision, counts and accounts."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ConfigDict
from torch import Tensor

from games.core import Game
from trainer.checkpoint_parts import identity, read, require_same, stored, tensors_of, write_counts, write_tensors
from trainer.learner import LearnerState
from trainer.learners.contract import Accounts
from zerofleet.contracts.manifests import NetworkDict, StoredFile
from zerofleet.evaluators.in_process.kernels import Perceptron, perceptron_of, weights_by_name

__all__ = ["TdCheckpoint", "pack", "require_fit", "unpack", "weights_in"]

TD_CHECKPOINT_SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TdCheckpoint:
    """The JSON part of a checkpoint."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    td_lambda: int = TD_CHECKPOINT_SCHEMA
    """Schema, under a key of its own, so that a checkpoint of another learner is recognised."""
    game: str
    parameters: dict[str, str]
    encoder: str
    network: NetworkDict
    learner: LearnerState
    accounts: Accounts
    tensors: StoredFile
    counts_empty: bool | None = None
    """Whether a game without positions counted as one; `None` in a checkpoint of an earlier release."""


def pack(
    game: Game, network: NetworkDict, net: Perceptron, state: LearnerState, accounts: Accounts, *, counts_empty: bool
) -> tuple[bytes, bytes]:
    """Return the content of a checkpoint's two files: JSON and safetensors."""
    tensors = write_tensors(tensors_of(weights_by_name(net)))
    checkpoint = TdCheckpoint(
        **identity(game, network), learner=state, accounts=accounts, tensors=stored(tensors), counts_empty=counts_empty
    )
    return write_counts(checkpoint), tensors


def unpack(counts: bytes, tensors: bytes, *, where: str) -> tuple[TdCheckpoint, dict[str, Tensor]]:
    """Read the result of `pack`. Raises `CorruptModel` when it was changed, `VersionSkew` when it is another learner's."""
    return read(TdCheckpoint, counts, tensors, where=where)


def weights_in(tensors: dict[str, Tensor]) -> Perceptron:
    """Return the weights of a checkpoint."""
    return perceptron_of({name: tensor.numpy().copy() for name, tensor in tensors.items()})


def require_fit(checkpoint: TdCheckpoint, game: Game, network: NetworkDict) -> None:
    """Raise `VersionSkew` when a checkpoint is of another game, encoding or network."""
    wanted = identity(game, network)
    if checkpoint.parameters == {name: str(value) for name, value in game._asdict().items()}:
        wanted["parameters"] = checkpoint.parameters  # written before parameters that are words were stored as such
    require_same(checkpoint, wanted)
