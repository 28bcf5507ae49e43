"""Content of a checkpoint of the learner `outcome`: weights, momentum, counts and accounts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

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
from zerofleet.presets.outcome import OutcomeSettings

__all__ = ["OutcomeCheckpoint", "pack", "require_same", "samples_of", "unpack"]

_SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeCheckpoint:
    """The JSON part of a checkpoint."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    outcome: int = _SCHEMA
    """Schema, under a key of its own, so that a checkpoint of another learner is recognised."""
    game: str
    parameters: dict[str, str]
    encoder: str
    network: NetworkDict
    samples: dict[str, str | float]
    """Settings that determine which positions of a game are samples."""
    position: int
    """Number of the first sample that was not learned from."""
    learner: LearnerState
    accounts: Accounts
    tensors: StoredFile


def samples_of(settings: OutcomeSettings) -> dict[str, str | float]:
    """Return the settings on which the samples of a game, and so their numbers, depend."""
    return settings.model_dump(include={"labels", "sides", "undecided", "held_out_share"})


def pack(
    game: Game,
    network: NetworkDict,
    settings: OutcomeSettings,
    tensors: Mapping[str, Tensor],
    *,
    position: int,
    state: LearnerState,
    accounts: Accounts,
) -> tuple[bytes, bytes]:
    """Return the content of a checkpoint's two files, JSON and safetensors."""
    stored = save_safetensors(dict(tensors))
    checkpoint = OutcomeCheckpoint(
        game=game.spec().name,
        parameters=parameters_text(game),
        encoder=encoder_fingerprint(game),
        network=network,
        samples=samples_of(settings),
        position=position,
        learner=state,
        accounts=accounts,
        tensors=_stored(stored),
    )
    return json.dumps(asdict(checkpoint), indent=1, allow_nan=False).encode(), stored


def unpack(counts: bytes, tensors: bytes, *, where: str) -> tuple[OutcomeCheckpoint, dict[str, Tensor]]:
    """Read the result of `pack`. Raises `CorruptModel` when it was changed or is another learner's."""
    checkpoint = parse(OutcomeCheckpoint, counts, where=f"{where}/{COUNTS}")
    if (found := _stored(tensors)) != checkpoint.tensors:
        raise CorruptModel(f"{where}/{TENSORS} has {found.size} bytes, expected {checkpoint.tensors.size} of another hash")
    return checkpoint, load_safetensors(tensors)


def require_same(checkpoint: OutcomeCheckpoint, game: Game, settings: OutcomeSettings) -> None:
    """Raise `VersionSkew` when a checkpoint is of another game or encoding, or counts other samples."""
    got = (checkpoint.game, checkpoint.parameters, checkpoint.encoder, checkpoint.samples)
    want = (game.spec().name, parameters_text(game), encoder_fingerprint(game), samples_of(settings))
    if got != want:
        raise VersionSkew(
            f"the checkpoint is of {got}, the settings describe {want}; restore the settings, or start another run"
        )


def _stored(content: bytes) -> StoredFile:
    return StoredFile(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
