"""Perceptrons evaluated in this process, from the weights of a stored version, without a server.

A small network answers a batch in less time than a request takes, so a search that asks position by position gains most. The
layers are matrix products of numpy; torch stays in its two rooms. Outputs equal those of a server up to rounding, and every
version must answer its golden positions before it is used.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from games.core import Game
from zerofleet.contracts.heads import AUXILIARY_HEADS, BASE_HEADS
from zerofleet.contracts.manifests import Manifest, check_golden
from zerofleet.contracts.naming import model_name
from zerofleet.errors import CorruptModel, InvalidRequest
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.storage.model_store import ModelStore

__all__ = ["InProcessEvaluator", "PerceptronNetwork", "load_perceptron"]

WEIGHTS_FILE = "weights.safetensors"
_PADDED = np.float32(-1e30)  # finite, as in the exported module


class _Dense(NamedTuple):
    """Linear layer."""

    weight: np.ndarray  # float32 [inputs, outputs], C-contiguous
    bias: np.ndarray  # float32 [outputs]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Map float32 [B, inputs] to float32 [B, outputs]."""
        y: np.ndarray = x @ self.weight
        y += self.bias
        return y


class PerceptronNetwork:
    """Perceptron with heads for policy, value and extra predictions, as `trainer.network` builds it."""

    def __init__(self, manifest: Manifest, tensors: Mapping[str, np.ndarray]) -> None:
        """Build the network of a version from its stored weights.

        Raises `InvalidRequest` for a network of another kind, `CorruptModel` for weights that do not fit the manifest.
        """
        self._name = f"model {manifest.model} version {manifest.version}"
        settings = manifest.network
        kind, activation = settings.get("kind", "residual"), str(settings.get("activation", "relu"))
        if kind != "perceptron" or activation not in _ACTIVATIONS:
            raise InvalidRequest(
                f"{self._name} is a {kind} network with activation {activation}, which cannot be evaluated in this process; "
                f"want a perceptron with one of {', '.join(_ACTIVATIONS)}, or an inference server"
            )
        self._activate = _ACTIVATIONS[activation]
        self._squashes = settings.get("policy_activation", "softmax") != "softmax"
        self._tensors = tensors
        self._inputs = int(np.prod(manifest.planes))
        widths = [self._inputs, *(int(str(width)) for width in _listed(settings.get("hidden")))]
        self._layers = [
            self._dense(f"trunk.layers.{2 * index}", before, after) for index, (before, after) in enumerate(pairwise(widths))
        ]
        self._policy = self._dense("policy.out", widths[-1], manifest.num_actions)
        self._value = self._dense("value.out", widths[-1], manifest.num_players)
        trained = [str(head) for head in _listed(settings.get("heads"))]
        self._extra = [
            (head, self._extra_head(trained.index(head), head, widths[-1], manifest.num_actions))
            for head in manifest.heads[len(BASE_HEADS) :]
            if head in trained and head not in AUXILIARY_HEADS
        ]

    def __call__(self, batch: LeafBatch) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
        """Return policy float16 [B, L], value float32 [B, P] and the requested extra heads; raises `InvalidRequest`."""
        if batch.extra_heads > len(self._extra):
            raise InvalidRequest(f"{self._name} has {len(self._extra)} extra heads, got a request for {batch.extra_heads}")
        x = np.unpackbits(batch.states, axis=1, count=self._inputs, bitorder="little").astype(np.float32)
        for layer in self._layers:
            x = self._activate(layer(x))
        listed = batch.legal >= 0
        chosen = np.take_along_axis(self._policy(x), np.maximum(batch.legal, 0).astype(np.intp), axis=1)
        if self._squashes:
            chosen = -np.logaddexp(np.float32(0.0), -chosen)
        policy = _softmax(np.where(listed, chosen, _PADDED)) * listed
        extra = tuple(_finished(name, head(x)) for name, head in self._extra[: batch.extra_heads])
        return policy.astype(np.float16), np.tanh(self._value(x)), extra

    def _extra_head(self, index: int, name: str, features: int, actions: int) -> _Dense:
        if name == "plies_left":
            return self._dense(f"extra.{index}.inner.out", features, 1)
        return self._dense(f"extra.{index}.out", features, actions)

    def _dense(self, name: str, inputs: int, outputs: int) -> _Dense:
        weight, bias = self._tensors.get(f"{name}.weight"), self._tensors.get(f"{name}.bias")
        if weight is None or bias is None or weight.shape != (outputs, inputs) or bias.shape != (outputs,):
            got = "no such layer" if weight is None or bias is None else f"{weight.shape} and {bias.shape}"
            raise CorruptModel(f"{self._name}: layer {name} has {got}, want weights ({outputs}, {inputs}) and {outputs} biases")
        return _Dense(np.ascontiguousarray(weight.T, dtype=np.float32), bias.astype(np.float32))


def load_perceptron(store: ModelStore, game: Game, version: int) -> PerceptronNetwork:
    """Return the network of a stored version, verified and tested on its golden positions.

    Raises `InvalidRequest` for a network that is no perceptron, `ModelNotFound`, `CorruptModel`, `VersionSkew`.
    """
    model = model_name(game)
    manifest = store.verify(model, version, game=game)
    path = store.directory(model, version) / WEIGHTS_FILE
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError, KeyError) as error:
        raise CorruptModel(f"{path} cannot be read: {error}; export the version again") from error
    network = PerceptronNetwork(manifest, tensors)
    states, legal, *_ = manifest.golden.arrays()
    policy, value, extra = network(LeafBatch(states, legal, len(manifest.heads) - len(BASE_HEADS)))
    check_golden(manifest, policy, value, extra)
    return network


class InProcessEvaluator:
    """Evaluator of the perceptrons of a model store, in the calling thread; versions are loaded on first use.

    `evaluate_now` is its blocking form, for agents in threads of their own.
    """

    def __init__(self, store: ModelStore, game: Game) -> None:
        self._store = store
        self._game = game
        self._networks: dict[ModelVersion, PerceptronNetwork] = {}
        self._loading = threading.Lock()

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`. Cancellation: only while a version is loaded, which then completes unused."""
        if version not in self._networks:
            await asyncio.to_thread(self.load, version)
        return self.evaluate_now(batch, version)

    def evaluate_now(self, batch: LeafBatch, version: ModelVersion) -> Evaluation:
        """Return the evaluation of every leaf; raises the errors of `load_perceptron`, and `InvalidRequest`."""
        policy, value, extra = self.load(version)(batch)
        return Evaluation(policy, value, version, extra)

    def load(self, version: ModelVersion) -> PerceptronNetwork:
        """Return the network of a version, loaded once; raises the errors of `load_perceptron`."""
        if version not in self._networks:
            with self._loading:
                if version not in self._networks:
                    self._networks[version] = load_perceptron(self._store, self._game, version)
        return self._networks[version]


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []


def _softmax(logits: np.ndarray) -> np.ndarray:
    shares = np.exp(logits - logits.max(axis=1, keepdims=True, initial=_PADDED))
    shares /= shares.sum(axis=1, keepdims=True)
    return np.asarray(shares)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)), dtype=np.float32)  # never overflows


def _finished(name: str, outputs: np.ndarray) -> np.ndarray:
    """Return the wire form of an extra head: probabilities of all actions float16 [B, A], or a share float32 [B, 1]."""
    return _sigmoid(outputs) if name == "plies_left" else _softmax(outputs).astype(np.float16)


def _relu(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(x, np.float32(0.0), out=x))


_ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"relu": _relu, "sigmoid": _sigmoid, "tanh": np.tanh}
