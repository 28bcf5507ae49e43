"""What a position of Abalone is worth: a weighted sum of features, with the weights of `weights.json`.

    simple          neighbours, distance from the middle, marbles
    strong          coherence, distance from the middle, marbles between two of theirs, marbles, three kinds of danger
    centre_of_mass  distance from a reference point between both players and the middle, marbles

Values are integers: the weights times the `scale` of the evaluation, so that one and a half is whole. They are for the player
who has the marbles `mine`, and for the other player exactly the opposite.
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
"""Features that count in parts: how many make one."""
_WEIGHTS = Path(__file__).with_name("weights.json")
_KINDS = len(FEATURES)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One set of weights."""

    name: EvaluationName
    scale: int
    """What values are multiplied by to be whole."""
    weights: np.ndarray  # int64 [F], by FEATURES, times the scale

    @property
    def marble(self) -> int:
        """What a marble counts."""
        return int(self.weights[MARBLE_FEATURE])


@functools.cache
def evaluation(name: EvaluationName) -> Evaluation:
    """Return the evaluation of that name."""
    entry = json.loads(_WEIGHTS.read_text(encoding="utf-8"))[name]
    scale: int = entry["scale"]
    weights = np.zeros(_KINDS, dtype=np.int64)
    for kind, weight in entry["weights"].items():
        scaled = weight * scale / _UNITS.get(kind, 1)
        if scaled != int(scaled):
            raise ValueError(f"{_WEIGHTS.name}: {kind} of {name} is {weight}, which times the scale {scale} is not whole")
        weights[FEATURES.index(kind)] = int(scaled)
    weights.setflags(write=False)
    return Evaluation(name, scale, weights)


@lean
def evaluate(weights: np.ndarray, mine: np.uint64, other: np.uint64) -> int:
    """Return what the marbles are worth to the player who has `mine`.

    Args:
        weights: int64 [F], by FEATURES; features of weight 0 take no time.
        mine: Marbles of that player.
        other: Marbles of the other one.
    """
    worth = 0
    for number in range(_KINDS):
        weight = weights[number]
        if weight != 0:
            worth += weight * feature(number, mine, other)
    return worth
