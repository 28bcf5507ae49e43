"""Content of a checkpoint of the learner `alphazero`: weights, average, optimiser, counts, generator and accounts.

A learner restored from a checkpoint takes bit-identical steps to one that was never stopped, given the same window.
"""

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
from trainer.learner import Learner, LearnerState
from trainer.learners.contract import Accounts
from trainer.network import with_todays_names
from zerofleet.contracts.encodings import encoder_fingerprint
from zerofleet.contracts.manifests import NetworkDict, StoredFile, parse
from zerofleet.errors import CorruptModel, VersionSkew
from zerofleet.presets import NetworkSettings

__all__ = ["Checkpoint", "pack", "restore", "unpack"]

CHECKPOINT_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class _Generator:
    """State of a numpy PCG64 generator; its 128-bit numbers as text."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    state: str
    inc: str
    has_uint32: int
    uinteger: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The JSON part of a checkpoint."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    game: str
    parameters: dict[str, str]
    encoder: str
    network: NetworkDict
    optimizer: str
    learner: LearnerState
    average_updates: int
    generator: _Generator
    accounts: Accounts
    tensors: StoredFile
    schema: int = CHECKPOINT_SCHEMA


def pack(game: Game, network: NetworkSettings, learner: Learner, accounts: Accounts) -> tuple[bytes, bytes]:
    """Return the content of a checkpoint's two files: JSON and safetensors."""
    tensors = save_safetensors(_tensors(learner))
    checkpoint = Checkpoint(
        game=game.spec().name,
        parameters=parameters_text(game),
        encoder=encoder_fingerprint(game),
        network=network.model_dump(),
        optimizer=learner.settings.optimizer,
        learner=learner.state,
        average_updates=learner.average.updates,
        generator=_read_generator(learner.rng),
        accounts=accounts,
        tensors=StoredFile(sha256=hashlib.sha256(tensors).hexdigest(), size=len(tensors)),
    )
    return json.dumps(asdict(checkpoint), indent=1, allow_nan=False).encode(), tensors


def unpack(counts: bytes, tensors: bytes, *, where: str) -> tuple[Checkpoint, dict[str, Tensor]]:
    """Read the result of `pack`. Raises `CorruptModel` when it was changed, `VersionSkew` for another schema."""
    checkpoint = parse(Checkpoint, counts, where=f"{where}/{COUNTS}", schemas=[CHECKPOINT_SCHEMA])
    found = StoredFile(sha256=hashlib.sha256(tensors).hexdigest(), size=len(tensors))
    if found != checkpoint.tensors:
        raise CorruptModel(f"{where}/{TENSORS} has {found.size} bytes, expected {checkpoint.tensors.size} of another hash")
    return checkpoint, load_safetensors(tensors)


def restore(learner: Learner, game: Game, network: NetworkSettings, checkpoint: Checkpoint, tensors: dict[str, Tensor]) -> None:
    """Load a checkpoint into a fresh learner. Raises `VersionSkew` when it is of another game or network."""
    _require_same(game, network, learner, checkpoint)
    tensors = with_todays_names(tensors)
    learner.load_weights(_under(tensors, "network"))
    names = [name for name, _ in learner.network.named_parameters()]
    for name, weight in zip(names, learner.average.weights, strict=True):
        weight.copy_(tensors[f"average.{name}"])
    learner.average.updates = checkpoint.average_updates
    stored = learner.optimizer.state_dict()
    stored["state"] = {
        index: {key: _laid_out_as(parameter, tensor) for key, tensor in entries.items()}
        for index, (name, parameter) in enumerate(_optimizer_parameters(learner))
        if (entries := _under(tensors, f"optimizer.{name}"))
    }
    learner.optimizer.load_state_dict(stored)
    learner.state = checkpoint.learner
    _write_generator(learner.rng, checkpoint.generator)


def _require_same(game: Game, network: NetworkSettings, learner: Learner, checkpoint: Checkpoint) -> None:
    spec = game.spec()
    wanted: dict[str, object] = {
        "game": spec.name,
        "parameters": parameters_text(game),
        "encoder": encoder_fingerprint(game),
        "network": checkpoint.network if network.describes(checkpoint.network) else network.model_dump(),
        "optimizer": learner.settings.optimizer,
    }
    for name, want in wanted.items():
        if (got := getattr(checkpoint, name)) != want:
            raise VersionSkew(
                f"the checkpoint has {name} {got}, the settings have {want}; restore the setting, or start another run"
            )


def _tensors(learner: Learner) -> dict[str, Tensor]:
    """Return every tensor of a learner under a unique name."""
    found = {f"network.{name}": tensor for name, tensor in learner.network.state_dict().items()}
    parameters = dict(learner.network.named_parameters())
    for name, weight in zip(parameters, learner.average.weights, strict=True):
        found[f"average.{name}"] = weight
    for name, parameter in parameters.items():
        for key, tensor in learner.optimizer.state.get(parameter, {}).items():
            found[f"optimizer.{name}.{key}"] = tensor
    return {name: tensor.detach().cpu().contiguous() for name, tensor in found.items()}


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(f"{prefix}."): tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")}


def _optimizer_parameters(learner: Learner) -> list[tuple[str, Tensor]]:
    """Return names and parameters in the optimiser's order, by which its state dictionary numbers them."""
    names = {parameter: name for name, parameter in learner.network.named_parameters()}
    return [(names[parameter], parameter) for group in learner.optimizer.param_groups for parameter in group["params"]]


def _laid_out_as(parameter: Tensor, tensor: Tensor) -> Tensor:
    """Return a moment in the memory layout of its parameter, which the fused optimiser assumes without a check."""
    return torch.empty_like(parameter).copy_(tensor) if tensor.shape == parameter.shape else tensor


def _read_generator(rng: np.random.Generator) -> _Generator:
    stored = rng.bit_generator.state
    return _Generator(str(stored["state"]["state"]), str(stored["state"]["inc"]), stored["has_uint32"], stored["uinteger"])


def _write_generator(rng: np.random.Generator, stored: _Generator) -> None:
    rng.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": int(stored.state), "inc": int(stored.inc)},
        "has_uint32": stored.has_uint32,
        "uinteger": stored.uinteger,
    }
