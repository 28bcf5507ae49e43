"""Evaluations of Abalone positions: weighted sums of features, with the weights of `weights.json`.

    simple          neighbours, distance from the centre, marbles
    strong          coherence, distance from the centre, broken formations, marbles, three types of danger
    centre_of_mass  distance from a reference point between both players and the centre, marbles

Values are integers: weights are multiplied by the `scale` of the evaluation, so that a weight of 1.5 is integral. They are for
the player with the marbles `mine`, and the negative for the opponent.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np

from games.compiled import lean
from zerofleet.agents.by_game.abalone.features import FEATURES, REFERENCE_UNIT, feature

__all__ = ["EVALUATIONS", "MARBLE_FEATURE", "Evaluation", "EvaluationName", "evaluate", "evaluation"]

EvaluationName: TypeAlias = Literal["simple", "strong", "centre_of_mass"]
EVALUATIONS: tuple[EvaluationName, ...] = get_args(EvaluationName)
MARBLE_FEATURE = FEATURES.index("marbles")
_UNITS = {"reference_distance": REFERENCE_UNIT}
"""Features in fractional units: number of parts per unit."""
_WEIGHTS = Path(__file__).with_name("weights.json")
_KINDS = len(FEATURES)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Named set of weights."""

    name: EvaluationName
    scale: int
    """Factor that makes all weights integral."""
    weights: np.ndarray  # int64 [F], by FEATURES, times the scale

    @property
    def marble(self) -> int:
        """Weight of a marble."""
        return int(self.weights[MARBLE_FEATURE])


@functools.cache
def evaluation(name: EvaluationName) -> Evaluation:
    """Return the evaluation with this name."""
    entry = json.loads(_WEIGHTS.read_text(encoding="utf-8"))[name]
    scale: int = entry["scale"]
    weights = np.zeros(_KINDS, dtype=np.int64)
    for kind, weight in entry["weights"].items():
        scaled = weight * scale / _UNITS.get(kind, 1)
        if scaled != int(scaled):
            raise ValueError(f"{_WEIGHTS.name}: {kind} of {name} is {weight}; want an integral multiple at scale {scale}")
        weights[FEATURES.index(kind)] = int(scaled)
    weights.setflags(write=False)
    return Evaluation(name, scale, weights)


@lean
def evaluate(weights: np.ndarray, mine: np.uint64, other: np.uint64) -> int:
    """Return the evaluation for the player with the marbles `mine`.

    Args:
        weights: int64 [F], by FEATURES; features of weight 0 are not computed.
        mine: Marbles of that player.
        other: Marbles of the opponent.
    """
    worth = 0
    for number in range(_KINDS):
        weight = weights[number]
        if weight != 0:
            worth += weight * feature(number, mine, other)
    return worth
