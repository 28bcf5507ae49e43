"""Perceptrons with heads for policy and value, as matrix products of numpy; torch stays in its two rooms.

A batch norm before the activation is part of the layer before it. Value heads are those of two players and one tanh per player.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from games.core import GameSpec
from zerofleet.contracts.heads import AUXILIARY_HEADS, BASE_HEADS
from zerofleet.contracts.manifests import Manifest
from zerofleet.errors import CorruptModel, InvalidRequest
from zerofleet.evaluators.base import LeafBatch
from zerofleet.evaluators.in_process.inputs import folded, input_table
from zerofleet.evaluators.uniform import uniform_policy

__all__ = ["PerceptronNetwork"]

_PADDED = np.float32(-1e30)  # finite, as in the exported module
_EPSILON = np.float32(1e-5)  # of torch's norms


class _Dense(NamedTuple):
    """Linear layer."""

    weight: np.ndarray  # float32 [inputs, outputs], C-contiguous
    bias: np.ndarray  # float32 [outputs]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Map float32 [B, inputs] to float32 [B, outputs]."""
        y: np.ndarray = x @ self.weight
        y += self.bias
        return y


class _Scale(NamedTuple):
    """Batch norm with the statistics of training, for which it is a scale and a shift of each feature."""

    scale: np.ndarray  # float32 [features]
    shift: np.ndarray  # float32 [features]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Map float32 [B, features] to the same shape."""
        return np.asarray(x * self.scale + self.shift)

    def after(self, dense: _Dense) -> _Dense:
        """Return the layer that equals `dense` followed by this norm."""
        return _Dense(np.ascontiguousarray(dense.weight * self.scale), dense.bias * self.scale + self.shift)


class _LayerNorm(NamedTuple):
    """Normalisation of the features of each position."""

    weight: np.ndarray  # float32 [features]
    bias: np.ndarray  # float32 [features]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Map float32 [B, features] to the same shape."""
        centred = x - x.mean(axis=1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True) + _EPSILON)
        return np.asarray(centred / deviation * self.weight + self.bias)


_Step: TypeAlias = _Dense | _Scale | _LayerNorm | Callable[[np.ndarray], np.ndarray]


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
        output = str(settings.get("value_output", "players"))
        if output not in _OUTPUTS:
            raise InvalidRequest(
                f"{self._name} has value_output={output}, which cannot be evaluated in this process; want one of "
                f"{', '.join(_OUTPUTS)}, or an inference server"
            )
        self._activate = _ACTIVATIONS[activation]
        self._normalisation, self._normalise = settings.get("normalisation", "none"), settings.get("normalise", "before")
        self._squashes = settings.get("policy_activation", "softmax") != "softmax"
        self._tensors = tensors
        self._bits = int(np.prod(spec.planes))
        widths = [spec.num_inputs, *(int(str(width)) for width in _listed(settings.get("hidden")))]
        self._steps: list[_Step] = []
        modules = 2 + (self._normalisation != "none") + bool(settings.get("dropout"))
        for index, (before, after) in enumerate(pairwise(widths)):
            self._steps += self._layer(modules * index, before, after, spec if index == 0 else None)
        self._policy = None
        if settings.get("policy_head") != "none":
            self._policy = self._dense("policy.out", widths[-1], manifest.num_actions)
        self._score = _OUTPUTS[output]
        outputs = {"mover": 1, "win_probability": 1, "win_or_loss": 2}.get(output, manifest.num_players)
        self._value = self._dense("value.out", widths[-1], outputs)
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
        for step in self._steps:
            x = step(x)
        extra = tuple(_finished(name, head(x)) for name, head in self._extra[: batch.extra_heads])
        return self._policy_of(x, batch.legal), self._score(self._value(x)), extra

    def _policy_of(self, x: np.ndarray, legal: np.ndarray) -> np.ndarray:
        """Return the policy float16 [B, L]: uniform without a policy head."""
        if self._policy is None:
            return uniform_policy(legal)
        listed = legal >= 0
        chosen = np.take_along_axis(self._policy(x), np.maximum(legal, 0).astype(np.intp), axis=1)
        if self._squashes:
            chosen = -np.logaddexp(np.float32(0.0), -chosen)
        policy = _softmax(np.where(listed, chosen, _PADDED)) * listed
        return policy.astype(np.float16)

    def _layer(self, place: int, inputs: int, outputs: int, spec: GameSpec | None) -> list[_Step]:
        """Return the steps of a hidden layer whose first module has number `place`; `spec`: of the layer that reads bits."""
        dense = self._dense(f"trunk.layers.{place}", inputs, outputs)
        if spec is not None and spec.reading is not None:
            rows, bias = folded(input_table(spec), dense.weight, dense.bias)
            dense = _Dense(rows.astype(np.float32), bias.astype(np.float32))
        if self._normalisation == "none":
            return [dense, self._activate]
        if self._normalise == "after":
            return [dense, self._activate, self._norm(f"trunk.layers.{place + 2}", outputs)]
        norm = self._norm(f"trunk.layers.{place + 1}", outputs)
        return [norm.after(dense), self._activate] if isinstance(norm, _Scale) else [dense, norm, self._activate]

    def _norm(self, name: str, features: int) -> _Scale | _LayerNorm:
        if self._normalisation == "layer":
            return _LayerNorm(*(self._vector(f"{name}.{part}", features) for part in ("weight", "bias")))
        parts = ("weight", "bias", "running_mean", "running_var")
        weight, bias, mean, variance = (self._vector(f"{name}.norm.{part}", features) for part in parts)
        scale = weight / np.sqrt(variance + _EPSILON)
        return _Scale(scale, bias - mean * scale)

    def _vector(self, name: str, features: int) -> np.ndarray:
        found = self._tensors.get(name)
        if found is None or found.shape != (features,):
            got = "no such tensor" if found is None else str(found.shape)
            raise CorruptModel(f"{self._name}: {name} has {got}, want ({features},)")
        return np.asarray(found, dtype=np.float32)

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


def _of_mover(value: np.ndarray) -> np.ndarray:
    """Return the scores of both players from that of the player to move, float32 [B, 1]."""
    return np.concatenate([value, -value], axis=1)


_OUTPUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "players": np.tanh,
    "mover": lambda x: _of_mover(np.tanh(x)),
    "win_probability": lambda x: _of_mover(np.tanh(x / 2)),  # 2 sigmoid(x) - 1
    "win_or_loss": lambda x: _of_mover(np.tanh((x[:, :1] - x[:, 1:]) / 2)),  # difference of a softmax over two
}
"""Scores of all players from the last layer of the value head, by `NetworkSettings.value_output`."""
