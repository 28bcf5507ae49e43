"""Content of a checkpoint of the learner `td_lambda`: weights in double precision, counts and accounts."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

import torch
from pydantic import ConfigDict
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

from games.core import Game
from trainer.checkpoint_files import COUNTS, TENSORS
from trainer.learner import LearnerState
from trainer.learners.contract import Accounts
from zerofleet.contracts.encodings import encoder_fingerprint
from zerofleet.contracts.manifests import NetworkDict, StoredFile, parse
from zerofleet.errors import CorruptModel, VersionSkew
from zerofleet.evaluators.in_process.kernels import Perceptron

__all__ = ["TdCheckpoint", "pack", "require_same", "unpack", "weights_in"]

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


def pack(game: Game, network: NetworkDict, net: Perceptron, state: LearnerState, accounts: Accounts) -> tuple[bytes, bytes]:
    """Return the content of a checkpoint's two files: JSON and safetensors."""
    tensors = save_safetensors({name: torch.from_numpy(array) for name, array in net._asdict().items()})
    checkpoint = TdCheckpoint(
        game=game.spec().name,
        parameters={name: str(value) for name, value in game._asdict().items()},
        encoder=encoder_fingerprint(game),
        network=network,
        learner=state,
        accounts=accounts,
        tensors=StoredFile(sha256=hashlib.sha256(tensors).hexdigest(), size=len(tensors)),
    )
    return json.dumps(asdict(checkpoint), indent=1, allow_nan=False).encode(), tensors


def unpack(counts: bytes, tensors: bytes, *, where: str) -> tuple[TdCheckpoint, dict[str, Tensor]]:
    """Read the result of `pack`. Raises `CorruptModel` when it was changed or is another learner's."""
    checkpoint = parse(TdCheckpoint, counts, where=f"{where}/{COUNTS}")
    found = StoredFile(sha256=hashlib.sha256(tensors).hexdigest(), size=len(tensors))
    if found != checkpoint.tensors:
        raise CorruptModel(f"{where}/{TENSORS} has {found.size} bytes, expected {checkpoint.tensors.size} of another hash")
    return checkpoint, load_safetensors(tensors)


def weights_in(tensors: dict[str, Tensor]) -> Perceptron:
    """Return the weights of a checkpoint."""
    return Perceptron(**{name: tensor.numpy().copy() for name, tensor in tensors.items()})


def require_same(checkpoint: TdCheckpoint, game: Game, network: NetworkDict) -> None:
    """Raise `VersionSkew` when a checkpoint is of another game, encoding or network."""
    wanted: dict[str, object] = {
        "game": game.spec().name,
        "parameters": {name: str(value) for name, value in game._asdict().items()},
        "encoder": encoder_fingerprint(game),
        "network": network,
    }
    for name, want in wanted.items():
        if (got := getattr(checkpoint, name)) != want:
            raise VersionSkew(
                f"the checkpoint has {name} {got}, the settings have {want}; restore the setting, or start another run"
            )
