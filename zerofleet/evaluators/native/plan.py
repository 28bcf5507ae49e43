"""Plan: a stored network as the kernel evaluates it: norms folded into the weights in float64, layers padded and packed.

A network that the kernel cannot evaluate raises `Unsupported` with the reason; TorchScript evaluates every network.

Axes: C planes, H x W cells, K x N inputs and outputs of a layer.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from games.core import GameSpec
from zerofleet.contracts.heads import AUXILIARY_HEADS
from zerofleet.contracts.manifests import Manifest
from zerofleet.contracts.pacing import give_way
from zerofleet.errors import CorruptModel, InvalidRequest
from zerofleet.evaluators.native import library
from zerofleet.evaluators.native.library import Instructions
from zerofleet.evaluators.native.split import split
from zerofleet.evaluators.native.tiles import Tiling, tiling, transformed

__all__ = ["Plan", "Unsupported", "plan_of"]

_EPSILON = 1e-5  # of torch's norms
_MOST_CELLS = 1024
# Positions processed together: multiples of the rows of a register tile, so that few tiles are cut, in memory of about the
# second-level cache. At least 6, so that the weights of a large network are read once for 6 positions.
_BLOCKS = (48, 24, 12, 6)
_TILED_BLOCKS = (32, 16)
_CACHE_BYTES = 512 << 10
_ALIGNED_FLOATS = 16
_TILE_ROWS = 16  # read and written behind the last row by products in tiles
_SIZES = ("blocks", "channels", "policy_channels", "value_channels", "value_hidden")


_Item = TypeVar("_Item", bound=ctypes.Structure)


class Unsupported(InvalidRequest):
    """The kernel cannot evaluate this network; the text names the part."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Network for the kernel. `arrays` keeps alive what `layout` points to."""

    layout: library.Layout
    answers: tuple[int, ...]
    """Width of each head's output: policy logits, value, extra heads."""
    arrays: list[object] = field(default_factory=list)


class _Packer:
    """Packs layers for one instruction set, and keeps their arrays."""

    def __init__(self, instructions: Instructions) -> None:
        self.lanes = instructions.lanes
        self.group = instructions.group
        self.arrays: list[object] = []

    def padded(self, width: int) -> int:
        """Return the width in whole vectors."""
        return -(-width // self.lanes) * self.lanes

    def grouped(self, width: int) -> int:
        """Return the number of channels of a convolution: in whole groups."""
        group = self.group or self.lanes
        return -(-width // group) * group

    def convolution(self, points: np.ndarray, bias: np.ndarray) -> library.Dense:
        """Pack a convolution followed by relu: weights of every point, [36, K, N], and bias [N]."""
        number, inputs, outputs = points.shape
        padded = np.zeros((number, self.grouped(inputs), self.grouped(outputs)))
        padded[:, :inputs, :outputs] = points
        shift = np.zeros(padded.shape[2])
        shift[:outputs] = bias
        if not self.group:
            return self.dense(padded, shift, relu=True)
        weights, kept = self._keep(split(padded).view(np.float32)), self._keep(shift.astype(np.float32))
        return library.Dense(*padded.shape[1:], 1, 0, weights, kept)

    def dense(self, weights: np.ndarray, bias: np.ndarray, *, relu: bool) -> library.Dense:
        """Pack a linear layer, or one for each of several points: weights [..., K, N], bias [N], K already padded."""
        *points, inputs, outputs = weights.shape
        width = self.padded(outputs)
        full = np.zeros((math.prod(points), inputs, width), np.float32)
        full[:, :, :outputs] = weights.reshape(-1, inputs, outputs)
        panel = 2 * self.lanes
        packed = [np.concatenate([matrix[:, at : at + panel].ravel() for at in range(0, width, panel)]) for matrix in full]
        shift = np.zeros(width, np.float32)
        shift[:outputs] = bias
        return library.Dense(inputs, width, int(relu), 0, self._keep(np.concatenate(packed)), self._keep(shift))

    def _keep(self, values: np.ndarray) -> int:
        """Return the address of an aligned copy."""
        room = np.empty(len(values) + _ALIGNED_FLOATS, np.float32)
        start = -(room.ctypes.data // 4) % _ALIGNED_FLOATS
        held = room[start : start + len(values)]
        held[:] = values
        self.arrays.append(held)
        return int(held.ctypes.data)


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


def plan_of(
    manifest: Manifest, tensors: Mapping[str, np.ndarray], spec: GameSpec, instructions: Instructions, *, block: int = 0
) -> Plan:
    """Return the plan of a stored version.

    `block`: positions processed together; 0 derives it from the sizes. Raises `Unsupported`, and `CorruptModel` for weights
    that do not fit the manifest.
    """
    settings = manifest.network
    weights = _Weights(tensors, f"model {manifest.model} version {manifest.version}")
    _require_supported(manifest, weights, spec)
    planes, height, width = manifest.planes
    cells, channels, blocks = height * width, int(str(settings["channels"])), int(str(settings["blocks"]))
    packer = _Packer(instructions)
    tiles = tiling(height, width)
    layers = _tower(packer, weights, spec, hexagonal=_hexagonal(manifest, spec), sizes=(planes, channels, blocks))
    heads, answers = _heads(packer, weights, manifest, (channels, cells))
    layout = _layout(tiles, layers, heads, cells, block or _block(tiles, layers, cells, instructions))
    layout.planes, layout.packed_bytes = planes, -(-planes * cells // 8)
    layout.max_legal = manifest.max_legal
    arrays = [*packer.arrays, tiles]
    for name, items in (
        ("tile", library.tile_array(tiles)),
        ("layer", _array(library.Dense, layers)),
        ("head", _array(library.Head, heads)),
    ):
        arrays.append(items)
        setattr(layout, name, items)
    return Plan(layout, answers, arrays)


def _require_supported(manifest: Manifest, weights: _Weights, spec: GameSpec) -> None:
    """Raise `Unsupported` unless the kernel has every part of the network."""
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


def _hexagonal(manifest: Manifest, spec: GameSpec) -> bool:
    return bool(manifest.network.get("hex_kernels", True)) and spec.lattice == "hexagonal"


def _tower(
    packer: _Packer, weights: _Weights, spec: GameSpec, *, hexagonal: bool, sizes: tuple[int, int, int]
) -> list[library.Dense]:
    """Return stem and blocks as convolutions; `sizes`: planes, channels, blocks."""
    planes, channels, blocks = sizes
    reading = _reading(spec, planes)
    stem, bias = weights.folded("trunk.stem", "trunk.stem_norm", channels, len(reading), 3, 3)
    layers = [(np.einsum("okij,kc->ocij", stem, reading), bias)]
    for i in range(blocks):
        layers += [
            weights.folded(f"trunk.blocks.{i}.conv{j}", f"trunk.blocks.{i}.norm{j}", channels, channels, 3, 3) for j in (1, 2)
        ]
        give_way()
    packed = []
    for kernels, shift in layers:
        if hexagonal:  # the two far corners; see trainer.tower.HexConv2d
            kernels[:, :, 0, 0] = kernels[:, :, 2, 2] = 0.0
        give_way()
        packed.append(packer.convolution(transformed(kernels), shift))
    return packed


def _reading(spec: GameSpec, planes: int) -> np.ndarray:
    """Return the numbers that the stem reads as weighted sums of planes, [numbers, planes].

    The planes behind a number of the whole position are all ones or all zeros, so that each cell has their first bit.
    """
    if spec.reading is None:
        return np.eye(planes)
    return np.array([*spec.reading.cells, *spec.reading.position], np.float64)


def _heads(
    packer: _Packer, weights: _Weights, manifest: Manifest, sizes: tuple[int, int]
) -> tuple[list[library.Head], tuple[int, ...]]:
    """Return the heads and the widths of their outputs; `sizes`: channels and cells."""
    settings = manifest.network
    trained = settings.get("heads", ())
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
    built = [_head(packer, weights, name, sizes, _widths(settings, name, answers)) for name, answers in names]
    built[0].listed = 1
    return built, tuple(answers for _, answers in names)


def _value_width(manifest: Manifest) -> int:
    kind = str(manifest.network.get("value_output", "players"))
    return {"mover": 1, "win_probability": 1, "win_or_loss": 2}.get(kind, manifest.num_players)


def _widths(settings: Mapping[str, object], name: str, answers: int) -> tuple[int, int, int]:
    """Return channels, width of the hidden layer and number of outputs of a head."""
    of_value = name == "value" or name.endswith(".inner")
    channels = int(str(settings["value_channels" if of_value else "policy_channels"]))
    return channels, int(str(settings["value_hidden"])) if name == "value" else 0, answers


def _head(packer: _Packer, weights: _Weights, name: str, sizes: tuple[int, int], widths: tuple[int, int, int]) -> library.Head:
    features, cells = sizes
    channels, hidden, answers = widths
    give_way()
    kernels, bias = weights.folded(f"{name}.conv", f"{name}.norm", channels, features, 1, 1)
    read = np.zeros((packer.grouped(features), channels))
    read[:features] = kernels[:, :, 0, 0].T
    head = library.Head(plane=packer.dense(read, bias, relu=True), answers=answers)
    flat = channels * cells
    first = f"{name}.hidden.0" if hidden else f"{name}.out"
    matrix = weights.get(f"{first}.weight", hidden or answers, flat)
    by_cell = np.zeros((cells, packer.padded(channels), hidden or answers))
    by_cell[:, :channels] = matrix.reshape(-1, channels, cells).transpose(2, 1, 0)
    rows = by_cell.reshape(-1, hidden or answers)
    shift = weights.get(f"{first}.bias", hidden or answers)
    if not hidden:
        head.out = packer.dense(rows, shift, relu=False)
        return head
    head.hidden = packer.dense(rows, shift, relu=True)
    last = np.zeros((packer.padded(hidden), answers))
    last[:hidden] = weights.get(f"{name}.out.weight", answers, hidden).T
    head.out = packer.dense(last, weights.get(f"{name}.out.bias", answers), relu=False)
    return head


def _layout(tiles: Tiling, layers: list[library.Dense], heads: list[library.Head], cells: int, block: int) -> library.Layout:
    """Return the description with its scratch memory laid out; see `zf_block` in tower.c for what shares a buffer."""
    layout = library.Layout(cells=cells, tiles=len(tiles.tiles), layers=len(layers), heads=len(heads), block=block)
    layout.count[:] = tiles.count
    layout.first[:] = tiles.first
    stored = (cells + 1) * block
    channels = layers[0].outputs
    widest, skew = max(channels, layers[0].inputs), library.POINTS * library.SKEW
    sizes = {
        "at_features": stored * channels,
        "at_between": max(stored * channels, block * max(head.hidden.outputs for head in heads)),
        "at_planes": max(stored * layers[0].inputs, block * max(head.answers for head in heads)),
        "at_entered": max(
            (tiles.products * block + _TILE_ROWS) * widest + skew, stored * max(head.plane.outputs for head in heads)
        ),
        "at_products": max(
            (tiles.products * block + _TILE_ROWS) * channels + skew, block * max(head.out.outputs for head in heads)
        ),
    }
    total = 0
    for name, size in sizes.items():
        setattr(layout, name, total)
        total += -(-size // _ALIGNED_FLOATS) * _ALIGNED_FLOATS
    layout.scratch_floats = total
    return layout


def _block(tiles: Tiling, layers: list[library.Dense], cells: int, instructions: Instructions) -> int:
    """Return the number of positions processed together: features twice, and the tiles before and after their products."""
    bytes_each = 4 * layers[0].outputs * 2 * (cells + 1 + tiles.products)
    blocks = _TILED_BLOCKS if instructions.group else _BLOCKS
    return next((block for block in blocks if block * bytes_each <= _CACHE_BYTES), blocks[-1])


def _array(kind: type[_Item], items: Iterable[_Item]) -> ctypes.Array[_Item]:
    held = list(items)
    return (kind * len(held))(*held)
