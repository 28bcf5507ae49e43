"""Perceptrons with heads for policy and value, as matrix products of numpy; torch stays in its two rooms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from games.core import GameSpec
from zerofleet.contracts.heads import AUXILIARY_HEADS, BASE_HEADS
from zerofleet.contracts.manifests import Manifest
from zerofleet.errors import CorruptModel, InvalidRequest
from zerofleet.evaluators.base import LeafBatch
from zerofleet.evaluators.in_process.inputs import folded, input_table

__all__ = ["PerceptronNetwork"]

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

    def __init__(self, manifest: Manifest, tensors: Mapping[str, np.ndarray], spec: GameSpec) -> None:
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
        self._bits = int(np.prod(spec.planes))
        widths = [spec.num_inputs, *(int(str(width)) for width in _listed(settings.get("hidden")))]
        self._layers = [
            self._dense(f"trunk.layers.{2 * index}", before, after) for index, (before, after) in enumerate(pairwise(widths))
        ]
        if spec.reading is not None:
            rows, bias = folded(input_table(spec), self._layers[0].weight, self._layers[0].bias)
            self._layers[0] = _Dense(rows.astype(np.float32), bias.astype(np.float32))
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
        x = np.unpackbits(batch.states, axis=1, count=self._bits, bitorder="little").astype(np.float32)
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
