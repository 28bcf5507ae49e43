"""Checkpoint of a learner whose state is arrays, counts and accounts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import torch
from pydantic import ConfigDict
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

from games.core import Game
from games.positions import parameters_text
from trainer.checkpoint_files import COUNTS, TENSORS
from trainer.learner import LearnerState
from trainer.learners.contract import Accounts
from zerofleet.contracts.encodings import encoder_fingerprint
from zerofleet.contracts.manifests import NetworkDict, StoredFile, parse
from zerofleet.errors import CorruptModel, VersionSkew

__all__ = ["ArrayCheckpoint", "pack", "require_same", "unpack"]

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


def pack(
    name: str, game: Game, network: NetworkDict, arrays: Mapping[str, np.ndarray], state: LearnerState, accounts: Accounts
) -> tuple[bytes, bytes]:
    """Return the content of a checkpoint's two files: JSON and safetensors."""
    tensors = save_safetensors({key: torch.from_numpy(np.ascontiguousarray(array)) for key, array in arrays.items()})
    checkpoint = ArrayCheckpoint(
        learner_name=name,
        game=game.spec().name,
        parameters=parameters_text(game),
        encoder=encoder_fingerprint(game),
        network=network,
        learner=state,
        accounts=accounts,
        tensors=StoredFile(sha256=hashlib.sha256(tensors).hexdigest(), size=len(tensors)),
    )
    return json.dumps(asdict(checkpoint), indent=1, allow_nan=False).encode(), tensors


def unpack(counts: bytes, tensors: bytes, *, where: str) -> tuple[ArrayCheckpoint, dict[str, Tensor]]:
    """Read the result of `pack`. Raises `CorruptModel` when it was changed or is of another kind."""
    checkpoint = parse(ArrayCheckpoint, counts, where=f"{where}/{COUNTS}")
    found = StoredFile(sha256=hashlib.sha256(tensors).hexdigest(), size=len(tensors))
    if found != checkpoint.tensors:
        raise CorruptModel(f"{where}/{TENSORS} has {found.size} bytes, expected {checkpoint.tensors.size} of another hash")
    return checkpoint, load_safetensors(tensors)


def require_same(checkpoint: ArrayCheckpoint, name: str, game: Game, network: NetworkDict) -> None:
    """Raise `VersionSkew` when a checkpoint is of another learner, game, encoding or network."""
    wanted: dict[str, object] = {
        "learner_name": name,
        "game": game.spec().name,
        "parameters": parameters_text(game),
        "encoder": encoder_fingerprint(game),
        "network": network,
    }
    for key, want in wanted.items():
        if (got := getattr(checkpoint, key)) != want:
            raise VersionSkew(
                f"the checkpoint has {key} {got}, the settings have {want}; restore the setting, or start another run"
            )
