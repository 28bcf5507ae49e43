"""Trunks: features for the heads from planes.

`Tower` is AlphaZero's residual tower (Silver et al. 2018), with kernels of six neighbours on a hexagonal board, and by setting
with global pooling or squeeze-and-excitation in its blocks.
`Perceptron` is a stack of dense layers, for encodings without a board.
`trainer.convolutions` has a trunk without residual blocks.

Axes: B batch, C planes, H x W cells, F features.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainer.dense import dense_layers
from zerofleet.presets import NetworkSettings

__all__ = ["HexConv2d", "Perceptron", "Tower", "fold_kernels"]


class HexConv2d(nn.Conv2d):
    """3x3 convolution on a hexagonal lattice: two corners of the kernel are no neighbours, and always zero.

        . o o       rows are shifted against each other, so of the eight cells around (y, x) the two at
        o * o       (y - 1, x - 1) and (y + 1, x + 1) do not touch it (see `games.core.GameSpec.lattice`)
        o o .

    As in Hoogeboom et al. 2018. Weights are masked in every pass, so that neither optimiser nor average can restore the
    corners. Exports are folded (`fold_kernels`): serving costs as much as a square kernel.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, kernel_size=3, padding=1, bias=False)
        self.mask: Tensor  # float [1, 1, 3, 3]
        mask = torch.ones(1, 1, 3, 3)
        mask[0, 0, 0, 0] = mask[0, 0, 2, 2] = 0.0
        self.register_buffer("mask", mask, persistent=False)  # a constant, not stored
        with torch.no_grad():
            self.weight.mul_(mask)

    def forward(self, x: Tensor) -> Tensor:
        """Map float [B, inputs, H, W] to [B, outputs, H, W]."""
        y: Tensor = self._conv_forward(x, self.weight * self.mask, None)
        return y


def fold_kernels(module: nn.Module) -> None:
    """Replace, in place, every `HexConv2d` below `module` by an equivalent plain convolution."""
    for name, child in module.named_children():
        if isinstance(child, HexConv2d):
            plain = nn.Conv2d(child.in_channels, child.out_channels, kernel_size=3, padding=1, bias=False)
            plain.weight = nn.Parameter((child.weight * child.mask).detach())
            setattr(module, name, plain.train(child.training))
        else:
            fold_kernels(child)


def _conv3x3(inputs: int, outputs: int, *, hexagonal: bool, bias: bool = False) -> nn.Conv2d:
    return HexConv2d(inputs, outputs) if hexagonal else nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=bias)


class GlobalPooling(nn.Module):
    """Bias of some channels from the others' mean and maximum over the board (Wu 2019, section 3.3), and relu.

    A 3x3 convolution covers a neighbourhood; a pooled channel carries what exists anywhere to every cell. The bias is added
    behind the norm, so that norms still fold into convolutions when served. Boards are of one size, so the mean is not scaled
    by it.
    """

    def __init__(self, channels: int, pooled: int) -> None:
        super().__init__()
        self.pooled = pooled
        self.bias = nn.Linear(2 * pooled, channels - pooled)

    def forward(self, x: Tensor) -> Tensor:
        """Map float [B, F, H, W] to the channels behind the pooled ones, float [B, F - pooled, H, W]."""
        read = functional.relu(x[:, : self.pooled])
        bias = self.bias(torch.cat([read.mean(dim=(2, 3)), read.amax(dim=(2, 3))], dim=1))
        return functional.relu(x[:, self.pooled :] + bias[:, :, None, None])


class SqueezeExcitation(nn.Module):
    """Scale of each channel in [0, 1] from the means of all channels over the board (Hu et al. 2018)."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.squeeze = nn.Linear(channels, width)
        self.excite = nn.Linear(width, channels)

    def forward(self, x: Tensor) -> Tensor:
        """Map float [B, F, H, W] to the same shape."""
        scale = torch.sigmoid(self.excite(functional.relu(self.squeeze(x.mean(dim=(2, 3))))))
        return x * scale[:, :, None, None]


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions and the input added to their result (He et al. 2016).

    `pooled` channels between the convolutions bias the others, and the result is scaled through a bottleneck of width
    `squeeze`; 0 leaves the one or the other out.
    """

    def __init__(self, channels: int, *, hexagonal: bool, pooled: int = 0, squeeze: int = 0) -> None:
        super().__init__()
        self.conv1 = _conv3x3(channels, channels, hexagonal=hexagonal)
        self.norm1 = nn.BatchNorm2d(channels)
        self.pooling = GlobalPooling(channels, pooled) if pooled else None
        self.conv2 = _conv3x3(channels - pooled, channels, hexagonal=hexagonal)
        self.norm2 = nn.BatchNorm2d(channels)
        self.squeeze = SqueezeExcitation(channels, squeeze) if squeeze else None
        nn.init.zeros_(self.norm2.weight)  # a new block is the identity: deep towers train from the first step

    def forward(self, x: Tensor) -> Tensor:
        """Map float [B, F, H, W] to the same shape."""
        y = self.norm1(self.conv1(x))
        y = self.pooling(y) if self.pooling is not None else functional.relu(y)
        y = self.norm2(self.conv2(y))
        if self.squeeze is not None:
            y = self.squeeze(y)
        return functional.relu(x + y)


class Tower(nn.Module):
    """Stem and residual blocks; the board keeps its size."""

    def __init__(
        self,
        planes: int,
        channels: int,
        blocks: int,
        *,
        hexagonal: bool = False,
        bias: bool = False,
        pooled: int = 0,
        squeeze: int = 0,
    ) -> None:
        """`bias`: of the stem, on square kernels; `pooled`, `squeeze`: see `ResidualBlock`."""
        super().__init__()
        self.stem = _conv3x3(planes, channels, hexagonal=hexagonal, bias=bias)
        self.stem_norm = nn.BatchNorm2d(channels)
        self.blocks = nn.Sequential(
            *(ResidualBlock(channels, hexagonal=hexagonal, pooled=pooled, squeeze=squeeze) for _ in range(blocks))
        )

    def forward(self, planes: Tensor) -> Tensor:
        """Map float [B, C, H, W] to features, float [B, F, H, W]."""
        x: Tensor = self.blocks(functional.relu(self.stem_norm(self.stem(planes))))
        return x


class Perceptron(nn.Module):
    """Dense layers, each with its activation, over the bits of all planes, or over the features of a trunk with a board."""

    def __init__(self, inputs: int, widths: tuple[int, ...], settings: NetworkSettings) -> None:
        super().__init__()
        self.layers = dense_layers(inputs, widths, settings)

    def forward(self, planes: Tensor) -> Tensor:
        """Map float [B, C, H, W] or [B, inputs] to features, float [B, F]."""
        x: Tensor = self.layers(planes.flatten(1))
        return x
