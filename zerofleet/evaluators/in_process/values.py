"""Networks of learners of values in this process: perceptrons, about a million positions a second on one core, and functions of
a game's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

import numpy as np

from games.core import GameSpec
from zerofleet.contracts.manifests import Manifest, NetworkDict
from zerofleet.errors import CorruptModel, InvalidRequest
from zerofleet.evaluators.base import LeafBatch
from zerofleet.evaluators.in_process.first_player import FirstPlayerPerceptron
from zerofleet.evaluators.in_process.kernels import Perceptron, perceptron_of, values
from zerofleet.evaluators.in_process.perceptrons import BitPerceptron, bit_perceptron
from zerofleet.evaluators.uniform import uniform_policy

__all__ = ["VALUE_PERCEPTRON", "Load", "ValueFunction", "ValueNetwork", "Values"]

VALUE_PERCEPTRON = "value_perceptron"
"""`kind` in the network of such a version's manifest."""
Values: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""Values of packed positions (uint8 [B, packed_bytes]) for their players to move: float32 [B], in [-1, 1]."""
Load: TypeAlias = Callable[[NetworkDict, Mapping[str, np.ndarray]], Values]
"""Maker of such a function, from the network of a manifest and its tensors."""


class ValueFunction:
    """Values of a game's own kind of network; the policy is uniform over the legal moves."""

    def __init__(self, manifest: Manifest, values_of: Values) -> None:
        """Wrap the function of a version."""
        self._name = f"model {manifest.model} version {manifest.version}"
        self._values = values_of

    def __call__(self, batch: LeafBatch) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
        """Return policy float16 [B, L], value float32 [B, 2] and no extra heads; raises `InvalidRequest`."""
        if batch.extra_heads:
            raise InvalidRequest(f"{self._name} has 0 extra heads, got a request for {batch.extra_heads}")
        return _without_policy(batch, self._values(batch.states))


class ValueNetwork:
    """Perceptron of hidden layers and one probability of winning; the policy is uniform over the legal moves."""

    def __init__(self, manifest: Manifest, tensors: Mapping[str, np.ndarray], spec: GameSpec) -> None:
        """Build the network of a version from its stored weights; raises `CorruptModel` when they do not fit the manifest."""
        self._name = f"model {manifest.model} version {manifest.version}"
        units = tensors["out.weight"].shape[-1] if "out.weight" in tensors else 0
        hidden = manifest.network.get("hidden")
        further = range(len(hidden) - 1 if isinstance(hidden, list | tuple) else 0)
        for name, shape in {
            "hidden.weight": (units, spec.num_inputs),
            "hidden.bias": (units,),
            **{f"deep.{layer}.weight": (units, units) for layer in further},
            **{f"deep.{layer}.bias": (units,) for layer in further},
            "out.weight": (1, units),
            "out.bias": (1,),
        }.items():
            got = tensors[name].shape if name in tensors else "no such layer"
            if got != shape:
                raise CorruptModel(f"{self._name}: {name} has {got}, want {shape}")
        net, successor = _perceptron(tensors, len(further)), manifest.network.get("successor")
        self.perceptron: BitPerceptron | None = None
        """Network for compiled code; None for one that reads the first player's view."""
        self._values: Values
        if successor == "first_player":
            self._values = _first_player(net, spec, self._name)
        else:
            self.perceptron = bit_perceptron(net, spec, sign=-1.0 if successor == "own" else 1.0)
            self._values = partial(_values_of, self.perceptron)

    def __call__(self, batch: LeafBatch) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
        """Return policy float16 [B, L], value float32 [B, 2] and no extra heads; raises `InvalidRequest`."""
        if batch.extra_heads:
            raise InvalidRequest(f"{self._name} has 0 extra heads, got a request for {batch.extra_heads}")
        return _without_policy(batch, self._values(batch.states))


def _values_of(network: BitPerceptron, states: np.ndarray) -> np.ndarray:
    """See `Values`."""
    chances = np.empty(len(states), dtype=np.float32)
    values(network.net, states & network.read, chances)
    mine: np.ndarray = network.sign * (2.0 * chances - 1.0)
    return mine


def _first_player(net: Perceptron, spec: GameSpec, name: str) -> FirstPlayerPerceptron:
    try:
        return FirstPlayerPerceptron(net, spec)
    except ValueError as error:
        raise CorruptModel(f"{name}: {error}, which its network reads") from error


def _perceptron(tensors: Mapping[str, np.ndarray], further: int) -> Perceptron:
    weights = {
        "hidden": tensors["hidden.weight"].T,
        "hidden_bias": tensors["hidden.bias"],
        "out": tensors["out.weight"][0],
        "out_bias": tensors["out.bias"],
    }
    if further:
        weights["deep"] = np.stack([tensors[f"deep.{layer}.weight"].T for layer in range(further)])
        weights["deep_bias"] = np.stack([tensors[f"deep.{layer}.bias"] for layer in range(further)])
    return perceptron_of(weights)


def _without_policy(batch: LeafBatch, mine: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
    """Return a uniform policy, the values `mine` (float32 [B], of the players to move) for both players, and no extra heads."""
    return uniform_policy(batch.legal), np.stack([mine, -mine], axis=1).astype(np.float32), ()
