"""Shared library of the kernel: its instruction sets and its calls, through ctypes, which releases the GIL.

The library is built with the package where there is a C compiler (`build`). Without it nothing else fails: `find` states the
reason, which `zerofleet doctor` and the inference server's log show.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from zerofleet.evaluators.native.build import LIBRARY, fingerprint
from zerofleet.evaluators.native.tiles import Tiling

__all__ = [
    "BUILD_COMMAND",
    "Board",
    "Dense",
    "Found",
    "Head",
    "Instructions",
    "Layout",
    "Tile",
    "Unit",
    "find",
    "tile_array",
]

POINTS = 36
PLACES = 48  # ZF_PLACES in tower.h
SKEW = 80  # ZF_SKEW in tower.h
BUILD_COMMAND = "python -m zerofleet.evaluators.native"


class Dense(ctypes.Structure):
    """Linear layer or convolution: `struct zf_dense` in tower.h."""

    _fields_ = (
        ("inputs", ctypes.c_int),
        ("outputs", ctypes.c_int),
        ("relu", ctypes.c_int),
        ("unused", ctypes.c_int),
        ("weights", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
    )


class Head(ctypes.Structure):
    """Head of a network: `struct zf_head` in tower.h."""

    _fields_ = (
        ("plane", Dense),
        ("hidden", Dense),
        ("out", Dense),
        ("answers", ctypes.c_int),
        ("listed", ctypes.c_int),
    )


class Tile(ctypes.Structure):
    """Tile of a board: `struct zf_tile` in tower.h."""

    _fields_ = (
        ("rows", ctypes.c_int),
        ("columns", ctypes.c_int),
        ("inputs", ctypes.c_int * 36),
        ("outputs", ctypes.c_int * 16),
        ("count", ctypes.c_int * PLACES),
        ("first", ctypes.c_int * PLACES),
        ("rank", ctypes.c_int * PLACES),
        ("skew", ctypes.c_int * PLACES),
    )


class Layout(ctypes.Structure):
    """Description of a network: `struct zf_network` in tower.h."""

    _fields_ = (
        ("cells", ctypes.c_int),
        ("planes", ctypes.c_int),
        ("packed_bytes", ctypes.c_int),
        ("max_legal", ctypes.c_int),
        ("tiles", ctypes.c_int),
        ("layers", ctypes.c_int),
        ("heads", ctypes.c_int),
        ("block", ctypes.c_int),
        ("count", ctypes.c_int * POINTS),
        ("first", ctypes.c_int * POINTS),
        ("at_features", ctypes.c_long),
        ("at_between", ctypes.c_long),
        ("at_planes", ctypes.c_long),
        ("at_entered", ctypes.c_long),
        ("at_products", ctypes.c_long),
        ("scratch_floats", ctypes.c_long),
        ("tile", ctypes.POINTER(Tile)),
        ("layer", ctypes.POINTER(Dense)),
        ("head", ctypes.POINTER(Head)),
    )


class Board(ctypes.Structure):
    """Tiles of a board: `struct zf_board` in training.h."""

    _fields_ = (
        ("cells", ctypes.c_int),
        ("tiles", ctypes.c_int),
        ("count", ctypes.c_int * POINTS),
        ("first", ctypes.c_int * POINTS),
        ("tile", ctypes.POINTER(Tile)),
        ("slots", ctypes.POINTER(ctypes.c_int)),
    )


class Unit(ctypes.Structure):
    """Convolution with its norm in training: `struct zf_unit` in training.h, where the arrays are described."""

    _fields_ = (
        ("board", ctypes.POINTER(Board)),
        ("batch", ctypes.c_long),
        ("inputs", ctypes.c_int),
        ("outputs", ctypes.c_int),
        ("block", ctypes.c_int),
        ("add", ctypes.c_int),
        ("eps", ctypes.c_double),
        *(
            (name, ctypes.c_void_p)
            for name in (
                "x", "weights", "turned", "y", "gain", "shift", "mean", "variance", "residual", "out", "gradient", "of_x",
                "of_weights", "of_gain", "of_shift", "of_residual",
            )
        ),
    )  # fmt: skip


def tile_array(tiling: Tiling) -> ctypes.Array[Tile]:
    """Return the tiles of a board as the library reads them."""
    made = []
    first = tiling.first
    for tile in tiling.tiles:
        made.append(Tile(tile.rows, tile.columns))
        made[-1].inputs[:], made[-1].outputs[:] = tile.inputs, tile.outputs
        for i, point in enumerate(tile.points):
            made[-1].count[i], made[-1].first[i] = tiling.count[point], first[point]
            made[-1].rank[i], made[-1].skew[i] = tile.rank[point], SKEW * point
    return (Tile * len(made))(*made)


@dataclass(frozen=True, slots=True)
class Instructions:
    """Instruction set of this processor for which the library has code."""

    number: int
    name: str
    lanes: int
    """Numbers of a vector, to whose multiples all layers are padded."""
    is_split: bool = False
    """Whether convolutions are products of tiles of split bfloat16 (split.h), not in float32."""

    @property
    def precision(self) -> str:
        """Number format of the convolutions."""
        return "bfloat16x3" if self.is_split else "float32"


@dataclass(frozen=True, slots=True)
class Found:
    """Loaded library, or the reason for its absence."""

    library: ctypes.CDLL | None
    instructions: tuple[Instructions, ...] = ()
    """Those of this processor, the fastest first."""
    reason: str = ""
    """Reason for its absence; empty when it is loaded."""


@cache
def find(path: Path | None = None) -> Found:
    """Load the library, by default that beside this module, once a process; never raises."""
    path = path or Path(__file__).with_name(LIBRARY)
    if not path.is_file():
        return Found(None, reason=f"{path.name} is not built; with a C compiler: {BUILD_COMMAND}")
    try:
        library = ctypes.CDLL(str(path))
        library.zf_instructions.restype = ctypes.c_char_p
        library.zf_sources.restype = ctypes.c_char_p
        library.zf_evaluate.argtypes = [
            ctypes.POINTER(Layout), ctypes.c_int, ctypes.c_int, ctypes.c_long, *[ctypes.c_void_p] * 3,
            ctypes.POINTER(ctypes.c_void_p),
        ]  # fmt: skip
        for call in (library.zf_forward, library.zf_backward):
            call.argtypes = [ctypes.POINTER(Unit), ctypes.c_int, ctypes.c_int]
        wanted = fingerprint()
    except (OSError, AttributeError) as error:
        return Found(None, reason=f"{path.name} cannot be loaded: {error}")
    if library.zf_sources().decode() != wanted:
        return Found(None, reason=f"{path.name} was built from other sources; build it again: {BUILD_COMMAND}")
    return Found(library, _instructions(library))


def _instructions(library: ctypes.CDLL) -> tuple[Instructions, ...]:
    found = []
    lanes, split = ctypes.c_int(), ctypes.c_int()
    number = 0
    while name := library.zf_instructions(number, ctypes.byref(lanes), ctypes.byref(split)):
        if lanes.value:
            found.append(Instructions(number, name.decode(), lanes.value, bool(split.value)))
        number += 1
    return tuple(found)
