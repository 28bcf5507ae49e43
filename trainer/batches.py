"""Batches: samples unpacked and transformed by a random symmetry, in the network's layout.

Axes: B batch, C planes, H x W cells, A actions, L most legal actions, P players, K symmetries with the identity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from games.compiled import compiled
from games.core import GameSpec
from trainer.samples import Samples

__all__ = ["Batch", "BatchMaker", "Drawn", "Whole", "from_rows", "images_of", "row_type", "to_rows"]


class Whole(NamedTuple):
    """Size of a whole batch, of which a rank may hold a part: losses are weighted means over the whole."""

    positions: int
    weight: float
    """Sum of the weights."""
    with_opponents: float
    """Weight of the positions with known choices of the other players in the same round."""
    with_plies_left: float
    """Weight of the positions with a known number of plies left."""
    with_reply: float
    """Weight of the positions with a known move of the next player."""

    @classmethod
    def of(cls, samples: Samples) -> Self:
        """Return the size of samples that form a whole batch."""
        weight = samples.weight.astype(np.float64)
        known = ((samples.opponents >= 0).any(axis=1), samples.plies_left >= 0, samples.reply >= 0)
        return cls(len(samples), float(weight.sum()), *(float(weight[rows].sum()) for rows in known))


class Drawn(NamedTuple):
    """Samples drawn for a batch, or a part of them."""

    samples: Samples
    turns: np.ndarray  # int64 [B], symmetry applied to each
    whole: Whole
    progress: float = 0.0
    """Share of the planned training that has passed, in [0, 1]."""

    def part(self, begin: int, end: int) -> Drawn:
        """Return the samples from `begin` to before `end`."""
        samples = Samples(*(array[begin:end] for array in self.samples.arrays))
        return self._replace(samples=samples, turns=self.turns[begin:end])


@dataclass(frozen=True, slots=True)
class Batch:
    """Input and targets of one step, or a rank's part of them."""

    planes: Tensor  # float32 [B, C, H, W]
    legal: Tensor  # int64 [B, L], padded with -1
    policy: Tensor  # float32 [B, L]
    value: Tensor  # float32 [B, P]
    opponents: Tensor  # int64 [B, P - 1], -1 without a choice in the same round
    plies_left: Tensor  # float32 [B], -1 where unknown
    reply: Tensor  # int64 [B], -1 where unknown
    weight: Tensor  # float32 [B], above 0
    whole: Whole

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device, planes in channels-last layout, in which CPUs and GPUs convolve faster."""
        planes = self.planes.to(device, memory_format=torch.channels_last, non_blocking=True)
        names = ("legal", "policy", "value", "opponents", "plies_left", "reply", "weight")
        moved = {name: getattr(self, name).to(device, non_blocking=True) for name in names}
        return replace(self, planes=planes, **moved)


class BatchMaker:
    """Makes batches for one game."""

    def __init__(self, spec: GameSpec) -> None:
        self._planes = spec.planes
        self._cells, self._actions = images_of(spec)

    def turn(self, samples: Samples, rng: np.random.Generator | None) -> Drawn:
        """Draw a symmetry for each sample of a whole batch; without `rng`, the identity."""
        count = len(samples)
        turns = np.zeros(count, np.int64) if rng is None else rng.integers(len(self._cells), size=count)
        return Drawn(samples, turns, Whole.of(samples))

    def make(self, samples: Samples, rng: np.random.Generator | None) -> Batch:
        """Return the batch of all `samples`, each under its own random symmetry; without `rng`, under the identity."""
        return self.build(self.turn(samples, rng))

    def build(self, drawn: Drawn) -> Batch:
        """Return drawn samples in the network's layout."""
        samples, turns, whole, _ = drawn
        count = len(samples)
        planes = np.empty((count, *self._planes), np.float32)
        _unpack(samples.states, turns, self._cells, planes.reshape(count, self._planes[0], -1))
        legal = self._actions[turns[:, None], samples.legal].astype(np.int64)
        return Batch(
            torch.from_numpy(planes),
            torch.from_numpy(legal),
            torch.from_numpy(samples.policy.astype(np.float32)),
            torch.from_numpy(np.ascontiguousarray(samples.value)),
            torch.from_numpy(self._actions[turns[:, None], samples.opponents].astype(np.int64)),
            torch.from_numpy(np.ascontiguousarray(samples.plies_left)),
            torch.from_numpy(self._actions[turns, samples.reply].astype(np.int64)),
            torch.from_numpy(np.ascontiguousarray(samples.weight)),
            whole,
        )


def images_of(spec: GameSpec) -> tuple[np.ndarray, np.ndarray]:
    """Return cells int32 [K, H*W] and actions int16 [K, A+1] of all symmetries, the identity first; action -1 gives -1."""
    cells = spec.planes[1] * spec.planes[2]
    identity = (np.arange(cells), np.arange(spec.num_actions))
    images = [identity, *((symmetry.cells, symmetry.actions) for symmetry in spec.symmetries)]
    actions = np.stack([image[1] for image in images]).astype(np.int16)
    turned = np.pad(actions, ((0, 0), (0, 1)), constant_values=-1)
    return np.stack([image[0] for image in images]).astype(np.int32), turned


def row_type(spec: GameSpec) -> np.dtype[np.void]:
    """Return the layout of a row of drawn samples: the fields of a sample, and last its symmetry."""
    sample = Samples.empty(spec, 0).row_type
    return np.dtype([*((name, sample[name]) for name in sample.names or ()), ("turn", np.int64)])


def to_rows(drawn: Drawn) -> np.ndarray:
    """Serialise drawn samples, uint8 [B, n], as `row_type` describes it."""
    return np.concatenate([drawn.samples.to_rows(), drawn.turns[:, None].view(np.uint8)], axis=1)


def from_rows(rows: np.ndarray, spec: GameSpec, whole: Whole, progress: float = 0.0) -> Drawn:
    """Return the drawn samples that `to_rows` serialised into `rows`, which may be a part of its result."""
    turns = np.ascontiguousarray(np.ascontiguousarray(rows).view(row_type(spec))["turn"][:, 0])
    return Drawn(Samples.from_rows(rows[:, : -turns.itemsize], spec), turns, whole, progress)


@compiled
def _unpack(states: np.ndarray, turns: np.ndarray, cells: np.ndarray, out: np.ndarray) -> None:
    """Write the planes of packed states, float32 [B, C, H*W]; cell i of an image is cell cells[i] of the state."""
    size = cells.shape[1]
    for b in range(out.shape[0]):
        source = cells[turns[b]]
        for plane in range(out.shape[1]):
            for i in range(size):
                bit = plane * size + source[i]
                out[b, plane, i] = (states[b, bit >> 3] >> (bit & 7)) & 1
