"""Evaluator in this process: the perceptrons of learners of values, with weights from the model store.

A version is verified, loaded at its first use and kept among the last few. It evaluates about a million positions a second on
one core, where a request to a server would cost more than the evaluation.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor

import numpy as np
from safetensors.numpy import load_file

from games.core import Game
from zerofleet.contracts.model_checks import WEIGHTS_FILE
from zerofleet.contracts.naming import model_name
from zerofleet.errors import ConfigurationError
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.search.afterstates.perceptron import Perceptron, values
from zerofleet.storage.model_store import ModelStore

__all__ = ["KIND", "PerceptronEvaluator"]

KIND = "value_perceptron"
"""`kind` in the network of such a version's manifest."""
_KEPT = 4  # running games may need the version before the last


class PerceptronEvaluator:
    """Evaluator of stored perceptrons. Its work runs in `executor`, and releases the GIL."""

    def __init__(self, store: ModelStore, game: Game, *, executor: Executor) -> None:
        self._store = store
        self._game = game
        self._model = model_name(game)
        self._executor = executor
        self._loaded: dict[int, tuple[Perceptron, float]] = {}  # weights, and the sign of the value of the player to move

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`. The policy is uniform over the legal moves.

        Raises `ConfigurationError` for a version of another kind of network, and as `ModelStore.verify` does.
        Cancellation: the batch is still computed; evaluate again.
        """
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._evaluate, batch, version)

    def _evaluate(self, batch: LeafBatch, version: ModelVersion) -> Evaluation:
        if version not in self._loaded:
            self._loaded[version] = self._load(version)
            for old in list(self._loaded)[:-_KEPT]:
                del self._loaded[old]
        net, sign = self._loaded[version]
        chances = np.empty(len(batch), dtype=np.float32)
        values(net, batch.states, chances)
        mine = sign * (2.0 * chances - 1.0)
        listed = batch.legal >= 0
        policy = listed / np.maximum(listed.sum(axis=1, keepdims=True), 1)
        return Evaluation(policy.astype(np.float16), np.stack([mine, -mine], axis=1).astype(np.float32), version)

    def _load(self, version: ModelVersion) -> tuple[Perceptron, float]:
        manifest = self._store.verify(self._model, version, game=self._game)
        kind = manifest.network.get("kind")
        if kind != KIND:
            raise ConfigurationError(
                f"version {version} of {self._model} is a {kind} network, afterstates.evaluation=process evaluates {KIND}; set "
                "afterstates.evaluation=server"
            )
        tensors = load_file(self._store.directory(self._model, version) / WEIGHTS_FILE)
        net = Perceptron(
            hidden=np.ascontiguousarray(tensors["hidden.weight"].T),
            hidden_bias=tensors["hidden.bias"],
            out=tensors["out.weight"][0].copy(),
            out_bias=tensors["out.bias"],
        )
        return net, -1.0 if manifest.network["successor"] == "own" else 1.0
