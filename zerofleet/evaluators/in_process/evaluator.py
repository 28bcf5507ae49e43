"""Evaluator in this process: the perceptrons of a model store, verified, loaded at their first use and kept.

A small network answers a batch in less time than a request takes, so a search that asks position by position gains most.
Outputs equal those of a server up to rounding, and every version must answer its golden positions before it is used.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Protocol

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from games.core import Game
from zerofleet.contracts.heads import BASE_HEADS
from zerofleet.contracts.manifests import check_golden
from zerofleet.contracts.model_checks import WEIGHTS_FILE
from zerofleet.contracts.naming import model_name
from zerofleet.errors import CorruptModel
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.evaluators.in_process.layers import PerceptronNetwork
from zerofleet.evaluators.in_process.perceptrons import BitPerceptron
from zerofleet.evaluators.in_process.values import VALUE_PERCEPTRON, Load, ValueFunction, ValueNetwork
from zerofleet.storage.model_store import ModelStore

__all__ = ["InProcessEvaluator", "InProcessNetwork", "load_network"]


class InProcessNetwork(Protocol):
    """Network of one version."""

    def __call__(self, batch: LeafBatch) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
        """Return policy float16 [B, L], value float32 [B, P] and the requested extra heads; raises `InvalidRequest`."""
        ...


def load_network(store: ModelStore, game: Game, version: int, *, others: Mapping[str, Load] | None = None) -> InProcessNetwork:
    """Return the network of a stored version, verified and tested on its golden positions.

    `others`: makers of further networks of values, by the `kind` in the network of their manifest; perceptrons are known.
    Raises `InvalidRequest` for a network of another kind, `ModelNotFound`, `CorruptModel`, `VersionSkew`.
    """
    model, spec = model_name(game), game.spec()
    manifest = store.verify(model, version, game=game)
    path = store.directory(model, version) / WEIGHTS_FILE
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError, KeyError) as error:
        raise CorruptModel(f"{path} cannot be read: {error}; export the version again") from error
    kind = str(manifest.network.get("kind"))
    network: InProcessNetwork
    if others and kind in others:
        network = ValueFunction(manifest, others[kind](manifest.network, tensors))
    elif kind == VALUE_PERCEPTRON:
        network = ValueNetwork(manifest, tensors, spec)
    else:
        network = PerceptronNetwork(manifest, tensors, spec)
    states, legal, *_ = manifest.golden.arrays()
    policy, value, extra = network(LeafBatch(states, legal, len(manifest.heads) - len(BASE_HEADS)))
    check_golden(manifest, policy, value, extra)
    return network


class InProcessEvaluator:
    """Evaluator of the perceptrons of a model store. Thread-safe.

    A call is the blocking form of `evaluate`, for agents in threads of their own.
    """

    def __init__(
        self,
        store: ModelStore,
        game: Game,
        *,
        executor: Executor | None = None,
        keep: int | None = None,
        others: Mapping[str, Load] | None = None,
    ) -> None:
        """Wrap a store.

        Args:
            store: Versions with their weights.
            game: Game of the versions.
            executor: Executor of `evaluate`, whose compiled work releases the GIL; None evaluates in the calling thread.
            keep: Number of versions kept in memory, the last used ones; None: all.
            others: See `load_network`.
        """
        self._store = store
        self._game = game
        self._executor = executor
        self._keep = keep
        self._others = others
        self._networks: dict[ModelVersion, InProcessNetwork] = {}
        self._loading = threading.Lock()

    def __call__(self, batch: LeafBatch, version: ModelVersion) -> Evaluation:
        """See `PerceptronSource.__call__`; raises the errors of `load_network`, and `InvalidRequest`."""
        policy, value, extra = self.load(version)(batch)
        return Evaluation(policy, value, version, extra)

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`. Cancellation: what has begun in a thread completes unused."""
        if self._executor is not None:
            return await asyncio.get_running_loop().run_in_executor(self._executor, self, batch, version)
        if version not in self._networks:
            await asyncio.to_thread(self.load, version)
        return self(batch, version)

    def perceptron(self, version: ModelVersion) -> BitPerceptron | None:
        """See `PerceptronSource.perceptron`: there is one for perceptrons of values that read the mover's view."""
        network = self.load(version)
        return network.perceptron if isinstance(network, ValueNetwork) else None

    def load(self, version: ModelVersion) -> InProcessNetwork:
        """Return the network of a version, loaded once; raises the errors of `load_network`."""
        if self._keep is None and (found := self._networks.get(version)) is not None:
            return found
        with self._loading:
            found = self._networks.pop(version, None) or load_network(self._store, self._game, version, others=self._others)
            self._networks[version] = found  # in the order of their last use
            for old in list(self._networks)[: -self._keep] if self._keep else []:
                del self._networks[old]
            return found
