"""One step of a block with an evaluator."""

from __future__ import annotations

from zerofleet.evaluators.base import Evaluator
from zerofleet.evaluators.by_version import evaluate_by_version
from zerofleet.search.block import SearchBlock

__all__ = ["step"]


async def step(block: SearchBlock, evaluator: Evaluator) -> int:
    """Advance the block, evaluate its leaves and absorb the evaluation; return the number of leaves (0: nothing to search).

    Propagates the evaluator's exceptions; the block then still waits for the same leaves, and `step` can be retried.
    Cancellation: the same.
    """
    leaves = block.advance()
    if not len(leaves.batch):
        return 0
    found = await evaluate_by_version(evaluator.evaluate, leaves.batch, leaves.versions)
    block.absorb(found.policy, found.value, found.extra_heads)
    return len(leaves.batch)
