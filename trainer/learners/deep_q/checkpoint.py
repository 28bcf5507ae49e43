"""Content of a checkpoint of the learners `dqn` and `deep_sarsa`: both networks, the memory, the generator, counts."""

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

__all__ = ["DeepQCheckpoint", "Progress", "pack", "require_same", "unpack"]

_SCHEMA = 1


@dataclass(slots=True)
class Progress:
    """Counts of the learner beside those of every learner."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    taken: int = 0
    """Number of the next transition to enter the memory."""
    entered: int = 0
    """Transitions that entered it; fewer where a run went on from stored weights."""
    credit: int = 0
    """Draws that are due."""
    games: int = 0
    """Games whose last transition entered the memory."""
    candidate_games: int = 0
    """Such games when the newest version was published."""
    candidate_step: int = 0
    """Steps taken then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepQCheckpoint:
    """The JSON part of a checkpoint."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    deep_q: int = _SCHEMA
    """Schema, under a key of its own, so that a checkpoint of another learner is recognised."""
    name: str
    """`dqn` or `deep_sarsa`."""
    replay: int
    """Capacity of the memory."""
    game: str
    parameters: dict[str, str]
    encoder: str
    network: NetworkDict
    learner: LearnerState
    progress: Progress
    accounts: Accounts
    tensors: StoredFile


def pack(
    game: Game,
    network: NetworkDict,
    tensors: Mapping[str, Tensor],
    *,
    name: str,
    replay: int,
    state: LearnerState,
    progress: Progress,
    accounts: Accounts,
) -> tuple[bytes, bytes]:
    """Return the content of a checkpoint's two files, JSON and safetensors."""
    stored = save_safetensors({key: tensor.contiguous() for key, tensor in tensors.items()})
    checkpoint = DeepQCheckpoint(
        name=name,
        replay=replay,
        game=game.spec().name,
        parameters=parameters_text(game),
        encoder=encoder_fingerprint(game),
        network=network,
        learner=state,
        progress=progress,
        accounts=accounts,
        tensors=_stored(stored),
    )
    return json.dumps(asdict(checkpoint), indent=1, allow_nan=False).encode(), stored


def unpack(counts: bytes, tensors: bytes, *, where: str) -> tuple[DeepQCheckpoint, dict[str, Tensor]]:
    """Read the result of `pack`. Raises `CorruptModel` when it was changed or is another learner's."""
    checkpoint = parse(DeepQCheckpoint, counts, where=f"{where}/{COUNTS}")
    if (found := _stored(tensors)) != checkpoint.tensors:
        raise CorruptModel(f"{where}/{TENSORS} has {found.size} bytes, expected {checkpoint.tensors.size} of another hash")
    return checkpoint, load_safetensors(tensors)


def require_same(checkpoint: DeepQCheckpoint, game: Game, network: NetworkDict, *, name: str, replay: int) -> None:
    """Raise `VersionSkew` when a checkpoint is of another learner, memory, game, encoding or network."""
    got = (
        checkpoint.name,
        checkpoint.replay,
        checkpoint.game,
        checkpoint.parameters,
        checkpoint.encoder,
        checkpoint.network,
    )
    want = (name, replay, game.spec().name, parameters_text(game), encoder_fingerprint(game), network)
    if got != want:
        raise VersionSkew(
            f"the checkpoint is of {got}, the settings describe {want}; restore the settings, or start another run"
        )


def _stored(content: bytes) -> StoredFile:
    return StoredFile(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
