"""Front ends: several processes on one port in front of one device, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest
from fake_network import MODEL, Wire, expected_value

from zerofleet.evaluators.base import ModelVersion
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.testing import EvaluatorContract

pytestmark = pytest.mark.slow


@pytest.fixture
async def fronted(open_wire, publish) -> AsyncIterator[Wire]:
    """A server of version 1 with two front ends, and its client."""
    publish("opponents", "plies_left")
    async with open_wire(front_ends=2) as wire:
        await wire.server.plane.registry.serve(MODEL, [1])
        yield wire


class TestContract(EvaluatorContract):
    extra_heads = 2
    missing = ModelVersion(99)

    @pytest.fixture
    async def evaluator(self, fronted) -> AsyncIterator[KServeEvaluator]:
        async with KServeEvaluator(fronted.server.address, MODEL, timeout_s=60.0, retry_s=0.0) as evaluator:
            yield evaluator


async def test_each_of_many_concurrent_requests_gets_the_answer_to_its_own_rows(fronted, positions):
    states, legal = positions
    cuts = [slice(start, start + 1 + start % 7) for start in range(0, len(states) - 7)]
    found = await asyncio.gather(*(fronted.infer(states[cut], legal[cut], version="1") for cut in cuts))
    for cut, (version, value) in zip(cuts, found, strict=True):
        assert version == "1"
        np.testing.assert_array_equal(value, expected_value(states[cut], legal[cut], 1))
