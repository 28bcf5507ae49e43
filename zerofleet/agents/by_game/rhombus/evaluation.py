"""Integer evaluations at the horizon: cell values, or five features of each side.

Both evaluations are data files next to this module. `cells.json` holds a value for each cell; a position scores the values of
the player's own pieces minus those of the opponent's, seen from their side, so a move changes it by two table entries.
`linear.json` holds the weights of five features, which are recomputed in every position.
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
"""Score of a win at the root. Each ply before the win costs one point, so that quicker wins score higher."""

FEATURES = ("distance", "advance", "sideways", "spread", "reach")
"""Features of a side, in the order of their weights (`features.count_features`)."""

_LONGEST = 1_000  # plies, above any search depth
_SUREST = 0.99  # bound of a heuristic score


@dataclass(frozen=True, slots=True)
class CellValues:
    """Values of the cells."""

    worth: np.ndarray  # int64 [2, 81]: by player and cell, numbered from player 0's view
    level: int
    """Approximate value of a level, in points."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the five features."""

    values: np.ndarray  # int64 [5], for the opponent's feature minus the player's own
    level: int
    """Value of a level, in points: the weight of the distance."""


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
    return Weights(values, int(100 * values[0]))  # features are in hundredths


def is_decided(score: int) -> bool:
    """Return whether a score is that of a proven win or loss."""
    return abs(score) > WIN - _LONGEST


def expected_score(score: int, level: int) -> float:
    """Convert a search score to a game score in [-1, 1]: the lead as a fraction of all levels to climb."""
    if is_decided(score):
        return 1.0 if score > 0 else -1.0
    return max(-_SUREST, min(_SUREST, score / (level * LEVELS_TO_GO)))


def _read(name: str) -> dict[str, Any]:
    """Return the content of a data file next to this module."""
    content: dict[str, Any] = json.loads(files(__package__).joinpath(name).read_text())
    return content
