"""Content of a checkpoint of the learners `dqn` and `deep_sarsa`: both networks, the memory, the generator, counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ConfigDict
from torch import Tensor

from games.core import Game
from trainer.checkpoint_parts import Counts, identity, read, require_same, stored, write_counts, write_tensors
from trainer.learner import LearnerState
from trainer.learners.contract import Accounts
from zerofleet.contracts.manifests import NetworkDict

__all__ = ["DeepQCheckpoint", "Progress", "pack", "require_fit", "unpack"]

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
class DeepQCheckpoint(Counts):
    """The JSON part of a checkpoint."""

    deep_q: int = _SCHEMA
    """Schema."""
    name: str
    """`dqn` or `deep_sarsa`."""
    replay: int
    """Capacity of the memory."""
    progress: Progress


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
    content = write_tensors(tensors)
    checkpoint = DeepQCheckpoint(
        **identity(game, network),
        name=name,
        replay=replay,
        learner=state,
        progress=progress,
        accounts=accounts,
        tensors=stored(content),
    )
    return write_counts(checkpoint), content


def unpack(counts: bytes, tensors: bytes, *, where: str) -> tuple[DeepQCheckpoint, dict[str, Tensor]]:
    """Read the result of `pack`. Raises `CorruptModel` when it was changed, `VersionSkew` when it is another learner's."""
    return read(DeepQCheckpoint, counts, tensors, where=where)


def require_fit(checkpoint: DeepQCheckpoint, game: Game, network: NetworkDict, *, name: str, replay: int) -> None:
    """Raise `VersionSkew` when a checkpoint is of another learner, memory, game, encoding or network."""
    require_same(checkpoint, {"name": name, "replay": replay, **identity(game, network)})
