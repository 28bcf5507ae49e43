"""Linear values of positions: weights of the five features for each phase of a game.

    u = sum over i of w_i (feature i of the other side - feature i of the player)        V = tanh(u)

V is in [-1, 1] and belongs to one player. The features are those of `features`, each divided by a typical size (`SCALES`), and
the weights are those of the phase:

    0  approach    no piece of a side can touch one of the other: the fronts are two levels apart or more
    1  contact     all other positions
    2  passed      every piece of a side is beyond every piece of the other

A position is read from its encoding (two planes, the viewer's pieces first), so that a stored model needs no rules.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from games.chinese_checkers.rhombus.board import CELLS, PIECES
from games.compiled import compiled, lean
from zerofleet.agents.by_game.rhombus.cells import LEVELS
from zerofleet.agents.by_game.rhombus.evaluation import FEATURES
from zerofleet.agents.by_game.rhombus.features import count_features
from zerofleet.agents.by_game.rhombus.work import wide
from zerofleet.contracts.manifests import NetworkDict
from zerofleet.evaluators.in_process.values import Values

__all__ = ["LINEAR", "PHASES", "SCALES", "Seen", "describe", "load_values", "new_seen"]

LINEAR = "rhombus_linear"
"""`kind` in the network of such a version's manifest."""
PHASES = 3
SCALES = np.array([12_000.0, 1_600.0, 1_000.0, 2_000.0, 4_000.0])
"""float64 [5]: divisors of the features, which are in hundredths: 120 levels, a climb of 16, a mean square of 10, a variance of
20, and 40 cells."""

_WORDS = 5
_TOP = 99  # above every level
_WIDTH = len(FEATURES)
_ONE = np.uint64(1)


class Seen(NamedTuple):
    """A position as its features; F features of each side."""

    words: np.ndarray  # uint64 [5], as the first words of a state, with the viewer as player 0
    cells: np.ndarray  # int64 [2, 10]
    features: np.ndarray  # float64 [F], the viewer's less the other's
    phase: np.ndarray  # int64 [1]


def new_seen() -> Seen:
    """Return an empty description."""
    cells = np.zeros((2, PIECES), np.int64)
    return Seen(np.zeros(_WORDS, np.uint64), cells, np.zeros(_WIDTH), np.zeros(1, np.int64))


@lean
def describe(packed: np.ndarray, seen: Seen) -> None:
    """Read an encoded position (uint8 [packed_bytes], ten pieces a side) into features and phase.

    The difference is that of the player who is not the viewer: who has just moved, if the viewer is to move.
    """
    _unpack(packed, seen)
    mine = count_features(seen.cells, seen.words, wide(0))
    other = count_features(seen.cells, seen.words, wide(1))
    for i in range(seen.features.shape[0]):
        seen.features[i] = (mine[i] - other[i]) / SCALES[i]
    seen.phase[0] = _phase(seen.cells)


@lean
def _unpack(packed: np.ndarray, seen: Seen) -> None:
    for i in range(seen.words.shape[0]):
        seen.words[i] = np.uint64(0)
    for side in range(2):
        slot = 0
        for cell in range(CELLS):
            bit = side * CELLS + cell
            if (packed[bit >> 3] >> (bit & 7)) & 1:
                seen.words[1 + 2 * side + (cell & 1)] |= _ONE << np.uint64(cell >> 1)
                seen.cells[side, slot] = cell
                slot += 1


@lean
def _phase(cells: np.ndarray) -> int:
    front, rear, other_front, other_rear = 0, _TOP, _TOP, 0
    for slot in range(cells.shape[1]):
        mine, theirs = LEVELS[cells[0, slot]], LEVELS[cells[1, slot]]
        front, rear = max(front, mine), min(rear, mine)
        other_front, other_rear = min(other_front, theirs), max(other_rear, theirs)
    if front + 1 < other_front:
        return 0
    return 2 if rear > other_rear else 1


@compiled
def _values(weights: np.ndarray, packed: np.ndarray, seen: Seen, out: np.ndarray) -> None:
    """Write the values of encoded positions for their viewers into `out` (float32 [B]); `weights` is float64 [3, F]."""
    for b in range(packed.shape[0]):
        describe(packed[b], seen)
        total = 0.0
        for i in range(weights.shape[1]):
            total += weights[seen.phase[0], i] * seen.features[i]
        out[b] = -math.tanh(total)


def load_values(network: NetworkDict, tensors: Mapping[str, np.ndarray]) -> Values:
    """Return the values of a stored version of kind `LINEAR`, for the players to move; not thread-safe."""
    del network
    weights, seen = tensors["weights"].astype(np.float64), new_seen()

    def evaluate(states: np.ndarray) -> np.ndarray:
        out = np.empty(len(states), dtype=np.float32)
        _values(weights, states, seen, out)
        return out

    return evaluate
