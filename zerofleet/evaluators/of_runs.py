"""Models of several runs behind one evaluator: the number of a version contains the index of its run.

first run     1, 2, 3, ...
second run    2^40 + 1, 2^40 + 2, ...
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

from games.core import Game
from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion
from zerofleet.evaluators.opening import evaluating

__all__ = ["RunsEvaluator", "evaluating_runs", "version_among"]

_STRIDE = 1 << 40


def version_among(run: int, version: int) -> ModelVersion:
    """Return the number of a version of the run with an index from 0; of the first run it is the version itself."""
    return ModelVersion(run * _STRIDE + version)


class RunsEvaluator:
    """Evaluator of the models of several runs, each with an evaluator of its own."""

    def __init__(self, evaluators: Sequence[Evaluator]) -> None:
        """`evaluators` by the index of the run."""
        self._evaluators = evaluators

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator`; `version` as of `version_among`."""
        run, own = divmod(version, _STRIDE)
        found = await self._evaluators[run].evaluate(batch, version=ModelVersion(own))
        return Evaluation(found.policy, found.value, version, found.extra_heads)


@contextlib.asynccontextmanager
async def evaluating_runs(addresses: Sequence[str], game: Game) -> AsyncIterator[Evaluator]:
    """Yield an evaluator of the models of several runs from the inference server of each; as `evaluating` for one or none.

    Cancellation: the connections are closed.
    """
    async with contextlib.AsyncExitStack() as stack:
        if len(addresses) < 2:
            yield await stack.enter_async_context(evaluating(next(iter(addresses), None), game))
            return
        yield RunsEvaluator([await stack.enter_async_context(evaluating(address, game)) for address in addresses])
