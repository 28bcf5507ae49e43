"""Evaluator in this process: the perceptrons of learners of values, with weights from the model store.

A version is verified, loaded at its first use and kept among the last few. It evaluates about a million positions a second on
one core, where a request to a server would cost more than the evaluation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import TypeAlias

import numpy as np
from safetensors.numpy import load_file

from games.core import Game
from zerofleet.contracts.manifests import NetworkDict
from zerofleet.contracts.model_checks import WEIGHTS_FILE
from zerofleet.contracts.naming import model_name
from zerofleet.errors import ConfigurationError
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.search.afterstates.perceptron import Perceptron, values
from zerofleet.storage.model_store import ModelStore

__all__ = ["KIND", "Load", "PerceptronEvaluator", "Values"]

KIND = "value_perceptron"
"""`kind` in the network of such a version's manifest."""
Values: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""Values of packed positions (uint8 [B, packed_bytes]) for their players to move: float32 [B], in [-1, 1]."""
Load: TypeAlias = Callable[[NetworkDict, Mapping[str, np.ndarray]], Values]
"""Maker of such a function, from the network of a manifest and its tensors."""
_KEPT = 4  # running games may need the version before the last


class PerceptronEvaluator:
    """Evaluator of stored perceptrons. Its work runs in `executor`, and releases the GIL.

    `others`: further kinds of model by the `kind` of their network; perceptrons are known.
    """

    def __init__(self, store: ModelStore, game: Game, *, executor: Executor, others: Mapping[str, Load] | None = None) -> None:
        self._store = store
        self._game = game
        self._model = model_name(game)
        self._executor = executor
        self._loads: dict[str, Load] = {KIND: _perceptron_values, **(others or {})}
        self._loaded: dict[int, Values] = {}

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
        mine = self._loaded[version](batch.states)
        listed = batch.legal >= 0
        policy = listed / np.maximum(listed.sum(axis=1, keepdims=True), 1)
        return Evaluation(policy.astype(np.float16), np.stack([mine, -mine], axis=1).astype(np.float32), version)

    def _load(self, version: ModelVersion) -> Values:
        manifest = self._store.verify(self._model, version, game=self._game)
        kind = str(manifest.network.get("kind"))
        if kind not in self._loads:
            raise ConfigurationError(
                f"{self._model} version {version} has a network of kind {kind}, and a worker evaluates "
                f"{', '.join(self._loads)} in its process; set afterstates.evaluation=server"
            )
        return self._loads[kind](manifest.network, load_file(self._store.directory(self._model, version) / WEIGHTS_FILE))


def _perceptron_values(network: NetworkDict, tensors: Mapping[str, np.ndarray]) -> Values:
    net = Perceptron(
        hidden=np.ascontiguousarray(tensors["hidden.weight"].T),
        hidden_bias=tensors["hidden.bias"],
        out=tensors["out.weight"][0].copy(),
        out_bias=tensors["out.bias"],
    )
    sign = -1.0 if network["successor"] == "own" else 1.0  # of the value of the player to move

    def evaluate(states: np.ndarray) -> np.ndarray:
        chances = np.empty(len(states), dtype=np.float32)
        values(net, states, chances)
        return np.asarray(sign * (2.0 * chances - 1.0), dtype=np.float32)

    return evaluate
