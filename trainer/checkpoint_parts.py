"""Parts that the checkpoints of all learners share: both files as bytes, and the identity of what was learned.

A learner adds its own counts in a frozen dataclass of the kind `Counts`, and its schema under a key of its own, by which a
checkpoint of another learner is recognised.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TypedDict, TypeVar

import numpy as np
import torch
from pydantic import ConfigDict
from pydantic_core import from_json
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

from games.core import Game
from games.positions import parameters_text
from trainer.checkpoint_files import COUNTS, TENSORS
from trainer.learner import LearnerState
from trainer.learners.contract import Accounts
from zerofleet.contracts.encodings import encoder_fingerprint
from zerofleet.contracts.manifests import READABLE_SCHEMAS, NetworkDict, StoredFile, parse
from zerofleet.errors import CorruptModel, VersionSkew
from zerofleet.presets import NetworkSettings

__all__ = [
    "Counts",
    "Identity",
    "identity",
    "load_arrays",
    "named",
    "read",
    "require_described",
    "require_network",
    "require_same",
    "stored",
    "tensors_of",
    "under",
    "write_counts",
    "write_tensors",
]


class Identity(TypedDict):
    """Game and network that a checkpoint belongs to; those of the settings that go on with it are equal."""

    game: str
    parameters: dict[str, str]
    encoder: str
    network: NetworkDict


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The JSON part of a checkpoint; the other file holds the tensors."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    game: str
    parameters: dict[str, str]
    encoder: str
    network: NetworkDict
    learner: LearnerState
    accounts: Accounts
    tensors: StoredFile


Kind = TypeVar("Kind", bound=Counts)

_LEARNERS = {
    "optimizer": "alphazero",
    "td_lambda": "td_lambda",
    "sarsa_lambda": "sarsa_lambda",
    "deep_q": "dqn, deep_sarsa or combined",
    "outcome": "outcome",
    "arrays": "of another package",  # its counts hold the name
}
"""Learner by the key that only its counts have."""


def identity(game: Game, network: NetworkDict) -> Identity:
    """Return the identity of a game and a network; a network is compared as a manifest describes it."""
    return {
        "game": game.spec().name,
        "parameters": parameters_text(game),
        "encoder": encoder_fingerprint(game),
        "network": network,
    }


def stored(content: bytes) -> StoredFile:
    """Return hash and size of a file."""
    return StoredFile(sha256=hashlib.sha256(content).hexdigest(), size=len(content))


def write_tensors(tensors: Mapping[str, Tensor]) -> bytes:
    """Return the file of tensors (safetensors); they may be on a device and in any layout."""
    return save_safetensors({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})


def write_counts(counts: Counts) -> bytes:
    """Return the file of counts (JSON). Raises `ValueError` for a number that is not finite."""
    return json.dumps(asdict(counts), indent=1, allow_nan=False).encode()


def read(
    kind: type[Kind], counts: bytes, tensors: bytes, *, where: str, schemas: Sequence[int] = READABLE_SCHEMAS
) -> tuple[Kind, dict[str, Tensor]]:
    """Read both files of a checkpoint.

    Raises `CorruptModel` when they were changed, `VersionSkew` for another learner's and for a schema not in `schemas`.
    """
    _require_own(kind, counts, where)
    found = parse(kind, counts, where=f"{where}/{COUNTS}", schemas=schemas)
    if (got := stored(tensors)) != found.tensors:
        raise CorruptModel(f"{where}/{TENSORS} has {got.size} bytes, expected {found.tensors.size} of another hash")
    return found, load_safetensors(tensors)


def _require_own(kind: type[Counts], counts: bytes, where: str) -> None:
    """Raise `VersionSkew` for the counts of another learner; what is no checkpoint at all passes."""
    try:
        found = from_json(counts)
    except ValueError:
        return
    own = {entry.name for entry in fields(kind)}
    for key, learner in _LEARNERS.items():
        if isinstance(found, dict) and key in found and key not in own:
            raise VersionSkew(
                f"{where} is a checkpoint of the learner {found.get('learner_name', learner)}, and train.learner names "
                "another; restore train.learner, or start another run"
            )


def require_same(found: object, wanted: Mapping[str, object]) -> None:
    """Raise `VersionSkew` unless the counts of a checkpoint have the wanted entries."""
    for key, want in wanted.items():
        if (got := getattr(found, key)) != want:
            raise _skew("the checkpoint", key, got, want)


def require_network(network: Mapping[str, object], wanted: NetworkDict, *, name: str) -> None:
    """Raise `VersionSkew` unless a stored network is the wanted one; `name`: of its version, or of its checkpoint."""
    if dict(network) != wanted:
        raise _skew(name, "network", dict(network), wanted)


def require_described(network: Mapping[str, object], settings: NetworkSettings, *, name: str) -> None:
    """Raise `VersionSkew` unless a stored network is that of `settings`, as `NetworkSettings.describes` compares them."""
    if not settings.describes(network):
        raise _skew(name, "network", dict(network), settings.model_dump())


def _skew(name: str, key: str, got: object, want: object) -> VersionSkew:
    return VersionSkew(f"{name} has {key} {got}, the settings have {want}; restore the settings, or start another run")


def named(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of one part under names that begin with that of the part."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors of one part, by their names in it: the inverse of `named`."""
    return {name.removeprefix(f"{prefix}."): tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")}


def tensors_of(arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Return arrays as tensors that `load_arrays` reads; a single number has the shape [1]."""
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}


def load_arrays(arrays: Mapping[str, np.ndarray], tensors: Mapping[str, Tensor], *, name: str) -> None:
    """Change arrays in place to the tensors of the same names, of any precision; `name`: holder of the tensors.

    Raises `VersionSkew` for other names or shapes; then nothing has changed.
    """
    got = {key: list(tensor.shape or [1]) for key, tensor in tensors.items()}
    want = {key: list(array.shape or [1]) for key, array in arrays.items()}
    if got != want:
        raise VersionSkew(
            f"{name} has the arrays {_shapes(got)}, the learner has {_shapes(want)}; restore the settings and the release of "
            "the learner that wrote it, or start another run"
        )
    for key, array in arrays.items():
        array[...] = tensors[key].numpy().reshape(array.shape)


def _shapes(arrays: Mapping[str, list[int]]) -> str:
    return ", ".join(f"{key} {shape}" for key, shape in sorted(arrays.items())) or "none"
