"""Content of a checkpoint of the learner `sarsa_lambda`: weights in double precision, counts and accounts."""

from __future__ import annotations

import hashlib
import json
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

__all__ = ["SarsaCheckpoint", "pack", "require_same", "unpack"]

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
    tensors = save_safetensors({"weights": torch.from_numpy(weights)})
    checkpoint = SarsaCheckpoint(
        game=game.spec().name,
        parameters=parameters_text(game),
        encoder=encoder_fingerprint(game),
        network=network,
        learner=state,
        accounts=accounts,
        tensors=_stored(tensors),
    )
    return json.dumps(asdict(checkpoint), indent=1, allow_nan=False).encode(), tensors


def unpack(counts: bytes, tensors: bytes, *, where: str) -> tuple[SarsaCheckpoint, dict[str, Tensor]]:
    """Read the result of `pack`. Raises `CorruptModel` when it was changed or is another learner's."""
    checkpoint = parse(SarsaCheckpoint, counts, where=f"{where}/{COUNTS}")
    if (found := _stored(tensors)) != checkpoint.tensors:
        raise CorruptModel(f"{where}/{TENSORS} has {found.size} bytes, expected {checkpoint.tensors.size} of another hash")
    return checkpoint, load_safetensors(tensors)


def require_same(checkpoint: SarsaCheckpoint, game: Game, network: NetworkDict) -> None:
    """Raise `VersionSkew` when a checkpoint is of another game, encoding or network."""
    got = (checkpoint.game, checkpoint.parameters, checkpoint.encoder, checkpoint.network)
    want = (game.spec().name, parameters_text(game), encoder_fingerprint(game), network)
    if got != want:
        raise VersionSkew(
            f"the checkpoint is of {got}, the settings describe {want}; restore the settings, or start another run"
        )


def _stored(content: bytes) -> StoredFile:
    return StoredFile(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
