"""Residual tower of a stored version as plain arrays: norms folded into the convolutions in float64.

A network of another kind raises `Unsupported` with the reason; TorchScript evaluates every network.

Axes: C planes, H x W cells, K x N inputs and outputs of a layer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from games.core import GameSpec
from zerofleet.contracts.heads import AUXILIARY_HEADS
from zerofleet.contracts.manifests import Manifest
from zerofleet.contracts.pacing import give_way
from zerofleet.errors import CorruptModel, InvalidRequest, Unavailable

__all__ = ["FoldedHead", "FoldedTower", "Unsupported", "folded_tower", "read_weights"]

_EPSILON = 1e-5  # of torch's norms
_MOST_CELLS = 1024
_SIZES = ("blocks", "channels", "policy_channels", "value_channels", "value_hidden")


class Unsupported(InvalidRequest):
    """The evaluator lacks a part of this network; the text names it."""


@dataclass(frozen=True, slots=True)
class FoldedHead:
    """A 1x1 convolution with relu, a hidden layer with relu if there is one, and a linear layer."""

    kernels: np.ndarray  # float64 [N, K]
    bias: np.ndarray  # float64 [N]
    hidden: tuple[np.ndarray, np.ndarray] | None
    """Weights [hidden, N * H * W], channel by channel, and bias; None without such a layer."""
    out: tuple[np.ndarray, np.ndarray]
    """Weights [answers, hidden or N * H * W] and bias."""

    @property
    def answers(self) -> int:
        """Number of outputs."""
        return len(self.out[1])


@dataclass(frozen=True, slots=True)
class FoldedTower:
    """Layers of a network in the order in which they are evaluated."""

    convolutions: tuple[tuple[np.ndarray, np.ndarray], ...]
    """Kernels float64 [N, K, 3, 3] and bias [N] of the stem, which reads planes, and of the two convolutions of each block."""
    heads: tuple[FoldedHead, ...]
    """Policy, value, and the extra heads that are served."""


class _Weights:
    """Stored tensors by name, with norms folded in float64."""

    def __init__(self, tensors: Mapping[str, np.ndarray], name: str) -> None:
        self._tensors = tensors
        self._name = name

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def get(self, name: str, *shape: int) -> np.ndarray:
        """Return a tensor in float64; raises `CorruptModel` when it is missing or has another shape."""
        found = self._tensors.get(name)
        if found is None or found.shape != shape:
            got = "missing" if found is None else f"of shape {list(found.shape)}"
            raise CorruptModel(f"{self._name}: weights {name} are {got}, want {list(shape)}; export it again")
        return found.astype(np.float64)

    def folded(self, convolution: str, norm: str, *shape: int) -> tuple[np.ndarray, np.ndarray]:
        """Return kernels [N, K, h, w] and bias [N] of a convolution followed by its norm."""
        outputs = shape[0]
        weight, shift, mean, variance = (
            self.get(f"{norm}.{part}", outputs) for part in ("weight", "bias", "running_mean", "running_var")
        )
        scale = weight / np.sqrt(variance + _EPSILON)
        bias = self.get(f"{convolution}.bias", outputs) if f"{convolution}.bias" in self else np.zeros(outputs)
        return self.get(f"{convolution}.weight", *shape) * scale[:, None, None, None], (bias - mean) * scale + shift


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """Return the stored tensors of a version by name.

    Raises `Unsupported` without the file, `CorruptModel`, and `Unavailable` when the disk fails.
    """
    try:
        return load_file(path)
    except FileNotFoundError as error:
        raise Unsupported(f"not supported: a version without {path.name}") from error
    except OSError as error:
        raise Unavailable(f"{path} cannot be read now: {error}") from error
    except (SafetensorError, KeyError) as error:
        raise CorruptModel(f"{path} cannot be read: {error}; export the version again") from error


def folded_tower(manifest: Manifest, tensors: Mapping[str, np.ndarray], spec: GameSpec) -> FoldedTower:
    """Return the tower of a stored version.

    Raises `Unsupported`, and `CorruptModel` for weights that do not fit the manifest.
    """
    weights = _Weights(tensors, f"model {manifest.model} version {manifest.version}")
    _require_supported(manifest, weights, spec)
    return FoldedTower(tuple(_convolutions(weights, manifest, spec)), tuple(_heads(weights, manifest)))


def _require_supported(manifest: Manifest, weights: _Weights, spec: GameSpec) -> None:
    """Raise `Unsupported` unless the network is a tower with nothing else."""
    settings = manifest.network
    reading = spec.reading
    unknown = [name for name in _SIZES if not isinstance(settings.get(name), int)]
    obstacles = {
        f"network.kind={settings.get('kind', 'residual')}": settings.get("kind", "residual") != "residual",
        "network.global_pooling": bool(settings.get("global_pooling")),
        "network.squeeze": bool(settings.get("squeeze")),
        "dense layers between trunk and heads": bool(settings.get("dense")),
        f"network.policy_activation={settings.get('policy_activation')}": settings.get("policy_activation", "softmax")
        != "softmax",
        "weights with the names of an earlier release": "stem.weight" in weights,
        f"a network without {', '.join(unknown)} in its manifest": bool(unknown),
        "weights without a tower (trunk.stem)": "trunk.stem.weight" not in weights,
        "numbers of a position with an offset": reading is not None and any(reading.offsets),
        "policy head of moves": "policy.origin.weight" in weights,
        "a network without policy or value": settings.get("policy_head") == "none" or settings.get("value_output") == "none",
        f"a board of {math.prod(manifest.planes[1:])} cells": math.prod(manifest.planes[1:]) > _MOST_CELLS,
    }
    for part, present in obstacles.items():
        if present:
            raise Unsupported(f"not supported: {part}")


def _convolutions(weights: _Weights, manifest: Manifest, spec: GameSpec) -> list[tuple[np.ndarray, np.ndarray]]:
    channels, blocks = (int(str(manifest.network[name])) for name in ("channels", "blocks"))
    reading = _reading(spec, manifest.planes[0])
    stem, bias = weights.folded("trunk.stem", "trunk.stem_norm", channels, len(reading), 3, 3)
    layers = [(np.einsum("okij,kc->ocij", stem, reading), bias)]
    for i in range(blocks):
        layers += [
            weights.folded(f"trunk.blocks.{i}.conv{j}", f"trunk.blocks.{i}.norm{j}", channels, channels, 3, 3) for j in (1, 2)
        ]
        give_way()
    if manifest.network.get("hex_kernels", True) and spec.lattice == "hexagonal":
        for kernels, _ in layers:  # the two far corners; see trainer.tower.HexConv2d
            kernels[:, :, 0, 0] = kernels[:, :, 2, 2] = 0.0
    return layers


def _reading(spec: GameSpec, planes: int) -> np.ndarray:
    """Return the numbers that the stem reads as weighted sums of planes, [numbers, planes].

    The planes behind a number of the whole position are all ones or all zeros, so that each cell has their first bit.
    """
    if spec.reading is None:
        return np.eye(planes)
    return np.array([*spec.reading.cells, *spec.reading.position], np.float64)


def _heads(weights: _Weights, manifest: Manifest) -> list[FoldedHead]:
    trained = manifest.network.get("heads", ())
    trained = trained if isinstance(trained, tuple | list) else ()
    names = [("policy", manifest.num_actions), ("value", _value_width(manifest))]
    for index, name in enumerate(trained):
        if name not in AUXILIARY_HEADS:
            inner = f"extra.{index}.inner" if name == "plies_left" else f"extra.{index}"
            names.append((inner, 1 if name == "plies_left" else manifest.num_actions))
    if len(names) != len(manifest.heads):
        raise CorruptModel(
            f"model {manifest.model} version {manifest.version} has {len(manifest.heads) - 2} extra heads in its manifest,"
            f" {len(names) - 2} in its network; export it again"
        )
    return [_head(weights, manifest, name, answers) for name, answers in names]


def _value_width(manifest: Manifest) -> int:
    kind = str(manifest.network.get("value_output", "players"))
    return {"mover": 1, "win_probability": 1, "win_or_loss": 2}.get(kind, manifest.num_players)


def _head(weights: _Weights, manifest: Manifest, name: str, answers: int) -> FoldedHead:
    settings, cells = manifest.network, math.prod(manifest.planes[1:])
    of_value = name == "value" or name.endswith(".inner")
    channels = int(str(settings["value_channels" if of_value else "policy_channels"]))
    features = int(str(settings["channels"]))
    kernels, bias = weights.folded(f"{name}.conv", f"{name}.norm", channels, features, 1, 1)
    inputs, hidden = channels * cells, None
    if name == "value":
        width = int(str(settings["value_hidden"]))
        hidden = weights.get("value.hidden.0.weight", width, inputs), weights.get("value.hidden.0.bias", width)
        inputs = width
    out = weights.get(f"{name}.out.weight", answers, inputs), weights.get(f"{name}.out.bias", answers)
    return FoldedHead(kernels[:, :, 0, 0], bias, hidden, out)
