"""Measurements on held-out games: accuracy of the predicted results, and recall of the moves.

    accuracy    share of positions whose winner is the predicted one: the prediction is a win above a chance of 0.5
    recall_k    share of moves among the k best of all legal ones, by the chances of the positions after them; moves of equal
                chance are in the order of the legal ones, as in the pools of players

A chance of exactly 0.5 predicts nothing and counts as wrong, and so does a position of an undecided game.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from trainer.history import HELD_OUT_MEASURES
from trainer.learners.outcome.labels import Labelled, Ranked

__all__ = ["Chances", "measure"]

_ACCURACY, *_RECALLS = HELD_OUT_MEASURES
_POOLS = (1, 6)
Chances: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""Chances of winning of the players to move in packed positions (uint8 [B, packed_bytes]), float [B]."""


def measure(games: Sequence[Labelled], chances: Chances) -> dict[str, float]:
    """Return `HELD_OUT_MEASURES` by name, each in [0, 1]; a measure without any position or move is left out."""
    right: list[np.ndarray] = []
    places: list[np.ndarray] = []
    for game in games:
        found, labels = chances(game.states), game.labels
        right.append(((found > 0.5) & (labels > 0.5)) | ((found < 0.5) & (labels < 0.5)))
        if game.ranked is not None and len(game.ranked.played):
            places.append(_places(game.ranked, chances))
    measures = {_ACCURACY: float(np.concatenate(right).mean())} if right else {}
    if places:
        place = np.concatenate(places)
        measures |= {name: float((place < size).mean()) for name, size in zip(_RECALLS, _POOLS, strict=True)}
    return measures


def _places(ranked: Ranked, chances: Chances) -> np.ndarray:
    """Return the place of each played move in the order of chances, from 0, int [Q]."""
    theirs = chances(ranked.states)
    mine = np.where(np.isnan(ranked.chances), np.where(ranked.same, theirs, 1.0 - theirs), ranked.chances)
    places = np.empty(len(ranked.played), dtype=np.int64)
    for q, played in enumerate(ranked.played):
        values = mine[ranked.start[q] : ranked.start[q + 1]]
        places[q] = (values > values[played]).sum() + (values[:played] == values[played]).sum()
    return places
