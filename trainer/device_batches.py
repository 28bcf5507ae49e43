"""Batches assembled on a device from packed samples.

    samples, symmetries ── one pinned buffer, one copy ──► rows uint8 ── bits, symmetries, types ──► Batch

A row holds the fields of a sample and its symmetry (`trainer.batches.to_rows`), a tenth of the bytes of its planes. Everything
behind the copy is queued on the device, so the learner's thread goes on at once. The result equals `BatchMaker.build`.

Axes: B batch, C planes, H x W cells, A actions, L most legal actions, P players, K symmetries with the identity.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from games.core import GameSpec
from trainer.batches import Batch, Drawn, images_of, row_type, to_rows

__all__ = ["DeviceBatches"]


class DeviceBatches:
    """Maker of batches of one game on one device."""

    def __init__(self, spec: GameSpec, device: torch.device) -> None:
        self._spec = spec
        self._device = device
        row = row_type(spec)
        self._kinds = [row[name] for name in row.names or ()]
        cells, actions = images_of(spec)
        self._cells = torch.from_numpy(cells.astype(np.int64)).to(device)  # [K, H*W]
        self._actions = torch.from_numpy(actions.astype(np.int64)).to(device)  # [K, A+1], the last -1
        self._bits = torch.arange(8, dtype=torch.uint8, device=device)

    def build(self, drawn: Drawn) -> Batch:
        """Return drawn samples in the network's layout, planes with channels last."""
        rows = torch.from_numpy(to_rows(drawn))
        if self._device.type == "cuda":
            rows = rows.pin_memory()
        parts = self._parts(rows.to(self._device, non_blocking=True))
        states, legal, policy, value, opponents, plies_left, reply, weight, turns = parts
        actions = self._actions[turns]
        return Batch(
            self._planes(states, turns),
            _turned(actions, legal),
            policy.float(),
            value,
            _turned(actions, opponents),
            plies_left,
            _turned(actions, reply[:, None])[:, 0],
            weight,
            drawn.whole,
        )

    def _parts(self, rows: Tensor) -> Iterator[Tensor]:
        """Yield the arrays of `Samples` and the symmetries, [B, ...] each, from rows uint8 [B, n]."""
        begin = 0
        for kind in self._kinds:
            part = rows[:, begin : begin + kind.itemsize].clone(memory_format=torch.contiguous_format)
            yield part.view(torch.from_numpy(np.empty(0, kind.base)).dtype).reshape(len(rows), *kind.shape)
            begin += kind.itemsize

    def _planes(self, states: Tensor, turns: Tensor) -> Tensor:
        """Return float32 [B, C, H, W] from packed bits uint8 [B, n]; cell i of an image is cell `_cells[turn, i]`."""
        planes, height, width = self._spec.planes
        bits = (states[:, :, None] >> self._bits) & 1
        board = bits.reshape(len(states), -1)[:, : planes * height * width].reshape(len(states), planes, height * width)
        places = self._cells[turns][:, None].expand(-1, planes, -1)
        turned = board.gather(2, places).float().reshape(len(states), planes, height, width)
        return turned.contiguous(memory_format=torch.channels_last)


def _turned(actions: Tensor, listed: Tensor) -> Tensor:
    """Return int64 [B, n]: the images of actions int16 [B, n], -1 where there is none; `actions`: [B, A+1], the last -1."""
    index = listed.long()
    return actions.gather(1, torch.where(index < 0, actions.shape[1] - 1, index))
