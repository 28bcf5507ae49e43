"""Driving a block with an evaluator."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import numpy as np

from zerofleet.errors import first_error
from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion
from zerofleet.search.block import SearchBlock

__all__ = ["Answers", "evaluate_by_version", "step"]


async def step(block: SearchBlock, evaluator: Evaluator) -> int:
    """Advance the block, evaluate its leaves and absorb the answers; return the number of leaves (0: nothing to search).

    Raises what the evaluator raises; the block then still waits for the same leaves, and `step` may be called again.
    Cancellation: likewise.
    """
    leaves = block.advance()
    if not len(leaves.batch):
        return 0
    block.absorb(*await evaluate_by_version(evaluator, leaves.batch, leaves.versions))
    return len(leaves.batch)


class Answers(NamedTuple):
    """Evaluations of a batch, of one model version or several."""

    policy: np.ndarray  # float16 [B, L]
    value: np.ndarray  # float32 [B, P]
    extra_heads: tuple[np.ndarray, ...]  # those the batch asked for, [B, ...] each


async def evaluate_by_version(evaluator: Evaluator, batch: LeafBatch, versions: np.ndarray) -> Answers:
    """Return the evaluations of leaves whose versions (int64 [B]) may differ.

    One request for each version, all at once. Raises what the evaluator raises; where several requests fail, the first
    error. Cancellation: cancels the requests.
    """
    wanted = np.unique(versions)
    if len(wanted) == 1:
        answer = await evaluator.evaluate(batch, version=ModelVersion(int(wanted[0])))
        return Answers(answer.policy, answer.value, answer.heads)
    places = [np.flatnonzero(versions == version) for version in wanted]
    parts = [LeafBatch(batch.states[rows], batch.legal[rows], batch.heads) for rows in places]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(evaluator.evaluate(part, version=ModelVersion(int(version))))
                for version, part in zip(wanted, parts, strict=True)
            ]
    except ExceptionGroup as failures:
        raise first_error(failures) from None
    return _joined([task.result() for task in tasks], places)


def _joined(answers: list[Evaluation], places: list[np.ndarray]) -> Answers:
    """Return the answers of several versions as one, each at its rows (int64) of the batch."""
    order = np.argsort(np.concatenate(places))
    columns = zip(*((answer.policy, answer.value, *answer.heads) for answer in answers), strict=True)
    policy, value, *extra_heads = (np.concatenate(column)[order] for column in columns)
    return Answers(policy, value, tuple(extra_heads))
