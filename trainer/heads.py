"""Heads: predictions from the features of a trunk.

    DenseHead       for a perceptron or behind dense layers: one linear layer
    PlaneHead       for a tower: a 1x1 convolution, then dense layers over all cells
    MovesHead       policy of a tower where an action leads from a cell to a cell
    PliesLeftHead   wrapper of one of the first two

Axes: B batch, F features, H x W cells, A actions, N cells touched by some action, D numbers that describe a cell.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["DenseHead", "MovesHead", "PlaneHead", "PliesLeftHead"]


class DenseHead(nn.Module):
    """Linear layer over flat features."""

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.out = nn.Linear(features, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map float [B, F] to float [B, outputs]."""
        y: Tensor = self.out(x)
        return y


class PlaneHead(nn.Module):
    """1x1 convolution to a few channels, a hidden layer if `hidden` is not 0, and a linear layer."""

    def __init__(
        self, shape: tuple[int, int, int], channels: int, outputs: int, *, hidden: int = 0, bias: bool = False
    ) -> None:
        super().__init__()
        features, height, width = shape
        self.conv = nn.Conv2d(features, channels, kernel_size=1, bias=bias)
        self.norm = nn.BatchNorm2d(channels)
        flat = channels * height * width
        self.hidden = nn.Sequential(nn.Linear(flat, hidden), nn.ReLU()) if hidden else nn.Identity()
        self.out = nn.Linear(hidden or flat, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map float [B, F, H, W] to float [B, outputs]."""
        y = functional.relu(self.norm(self.conv(x)))
        out: Tensor = self.out(self.hidden(y.flatten(1)))
        return out


class MovesHead(nn.Module):
    """Attention policy: the score of an action is the scaled dot product of origin and target features of its two cells.

    A dense head has a weight for each feature of each cell and action, 20 million for the 14,641 actions of a board of 121
    cells, and learns each action in isolation. Here all actions share 2 F D weights (a bilinear form, scaled as in Vaswani et
    al. 2017), as in the "attention policy" of Leela Chess Zero (lc0 0.29, 2022). Actions without two cells, such as a pass,
    are scored from the features averaged over the board.
    """

    def __init__(self, features: int, action_cells: np.ndarray) -> None:
        """`action_cells`: int [A, 2], see `GameSpec.action_cells`; no two actions may join the same cells."""
        super().__init__()
        self.board: Tensor  # int64 [N]
        self.columns: Tensor  # int64 [A]
        self.origin = nn.Linear(features, features)
        self.target = nn.Linear(features, features)
        self.scale = 1.0 / math.sqrt(features)
        joins = (action_cells >= 0).all(axis=1)
        board, places = np.unique(action_cells[joins], return_inverse=True)
        places = places.reshape(-1, 2)
        columns = np.empty(len(action_cells), np.int64)
        columns[joins] = places[:, 0] * len(board) + places[:, 1]
        columns[~joins] = len(board) ** 2 + np.arange((~joins).sum())
        self.others = nn.Linear(features, int((~joins).sum())) if not joins.all() else None
        self.register_buffer("board", torch.from_numpy(board.astype(np.int64)), persistent=False)
        self.register_buffer("columns", torch.from_numpy(columns), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map float [B, F, H, W] to logits, float [B, A]."""
        cells = x.flatten(2).index_select(2, self.board).transpose(1, 2)  # [B, N, F]
        scores = torch.bmm(self.origin(cells), self.target(cells).transpose(1, 2)) * self.scale  # [B, N, N]
        flat = scores.flatten(1)
        if self.others is not None:
            flat = torch.cat([flat, self.others(x.mean(dim=(2, 3)))], dim=1)
        return flat.index_select(1, self.columns)


class PliesLeftHead(nn.Module):
    """Sigmoid of another head's output: plies left as a share of the longest game, in [0, 1]."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        """Map features to float32 [B, 1]."""
        return torch.sigmoid(self.inner(x).float())
