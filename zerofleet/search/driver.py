"""Driving a block with an evaluator."""

from __future__ import annotations

import asyncio

import numpy as np

from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion
from zerofleet.search.block import SearchBlock

__all__ = ["evaluate_by_version", "step"]


async def step(block: SearchBlock, evaluator: Evaluator) -> int:
    """Advance the block, evaluate its leaves and absorb the answers; return the number of leaves (0: nothing to search).

    Raises what the evaluator raises; the block then still waits for the same leaves, and `step` may be called again.
    Cancellation: likewise.
    """
    leaves = block.advance()
    if not len(leaves.batch):
        return 0
    policy, value = await evaluate_by_version(evaluator, leaves.batch, leaves.versions)
    block.absorb(policy, value)
    return len(leaves.batch)


async def evaluate_by_version(evaluator: Evaluator, batch: LeafBatch, versions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return policy float16 [B, L] and value float32 [B, P] of leaves whose versions (int64 [B]) may differ.

    One request for each version, all at once. Raises what the evaluator raises; where several requests fail, the first
    error. Cancellation: cancels the requests.
    """
    wanted = np.unique(versions)
    if len(wanted) == 1:
        answer = await evaluator.evaluate(batch, version=ModelVersion(int(wanted[0])))
        return answer.policy, answer.value
    places = [np.flatnonzero(versions == version) for version in wanted]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    evaluator.evaluate(LeafBatch(batch.states[rows], batch.legal[rows]), version=ModelVersion(int(version)))
                )
                for version, rows in zip(wanted, places, strict=True)
            ]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    answers: list[Evaluation] = [task.result() for task in tasks]
    policy = np.empty(batch.legal.shape, dtype=np.float16)
    value = np.empty((len(batch), answers[0].value.shape[1]), dtype=np.float32)
    for rows, answer in zip(places, answers, strict=True):
        policy[rows] = answer.policy
        value[rows] = answer.value
    return policy, value
