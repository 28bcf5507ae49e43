"""Evaluator without a network: uniform policy and value 0, for warm-up, benchmarks and a uniform prior."""

from __future__ import annotations

import numpy as np

from games.core import GameSpec
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion

__all__ = ["UniformEvaluator", "uniform_answer", "uniform_policy"]


def uniform_policy(legal: np.ndarray) -> np.ndarray:
    """Return a uniform policy, float16 [B, L], over the listed actions of `legal` (int16 [B, L], padded with -1)."""
    listed = legal >= 0
    share = (1.0 / np.maximum(np.count_nonzero(listed, axis=1), 1)).astype(np.float16)
    words: np.ndarray = listed * share.view(np.uint16)[:, None]  # numpy multiplies float16 one by one
    return words.view(np.float16)


def uniform_answer(batch: LeafBatch, spec: GameSpec) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
    """Return the arguments of `SearchBlock.absorb` for an uninformed network.

    The policy is uniform over the listed actions, all values are 0, and requested extra heads are uniform over their columns.
    """
    value = np.zeros((len(batch), spec.num_players), dtype=np.float32)
    return uniform_policy(batch.legal), value, _uniform_heads(batch, spec.num_actions)


def _uniform_heads(batch: LeafBatch, num_actions: int) -> tuple[np.ndarray, ...]:
    width = batch.head_width or num_actions
    return tuple(np.full((len(batch), width), 1.0 / width, dtype=np.float16) for _ in range(batch.extra_heads))


class UniformEvaluator:
    """`Evaluator` with a uniform policy over the listed actions and all values 0.

    Extra heads are available only if `num_actions` is given; each is uniform over its columns.
    """

    def __init__(self, num_players: int, num_actions: int = 0) -> None:
        self._num_players = num_players
        self._num_actions = num_actions

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`. Cancellation: never suspends."""
        if batch.extra_heads and not self._num_actions:
            raise InvalidRequest(
                "this evaluator was created without num_actions, so it has no extra heads; pass those of the game"
            )
        value = np.zeros((len(batch), self._num_players), dtype=np.float32)
        return Evaluation(uniform_policy(batch.legal), value, version, _uniform_heads(batch, self._num_actions))
