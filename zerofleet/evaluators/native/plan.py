"""Plan: a stored network as the kernel evaluates it: the layers of its folded tower, padded and packed.

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
from zerofleet.contracts.manifests import Manifest
from zerofleet.contracts.pacing import give_way
from zerofleet.evaluators.native import library
from zerofleet.evaluators.native.folded import FoldedHead, folded_tower
from zerofleet.evaluators.native.library import Instructions
from zerofleet.evaluators.native.split import split
from zerofleet.evaluators.native.tiles import Tiling, tiling, transformed

__all__ = ["Plan", "plan_of"]

# Positions processed together: multiples of the rows of a register tile, so that few tiles are cut, in memory of about the
# second-level cache. At least 6, so that the weights of a large network are read once for 6 positions.
_BLOCKS = (48, 24, 12, 6)
_TILED_BLOCKS = (32, 16)
_CACHE_BYTES = 512 << 10
_ALIGNED_FLOATS = 16
_TILE_ROWS = 16  # read and written behind the last row by products in tiles

_Item = TypeVar("_Item", bound=ctypes.Structure)


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
        self.is_split = instructions.is_split
        self.arrays: list[object] = []

    def padded(self, width: int) -> int:
        """Return the width in whole vectors."""
        return -(-width // self.lanes) * self.lanes

    def convolution(self, points: np.ndarray, bias: np.ndarray) -> library.Dense:
        """Pack a convolution followed by relu: weights of every point, [36, K, N], and bias [N]."""
        number, inputs, outputs = points.shape
        padded = np.zeros((number, self.padded(inputs), self.padded(outputs)))
        padded[:, :inputs, :outputs] = points
        shift = np.zeros(padded.shape[2])
        shift[:outputs] = bias
        if not self.is_split:
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


def plan_of(
    manifest: Manifest, tensors: Mapping[str, np.ndarray], spec: GameSpec, instructions: Instructions, *, block: int = 0
) -> Plan:
    """Return the plan of a stored version.

    `block`: positions processed together; 0 derives it from the sizes. Raises `Unsupported`, and `CorruptModel` for weights
    that do not fit the manifest.
    """
    tower = folded_tower(manifest, tensors, spec)
    planes, height, width = manifest.planes
    cells = height * width
    packer = _Packer(instructions)
    tiles = tiling(height, width)
    layers = []
    for kernels, bias in tower.convolutions:
        give_way()
        layers.append(packer.convolution(transformed(kernels), bias))
    give_way()
    heads = [_head(packer, head, cells) for head in tower.heads]
    heads[0].listed = 1
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
    return Plan(layout, tuple(head.answers for head in tower.heads), arrays)


def _head(packer: _Packer, folded: FoldedHead, cells: int) -> library.Head:
    channels, features = folded.kernels.shape
    read = np.zeros((packer.padded(features), channels))
    read[:features] = folded.kernels.T
    head = library.Head(plane=packer.dense(read, folded.bias, relu=True), answers=folded.answers)
    matrix, shift = folded.hidden or folded.out
    by_cell = np.zeros((cells, packer.padded(channels), len(matrix)))
    by_cell[:, :channels] = matrix.reshape(-1, channels, cells).transpose(2, 1, 0)
    rows = by_cell.reshape(-1, len(matrix))
    if folded.hidden is None:
        head.out = packer.dense(rows, shift, relu=False)
        return head
    head.hidden = packer.dense(rows, shift, relu=True)
    weights, last_shift = folded.out
    last = np.zeros((packer.padded(len(matrix)), folded.answers))
    last[: len(matrix)] = weights.T
    head.out = packer.dense(last, last_shift, relu=False)
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
    blocks = _TILED_BLOCKS if instructions.is_split else _BLOCKS
    return next((block for block in blocks if block * bytes_each <= _CACHE_BYTES), blocks[-1])


def _array(kind: type[_Item], items: Iterable[_Item]) -> ctypes.Array[_Item]:
    held = list(items)
    return (kind * len(held))(*held)
