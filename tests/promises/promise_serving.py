"""The inference server's own parts in this process: registry, queue and device thread, with networks that can be held."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
from promise_tools import borrowed

from games.core import make
from inference_server.batcher import Batcher
from inference_server.data_plane import DataPlane, Inference
from inference_server.queueing import RequestQueue
from inference_server.registry import Registry
from inference_server.tensors import Tensor
from zerofleet.contracts.encodings import sample_positions

networks = borrowed("promise_networks", "inference_server/fake_network.py")
gatekeeper_tests = borrowed("promise_gatekeeper", "gatekeeper/conftest.py")
MODEL = networks.MODEL


class Serving:
    """A data plane, the store that it serves, and the loader of its networks."""

    def __init__(self, plane: DataPlane, models: object, loader: object) -> None:
        self.plane, self.registry, self.models, self.loader = plane, plane.registry, models, loader
        states, legal = sample_positions(make(MODEL), games=4, seed=1)
        self.states, self.legal = states[:4], legal[:4]

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.models.publish()

    async def infer(self, version: int | None, *, turn: int = 0) -> Inference:
        """Evaluate four positions by a version, the newest for None; `turn` rotates their order."""
        states, legal = np.roll(self.states, turn, axis=0), np.roll(self.legal, turn, axis=0)
        tensors = [
            Tensor("state__0", "UINT8", states.shape, states.tobytes()),
            Tensor("legal__1", "INT16", legal.shape, legal.astype("<i2").tobytes()),
        ]
        return await self.plane.infer((MODEL, "" if version is None else str(version)), tensors)

    def check(self, answer: Inference, version: int, *, turn: int = 0) -> None:
        """Assert that an answer names a version and holds the values of its network."""
        assert answer.version == version
        (value,) = (rows for name, _, rows in answer.outputs if name == "value__1")
        np.testing.assert_array_equal(value, np.roll(networks.expected_value(self.states, self.legal, version), turn, axis=0))


@asynccontextmanager
async def serving(directory: Path) -> AsyncIterator[Serving]:
    """Run a data plane without models over an empty store."""
    models, loader = gatekeeper_tests.Models(directory), networks.FakeLoader()
    registry = Registry(models.store, loader, max_batch=64, max_versions=4)
    try:
        async with Batcher(RequestQueue(max_batch=64, max_delay_s=0.0, max_rows=1000)) as batcher:
            try:
                yield Serving(DataPlane(registry, batcher), models, loader)
            finally:
                loader.gate.set()
                loader.hold.set()
    finally:
        registry.close()
