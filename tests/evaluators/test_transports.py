"""Choice of a transport request by request: shared memory while it can be had, gRPC otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from games.core import make
from zerofleet.errors import Overloaded, Unavailable, ZerofleetError
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.evaluators.shared_memory import SharedMemoryEvaluator
from zerofleet.evaluators.transports import NearestEvaluator
from zerofleet.evaluators.uniform import UniformEvaluator

SPEC = make("tic_tac_toe").spec()
BATCH = LeafBatch(np.zeros((1, SPEC.packed_bytes), np.uint8), np.zeros((1, SPEC.max_legal), np.int16))
V1 = ModelVersion(1)


class Failing:
    """Connected shared memory whose requests fail."""

    connected, target = True, "unix:/nowhere"

    def __init__(self, error: ZerofleetError) -> None:
        self.error = error

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """Fail."""
        raise self.error


async def test_a_request_that_shared_memory_loses_goes_over_grpc() -> None:
    nearest = NearestEvaluator(Failing(Unavailable("gone")), UniformEvaluator(2))  # type: ignore[arg-type]
    assert (await nearest.evaluate(BATCH, version=V1)).version == V1


async def test_an_overloaded_server_is_not_asked_again_another_way() -> None:
    nearest = NearestEvaluator(Failing(Overloaded("full")), UniformEvaluator(2))  # type: ignore[arg-type]
    with pytest.raises(Overloaded, match="full"):
        await nearest.evaluate(BATCH, version=V1)


async def test_an_unreachable_server_is_given_up_before_an_overloaded_one() -> None:
    evaluator = SharedMemoryEvaluator("unix:/nowhere", make("tic_tac_toe"), retry_s=30.0, reconnect_s=0.0)
    with pytest.raises(Unavailable):
        await evaluator.evaluate(BATCH, version=V1)
    assert evaluator._time_s(Overloaded("full")) == 30.0
