"""What a position is worth at the horizon, in whole numbers: values of cells, or five features of each side.

Both evaluations are data beside this module. `cells.json` holds a value for each cell; a position is worth the values of
one's own pieces less those of the other's, seen from their own side, and a move changes that by two entries of the table.
`linear.json` holds the weights of five features, which are counted anew in every position.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from games.chinese_checkers.rhombus.board import CELLS, LEVELS_TO_GO, SIDE

__all__ = ["FEATURES", "WIN", "CellValues", "Weights", "cell_values", "expected_score", "is_decided", "linear_weights"]

WIN = 1_000_000
"""A win at the root. Each ply until the win costs one point, so the quicker of two wins is worth more."""

FEATURES = ("distance", "advance", "sideways", "spread", "reach")
"""The features of a side, in the order of their weights (`features.count`)."""

_LONGEST = 1_000  # plies; a search is never so deep
_SUREST = 0.99  # what an evaluation may claim at most


@dataclass(frozen=True, slots=True)
class CellValues:
    """Values of the cells."""

    worth: np.ndarray  # int64 [2, 81]: by player and cell as player 0 numbers them
    level: int
    """What a level is worth, about: turns a lead in levels into points."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the five features."""

    values: np.ndarray  # int64 [5], for the other side's feature less one's own
    level: int
    """What a level is worth: the weight of the distance, in points."""


@functools.cache
def cell_values() -> CellValues:
    """Return the table of `cells.json`."""
    read = _read("cells.json")
    values = np.array(read["values"], dtype=np.int64).reshape(SIDE * SIDE)
    return CellValues(np.stack([values, values[CELLS - 1 - np.arange(CELLS)]]), int(read["level"]))


@functools.cache
def linear_weights() -> Weights:
    """Return the weights of `linear.json`."""
    read = _read("linear.json")
    values = np.array([read[name] for name in FEATURES], dtype=np.int64)
    return Weights(values, int(100 * values[0]))  # features count in hundredths


def is_decided(score: int) -> bool:
    """Return whether a score is that of a won or lost game."""
    return abs(score) > WIN - _LONGEST


def expected_score(score: int, level: int) -> float:
    """Return a score of the search as a score of the game, in [-1, 1]: the lead as a share of all there is to climb."""
    if is_decided(score):
        return 1.0 if score > 0 else -1.0
    return max(-_SUREST, min(_SUREST, score / (level * LEVELS_TO_GO)))


def _read(name: str) -> dict[str, Any]:
    """Return a file of data that lies beside this module."""
    content: dict[str, Any] = json.loads(files(__package__).joinpath(name).read_text())
    return content
