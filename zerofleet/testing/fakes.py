"""Fakes of parts of the product, for tests that need no network."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion

__all__ = ["FunctionEvaluator"]


class FunctionEvaluator:
    """Answers by a function `(batch, version) -> (policy [B, L], value [B, P])` and checks the shapes it returns.

    The extra heads it offers, [B, W] each, follow in the same tuple. Like a server, it raises `InvalidRequest` for a batch
    that asks for more of them.
    """

    def __init__(self, function: Callable[[LeafBatch, ModelVersion], tuple[np.ndarray, ...]]) -> None:
        self._function = function

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`. Cancellation: never waits, so there is nothing to cancel."""
        policy, value, *extra_heads = self._function(batch, version)
        if policy.shape != batch.legal.shape or value.ndim != 2 or len(value) != len(batch):
            raise InvalidRequest(
                f"the function returned policy {policy.shape} and value {value.shape};"
                f" want {batch.legal.shape} and ({len(batch)}, players)"
            )
        if len(extra_heads) < batch.extra_heads or any(head.ndim != 2 or len(head) != len(batch) for head in extra_heads):
            raise InvalidRequest(
                f"the function returned extra heads {[head.shape for head in extra_heads]};"
                f" want {batch.extra_heads} of ({len(batch)}, width)"
            )
        asked = tuple(extra_heads[: batch.extra_heads])
        return Evaluation(policy.astype(np.float16, copy=False), value.astype(np.float32, copy=False), version, asked)
