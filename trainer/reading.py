"""Inputs of a network: the numbers that a game's encoding reads from the bits of its planes.

Axes: B batch, C planes, H x W cells, K numbers per cell, M numbers per position.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from games.core import GameSpec
from games.reading import Reading

__all__ = ["FlatReading", "PlaneReading", "channels_read", "reading_of"]


class _Weights(nn.Module):
    """Weights of a `Reading`: constants, neither trained nor stored."""

    def __init__(self, reading: Reading) -> None:
        super().__init__()
        self.cells: Tensor  # float [K, C]
        self.position: Tensor  # float [C, M]
        self.offsets: Tensor  # float [M]
        planes = len(reading.cells[0])
        self.register_buffer("cells", torch.tensor(reading.cells), persistent=False)
        position = torch.tensor(reading.position).reshape(-1, planes).t().contiguous()
        self.register_buffer("position", position, persistent=False)
        self.register_buffer("offsets", torch.tensor(reading.offsets, dtype=torch.float32), persistent=False)

    def numbers(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the numbers of the cells, float [B, K, H*W], and of the position, float [B, M]."""
        of_cells = torch.matmul(self.cells, planes.flatten(2))
        return of_cells, torch.matmul(planes[:, :, 0, 0], self.position) + self.offsets


class FlatReading(_Weights):
    """Inputs of a network without a board, in the order of `games.reading.read_inputs`."""

    def forward(self, planes: Tensor) -> Tensor:
        """Map float [B, C, H, W] to float [B, K*H*W + M]."""
        cells, position = self.numbers(planes)
        return torch.cat([cells.flatten(1), position], dim=1)


class PlaneReading(_Weights):
    """Inputs of a network with a board: a number of the position fills a plane."""

    def forward(self, planes: Tensor) -> Tensor:
        """Map float [B, C, H, W] to float [B, K + M, H, W]."""
        cells, position = self.numbers(planes)
        board = cells.reshape(planes.shape[0], -1, planes.shape[2], planes.shape[3])
        filled = position[:, :, None, None].expand(-1, -1, planes.shape[2], planes.shape[3])
        return torch.cat([board, filled], dim=1)


def reading_of(spec: GameSpec, *, flat: bool) -> nn.Module:
    """Return the first layer of a network: the game's reading, or the identity where a network reads bits."""
    if spec.reading is None:
        return nn.Identity()
    return FlatReading(spec.reading) if flat else PlaneReading(spec.reading)


def channels_read(spec: GameSpec) -> int:
    """Return the number of planes that a network with a board reads."""
    return spec.planes[0] if spec.reading is None else len(spec.reading.cells) + len(spec.reading.position)
