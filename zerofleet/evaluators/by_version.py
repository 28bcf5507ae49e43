"""Evaluation of a batch with several model versions: split by version, evaluated concurrently, reassembled."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.rpc.calls import all_of

__all__ = ["evaluate_by_version"]


class Evaluate(Protocol):
    """Function with the signature of `Evaluator.evaluate`."""

    async def __call__(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`."""
        ...


async def evaluate_by_version(evaluate: Evaluate, batch: LeafBatch, versions: np.ndarray) -> Evaluation:
    """Return the evaluation of one or more leaves whose versions (int64 [B]) may differ, in the rows of the batch.

    Sends one request per version, concurrently. Raises the errors of `evaluate`; the first if several requests fail.
    Cancellation: cancels the requests.
    """
    if (versions == versions[0]).all():
        return await evaluate(batch, version=ModelVersion(int(versions[0])))
    wanted = [ModelVersion(int(version)) for version in np.unique(versions)]
    places = [np.flatnonzero(versions == version) for version in wanted]
    parts = [LeafBatch(batch.states[rows], batch.legal[rows], batch.extra_heads, batch.head_width) for rows in places]
    found = await all_of(evaluate(part, version=version) for version, part in zip(wanted, parts, strict=True))
    return _joined(found, places)


def _joined(parts: list[Evaluation], places: list[np.ndarray]) -> Evaluation:
    """Return the evaluations of several versions merged at their rows (int64) of the batch."""
    order = np.argsort(np.concatenate(places))
    columns = zip(*((part.policy, part.value, *part.extra_heads) for part in parts), strict=True)
    policy, value, *extra_heads = (np.concatenate(column)[order] for column in columns)
    return Evaluation(policy, value, None, tuple(extra_heads))
