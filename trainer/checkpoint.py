"""Content of a checkpoint of the learner `alphazero`: weights, average, optimiser, counts, generator and accounts.

A learner restored from a checkpoint takes bit-identical steps to one that was never stopped, given the same window.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from pydantic import ConfigDict
from torch import Tensor

from games.core import Game
from trainer.checkpoint_parts import (
    Counts,
    identity,
    named,
    read,
    require_described,
    require_same,
    stored,
    under,
    write_counts,
    write_tensors,
)
from trainer.learner import Learner
from trainer.learners.contract import Accounts
from trainer.network import with_todays_names
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
class Checkpoint(Counts):
    """The JSON part of a checkpoint."""

    optimizer: str
    average_updates: int
    generator: _Generator
    schema: int = CHECKPOINT_SCHEMA


def pack(game: Game, network: NetworkSettings, learner: Learner, accounts: Accounts) -> tuple[bytes, bytes]:
    """Return the content of a checkpoint's two files: JSON and safetensors."""
    tensors = write_tensors(_tensors(learner))
    checkpoint = Checkpoint(
        **identity(game, network.model_dump()),
        optimizer=learner.settings.optimizer,
        learner=learner.state,
        average_updates=learner.average.updates,
        generator=_read_generator(learner.rng),
        accounts=accounts,
        tensors=stored(tensors),
    )
    return write_counts(checkpoint), tensors


def unpack(counts: bytes, tensors: bytes, *, where: str) -> tuple[Checkpoint, dict[str, Tensor]]:
    """Read the result of `pack`. Raises `CorruptModel` when it was changed, `VersionSkew` for another schema."""
    return read(Checkpoint, counts, tensors, where=where, schemas=[CHECKPOINT_SCHEMA])


def restore(learner: Learner, game: Game, network: NetworkSettings, checkpoint: Checkpoint, tensors: dict[str, Tensor]) -> None:
    """Load a checkpoint into a fresh learner. Raises `VersionSkew` when it is of another game or network."""
    require_same(checkpoint, {**identity(game, checkpoint.network), "optimizer": learner.settings.optimizer})
    require_described(checkpoint.network, network, name="the checkpoint")
    tensors = with_todays_names(tensors)
    learner.load_weights(under(tensors, "network"))
    averages = under(tensors, "average")
    for (name, _), weight in zip(learner.network.named_parameters(), learner.average.weights, strict=True):
        weight.copy_(averages[name])
    learner.average.updates = checkpoint.average_updates
    moments = learner.optimizer.state_dict()
    moments["state"] = {
        index: {key: _laid_out_as(parameter, tensor) for key, tensor in entries.items()}
        for index, (name, parameter) in enumerate(_optimizer_parameters(learner))
        if (entries := under(tensors, f"optimizer.{name}"))
    }
    learner.optimizer.load_state_dict(moments)
    learner.state = checkpoint.learner
    _write_generator(learner.rng, checkpoint.generator)


def _tensors(learner: Learner) -> dict[str, Tensor]:
    """Return every tensor of a learner under a unique name."""
    parameters = dict(learner.network.named_parameters())
    found = named("network", learner.network.state_dict())
    found |= named("average", dict(zip(parameters, learner.average.weights, strict=True)))
    for name, parameter in parameters.items():
        found |= named(f"optimizer.{name}", learner.optimizer.state.get(parameter, {}))
    return found


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
