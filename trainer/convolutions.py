"""Trunk of plain 3x3 convolutions, as in the smaller network of AlphaZero General (Thakoor, Nair and Jhunjhunwala 2017).

Axes: B batch, C planes, H x W cells, F features.
"""

from __future__ import annotations

from torch import Tensor, nn

from zerofleet.errors import ConfigurationError

__all__ = ["PlainTower", "board_after"]


class PlainTower(nn.Module):
    """Convolutions with bias, each with batch norm and relu; `valid` ones shrink the board by two rows and columns."""

    def __init__(self, planes: int, channels: int, paddings: tuple[str, ...]) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for index, padding in enumerate(paddings):
            before = channels if index else planes
            convolution = nn.Conv2d(before, channels, kernel_size=3, padding=1 if padding == "same" else 0)
            layers += [convolution, nn.BatchNorm2d(channels), nn.ReLU()]
        self.layers = nn.Sequential(*layers)

    def forward(self, planes: Tensor) -> Tensor:
        """Map float [B, C, H, W] to features, float [B, F, H', W']."""
        x: Tensor = self.layers(planes)
        return x


def board_after(height: int, width: int, paddings: tuple[str, ...]) -> tuple[int, int]:
    """Return the size of the board behind the convolutions; raises `ConfigurationError` when nothing is left of it."""
    lost = 2 * paddings.count("valid")
    if min(height, width) <= lost:
        raise ConfigurationError(
            f"network.convolutions has {lost // 2} without padding, which take {lost} rows and columns of a board of "
            f"{height} x {width}; use same in place of valid"
        )
    return height - lost, width - lost
