"""Residual tower on a device, from its stored weights: one kernel for each convolution, bias, sum and relu where cuDNN has it.

The norms are folded in float64 and rounded once. Activations are channels-last, and channels are padded with zeros to
multiples of eight, which tensor cores read without a copy. All heads share one 1x1 convolution and their first dense layer:
its weights are zero where a head does not read a channel.

Axes: B batch, C planes, H x W cells, K x N inputs and outputs of a layer, L listed actions, P players.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from zerofleet.contracts.manifests import Manifest
from zerofleet.evaluators.native.folded import FoldedHead, FoldedTower

__all__ = ["CONVOLUTIONS", "Convolve", "Tower"]

_ALIGNED = 8  # channels of half precision that a tensor core reads at once: 16 bytes


class Convolve(Protocol):
    """A convolution of stride 1 with its bias and relu."""

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor, added: Tensor | None = None) -> Tensor:
        """Map [B, K, H, W] to relu(weight * x + bias + added), [B, N, H, W]; the border is padded with zeros."""
        ...


def _fused(x: Tensor, weight: Tensor, bias: Tensor, added: Tensor | None = None) -> Tensor:
    border = weight.shape[2] // 2, weight.shape[3] // 2
    if added is None:
        return torch.cudnn_convolution_relu(x, weight, bias, (1, 1), border, (1, 1), 1)
    return torch.cudnn_convolution_add_relu(x, weight, added, 1.0, bias, (1, 1), border, (1, 1), 1)


def _plain(x: Tensor, weight: Tensor, bias: Tensor, added: Tensor | None = None) -> Tensor:
    y = functional.conv2d(x, weight, bias, padding=(weight.shape[2] // 2, weight.shape[3] // 2))
    return torch.relu(y if added is None else y + added)


CONVOLUTIONS: dict[str, Convolve] = {"fused": _fused, "plain": _plain}
"""By name, the faster first: `fused` is one kernel of cuDNN, which has it for CUDA alone; `plain` needs nothing special."""


class Tower:
    """The served function of a version: packed bits in, answers of all heads out, in their wire types."""

    def __init__(
        self, tower: FoldedTower, manifest: Manifest, convolve: Convolve, *, device: torch.device, dtype: torch.dtype
    ) -> None:
        self._planes = manifest.planes
        self._convolve = convolve
        self._dtype = dtype
        self._value = str(manifest.network.get("value_output", "players"))
        self._extra = manifest.heads[2:]
        self._shifts = torch.arange(8, dtype=torch.uint8, device=device)

        def placed(values: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(values)).to(device, dtype)

        def convolution(kernels: np.ndarray, bias: np.ndarray) -> tuple[Tensor, Tensor]:
            return placed(_padded(kernels, 2)).contiguous(memory_format=torch.channels_last), placed(_padded(bias, 1))

        self._layers = [convolution(kernels, bias) for kernels, bias in tower.convolutions]
        kernels = np.concatenate([head.kernels for head in tower.heads])[:, :, None, None]
        self._read = convolution(kernels, np.concatenate([head.bias for head in tower.heads]))
        weights, bias, self._spans = _first_layer(tower.heads, self._planes[1] * self._planes[2])
        self._first = placed(weights), placed(bias)
        self._last = [None if head.hidden is None else (placed(head.out[0]), placed(head.out[1])) for head in tower.heads]

    def __call__(self, state: Tensor, legal: Tensor) -> tuple[Tensor, ...]:
        """Evaluate packed positions.

        `state`: uint8 [B, packed_bytes]; `legal`: int16 [B, L], padded with -1. Returns policy float16 [B, L], value
        float32 [B, P], and the extra heads: `opponents` float16 [B, A], `plies_left` float32 [B, 1].
        """
        x = self._convolve(self._unpacked(state), *self._layers[0])
        for first, second in zip(self._layers[1::2], self._layers[2::2], strict=True):
            x = self._convolve(self._convolve(x, *first), *second, x)
        cells = self._convolve(x, *self._read).permute(0, 2, 3, 1).flatten(1)  # [B, H * W * N], a view of channels-last
        outputs = functional.linear(cells, *self._first)
        logits, value, *extra = (
            outputs[:, span] if last is None else functional.linear(torch.relu(outputs[:, span]), *last)
            for span, last in zip(self._spans, self._last, strict=True)
        )
        return _listed(logits.float(), legal), _SCORES[self._value](value.float()), *map(_of_head, self._extra, extra)

    def _unpacked(self, state: Tensor) -> Tensor:
        """Return the bits as numbers [B, C, H, W], C padded, channels-last."""
        planes, height, width = self._planes
        bits = state.unsqueeze(2).bitwise_right_shift(self._shifts).bitwise_and(1).flatten(1)[:, : planes * height * width]
        board = bits.reshape(-1, planes, height, width).to(self._dtype)
        whole = functional.pad(board, (0, 0, 0, 0, 0, -planes % _ALIGNED))
        return whole.contiguous(memory_format=torch.channels_last)


def _padded(values: np.ndarray, axes: int) -> np.ndarray:
    """Return an array whose first `axes` axes are padded with zeros to whole groups of channels."""
    return np.pad(values, [(0, -size % _ALIGNED if axis < axes else 0) for axis, size in enumerate(values.shape)])


def _first_layer(heads: tuple[FoldedHead, ...], cells: int) -> tuple[np.ndarray, np.ndarray, list[slice]]:
    """Return the first dense layer of all heads together: weights, bias, and the outputs of each head.

    Its inputs are cell by cell, as channels-last has them, those of a head channel by channel.
    """
    channels = sum(len(head.bias) for head in heads)
    layers = [head.hidden or head.out for head in heads]
    weights = np.zeros((sum(len(bias) for _, bias in layers), cells, channels + -channels % _ALIGNED))
    spans, row, channel = [], 0, 0
    for head, (matrix, bias) in zip(heads, layers, strict=True):
        span, read = slice(row, row + len(bias)), slice(channel, channel + len(head.bias))
        weights[span, :, read] = matrix.reshape(len(bias), len(head.bias), cells).transpose(0, 2, 1)
        spans.append(span)
        row, channel = span.stop, read.stop
    bias = np.concatenate([bias for _, bias in layers])
    return _padded(weights.reshape(len(weights), -1), 1), _padded(bias, 1), spans


def _listed(logits: Tensor, legal: Tensor) -> Tensor:
    """Return the probabilities float16 [B, L] of the listed actions, 0 at padding.

    Actions beyond the logits, which no checked request has, must not stop the device: they are clamped.
    """
    index = legal.to(torch.int64)
    listed = index >= 0
    chosen = logits.gather(1, index.clamp(0, logits.shape[1] - 1)).masked_fill(~listed, -1e30)
    return (torch.softmax(chosen, dim=1) * listed).half()


def _of_head(name: str, outputs: Tensor) -> Tensor:
    return torch.sigmoid(outputs.float()) if name == "plies_left" else torch.softmax(outputs.float(), dim=1).half()


def _of_two(mover: Tensor) -> Tensor:
    return torch.cat([mover, -mover], dim=1)


_SCORES: dict[str, Callable[[Tensor], Tensor]] = {
    "players": torch.tanh,
    "mover": lambda x: _of_two(torch.tanh(x)),
    "win_probability": lambda x: _of_two(2.0 * torch.sigmoid(x) - 1.0),
    "win_or_loss": lambda x: _of_two(torch.softmax(x, dim=1)[:, :1] * 2.0 - 1.0),
    "points": lambda x: (torch.relu(x) * (2.0 / 3.0) - 1.0).clamp(max=1.0),
}
"""Scores float32 [B, P] by `NetworkSettings.value_output`; see trainer.values."""
