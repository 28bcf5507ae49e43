"""Measures of a training between two judgements: its games, and the losses of its steps.

    points_learner    share of the points of the seat that learned, in games against another player
    plies_won         plies of the games that this seat won
    value_of_moves    value that the model gave to the moves it played, for their player
    other names       mean losses of the learner (`trainer.learners.contract.TakingStep.losses`)

`trained_measures` names those of the last judgement as the report shows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from trainer.learners.contract import TakingStep
from zerofleet.contracts.records import ValidatedGame

__all__ = ["Measures", "trained_measures"]

_SHOWN: Mapping[str, tuple[str, float]] = {
    "accuracy": ("results predicted on held-out games, %", 100.0),
    "recall_1": ("held-out moves that the network ranks first, %", 100.0),
    "recall_6": ("held-out moves among the network's six best, %", 100.0),
    "value": ("mean squared error", 1.0),
    "points_learner": ("share of the points in training, %", 100.0),
    "plies_won": ("plies of a game won in training", 1.0),
    "value_of_moves": ("mean value of the moves played in training", 1.0),
    "illegal_mass": ("policy on illegal moves, %", 100.0),
    "policy": ("cross-entropy of the policy, nats", 1.0),
}
"""Name and factor of each measure in the report; others are not shown."""
_FEWEST = 3  # judgements for a roughness


class Measures:
    """Sums and counts by name."""

    def __init__(self, sums: Mapping[str, Sequence[float]] | None = None) -> None:
        """`sums`: sum and count of each measure so far; by default none."""
        self._sums = {name: (float(total), int(count)) for name, (total, count) in (sums or {}).items()}

    @classmethod
    def read(cls, stored: Mapping[str, Sequence[float]]) -> Self:
        """Return the measures that `as_json` stored."""
        return cls(stored)

    def as_json(self) -> dict[str, Any]:
        """Return sums and counts."""
        return {name: list(found) for name, found in self._sums.items()}

    def game(self, played: ValidatedGame) -> None:
        """Count a game that has a seat that learns."""
        record, search = played.record, played.search
        seat = int(record.learner_seat) - 1
        if seat < 0:
            return
        score = float(played.scores[seat])
        self._add("points_learner", (score + 1.0) / 2.0)
        if score > 0:
            self._add("plies_won", len(record.moves))
        for row in np.flatnonzero(played.movers[search.ply] == seat):
            self._add("value_of_moves", float(search.root_value[row, seat]))

    def step(self, step: TakingStep) -> None:
        """Count a step."""
        for name, loss in step.losses.items():
            self._add(name, float(loss))

    def take(self) -> dict[str, float]:
        """Return the means, and begin again."""
        means = {name: total / count for name, (total, count) in self._sums.items()}
        self._sums = {}
        return means

    def _add(self, name: str, value: float) -> None:
        total, count = self._sums.get(name, (0.0, 0))
        self._sums[name] = total + value, count + 1


def trained_measures(curve: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the measures of a training by the names of the report: of its last judgement, and over all of them."""
    if not curve:
        return {}
    last = curve[-1]
    found = {text: factor * value for name, (text, factor) in _SHOWN.items() if (value := last.get(name)) is not None}
    accuracy = [row["accuracy"] for row in curve if "accuracy" in row]
    if len(accuracy) >= _FEWEST:
        changes = np.abs(np.diff(accuracy))
        found["change of the accuracy between judgements, points"] = 100.0 * float(changes.mean())
        found["accuracy lost since the best judgement, points"] = 100.0 * (max(accuracy) - accuracy[-1])
    if last.get("steps"):
        found["samples of an update"] = last["samples_trained"] / last["steps"]
    return found
