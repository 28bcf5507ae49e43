"""Training's 3x3 convolutions in the kernel, each alone or with the norm and relu behind it: addresses of arrays in and out.

The arrays are the caller's, as this package does not import torch. `Kernel` is made for a board; its calls release the GIL.

Axes: B positions, H x W cells, C channels of the input, F channels of the output.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Self

from zerofleet.errors import Unavailable
from zerofleet.evaluators.native import library
from zerofleet.evaluators.native.library import Board, Instructions, Unit
from zerofleet.evaluators.native.tiles import tiling

__all__ = ["MOST_THREADS", "Kernel", "Unit", "unsupported"]

MOST_THREADS = 64
"""Threads of a pass, as in training_calls.c; further ones are left idle."""

_CACHE_BYTES = 1 << 19  # of the points of a block before and after their products
_MOST_TILES = 64  # ZF_MOST_TILES in training.h
_BLOCK = 6  # positions: whole register tiles
_MOST_BLOCKS = 8


@dataclass(frozen=True, slots=True)
class Kernel:
    """Forward and backward pass of units on boards of one size."""

    height: int
    width: int
    instructions: Instructions
    _board: Board
    _points: int
    _library: ctypes.CDLL = field(repr=False)

    @classmethod
    def of(cls, height: int, width: int, instructions: str = "") -> Self:
        """Return the kernel for a board. `instructions`: name of an instruction set, the best one by default.

        Raises `ValueError` where `unsupported` states a reason.
        """
        if reason := unsupported(height, width, instructions):
            raise ValueError(reason)
        found = library.find()
        assert found.library is not None  # noqa: S101 - `unsupported` has checked it
        chosen = next(known for known in _trained(found.instructions) if instructions in ("", known.name))
        tiles = tiling(height, width)
        board = Board(cells=height * width, tiles=len(tiles.tiles))
        board.count[:] = tiles.count
        board.first[:] = tiles.first
        board.tile = library.tile_array(tiles)
        slots = [slot for tile in tiles.tiles for slot in tiles.slots(tile)]
        board.slots = (ctypes.c_int * len(slots))(*slots)
        return cls(height, width, chosen, board, tiles.products, found.library)

    @property
    def name(self) -> str:
        """Name of the instruction set, as in the backend of a served version: `native_avx2`."""
        return f"native_{self.instructions.name}"

    def unit(self, batch: int, inputs: int, outputs: int) -> Unit:
        """Return the description of a unit without its arrays, which the caller sets.

        Channels are multiples of `instructions.lanes`. Raises `ValueError` for others, and for an empty batch.
        """
        lanes = self.instructions.lanes
        if batch < 1 or inputs < 1 or outputs < 1 or inputs % lanes or outputs % lanes:
            raise ValueError(f"got batch {batch}, {inputs} and {outputs} channels, want positive multiples of {lanes} channels")
        fitting = _CACHE_BYTES // (4 * self._points * (inputs + outputs))
        unit = Unit(batch=batch, inputs=inputs, outputs=outputs, block=max(1, min(_MOST_BLOCKS, fitting // _BLOCK)) * _BLOCK)
        unit.board = ctypes.pointer(self._board)
        return unit

    def forward(self, unit: Unit, threads: int) -> None:
        """Compute `y`, and with a norm `mean`, `variance` and `out`. Raises `Unavailable` when memory is exhausted."""
        self._require(self._library.zf_forward(unit, self.instructions.number, threads))

    def backward(self, unit: Unit, threads: int) -> None:
        """Compute every gradient whose address is set. Raises `Unavailable` when memory is exhausted.

        With a norm the addresses of `of_gain` and `of_shift` must be set.
        """
        self._require(self._library.zf_backward(unit, self.instructions.number, threads))

    @staticmethod
    def _require(failed: int) -> None:
        if failed:
            raise Unavailable("memory for a convolution of a training step is exhausted; free memory or lower train.batch_size")


@cache
def unsupported(height: int, width: int, instructions: str = "") -> str:
    """Return the reason why the kernel cannot train on such boards here; empty if it can."""
    found = library.find()
    if found.library is None:
        return found.reason
    if not any(instructions in ("", known.name) for known in _trained(found.instructions)):
        return f"the kernel does not train with the instruction set {instructions or 'of this processor'}"
    if len(tiling(height, width).tiles) > _MOST_TILES:
        return f"a board of {height * width} cells is too large for the kernel"
    return ""


def _trained(found: Iterable[Instructions]) -> list[Instructions]:
    """Return the instruction sets that have code for training."""
    return [known for known in found if not known.is_split]
