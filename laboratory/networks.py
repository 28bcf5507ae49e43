"""Networks in this process, loaded and evaluated as the inference server does, without requests and batches between games."""

from __future__ import annotations

from inference_server.chosen_backend import open_backend
from inference_server.network import Network
from laboratory.clock import ProcessorClock
from zerofleet.contracts.model_checks import MODEL_FILE
from zerofleet.errors import ModelNotFound
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.storage.model_store import ModelStore

__all__ = ["CountedEvaluator", "Networks"]

MOST_VERSIONS = 16  # as in the inference server; running games may still need versions before the last


class Networks:
    """Evaluator of the versions loaded last."""

    def __init__(self, store: ModelStore, model: str, *, max_batch: int) -> None:
        """`max_batch`: largest batch of self-play, for the warm-up of a version."""
        self._backend = open_backend("cpu")
        self._store = store
        self._model = model
        self._max_batch = max_batch
        self._loaded: dict[int, Network] = {}

    def load(self, version: int) -> None:
        """Verify and load a stored version. Raises `CorruptModel`."""
        manifest = self._store.verify(self._model, version)
        path = self._store.directory(self._model, version) / MODEL_FILE
        self._loaded[version] = self._backend.load(path, manifest, max_batch=self._max_batch)
        for old in sorted(self._loaded)[:-MOST_VERSIONS]:
            del self._loaded[old]

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`. Cancellation: no effect."""
        network = self._loaded.get(version)
        if network is None:
            raise ModelNotFound(f"version {version} of {self._model} is not loaded; loaded: {sorted(self._loaded)}")
        policy, value, *extra_heads = network.evaluate([batch.states], [batch.legal])
        return Evaluation(policy, value, version, tuple(extra_heads[: batch.extra_heads]))


class CountedEvaluator:
    """Evaluator of self-play: counts positions, and charges their time to the part `evaluation`."""

    def __init__(self, networks: Networks, clock: ProcessorClock) -> None:
        self._networks = networks
        self._clock = clock
        self.positions = 0
        """Positions evaluated so far."""
        self.batches = 0

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`. Cancellation: no effect."""
        with self._clock.part("evaluation"):
            found = await self._networks.evaluate(batch, version=version)
        self.positions += len(batch)
        self.batches += 1
        return found
