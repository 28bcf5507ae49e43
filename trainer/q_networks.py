"""Small convolutional networks of action values, for learners such as DQN and deep SARSA.

Two convolutions, 4x4 and 2x2, both with stride 2 and relu, and a linear layer: the smallest form of Mnih et al. 2015, as the
second thesis of `docs/networks.md` has it on 9 x 9 cells. The thesis describes two outputs that contradict each other:

    QPool   planes ──────────────────────► one value for each rank of a pool of moves, ordered by its maker
    QSA     planes, source, target ──────► the value of one move

Axes: B batch, C planes, H x W cells.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from games.core import GameSpec
from trainer.reading import channels_read, reading_of
from zerofleet.errors import ConfigurationError
from zerofleet.presets import NetworkSettings

__all__ = ["QSA", "QPool", "new_q_network"]

_KERNELS = (4, 2)
_STRIDE = 2


class _Convolutions(nn.Module):
    """Planes to values: two convolutions and a linear layer."""

    def __init__(self, spec: GameSpec, settings: NetworkSettings, *, planes: int, outputs: int) -> None:
        super().__init__()
        size = list(spec.planes[1:])
        self.pads: list[list[int]] = []
        for kernel in _KERNELS:
            self.pads.append(_pads(size, kernel) if settings.q_padding == "same" else [0, 0, 0, 0])
            size = [_size_after(cells, kernel, settings.q_padding) for cells in size]
        if min(size) < 1:
            raise ConfigurationError(
                f"network.q_padding=valid leaves nothing of a board of {spec.planes[1]} x {spec.planes[2]} behind "
                "convolutions of 4x4 and 2x2 with stride 2; set q_padding=same"
            )
        first, second = settings.q_channels
        self.conv1 = nn.Conv2d(planes, first, kernel_size=_KERNELS[0], stride=_STRIDE)
        self.conv2 = nn.Conv2d(first, second, kernel_size=_KERNELS[1], stride=_STRIDE)
        self.out = nn.Linear(second * size[0] * size[1], outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map float [B, planes, H, W] to float32 [B, outputs]."""
        x = functional.relu(self.conv1(functional.pad(x, self.pads[0])))
        x = functional.relu(self.conv2(functional.pad(x, self.pads[1])))
        values: Tensor = self.out(x.flatten(1)).float()
        return values


class QPool(nn.Module):
    """Values of the moves of a pool, by rank."""

    def __init__(self, spec: GameSpec, settings: NetworkSettings) -> None:
        super().__init__()
        self.reading = reading_of(spec, flat=False)
        self.layers = _Convolutions(spec, settings, planes=channels_read(spec), outputs=settings.pool)

    def forward(self, planes: Tensor) -> Tensor:
        """Map planes, float [B, C, H, W], to values for the player to move, float32 [B, pool]."""
        values: Tensor = self.layers(self.reading(planes))
        return values


class QSA(nn.Module):
    """Value of a move, whose source and target cells are two more planes."""

    def __init__(self, spec: GameSpec, settings: NetworkSettings) -> None:
        """Raises `ConfigurationError` for a game whose actions have no cells."""
        super().__init__()
        if spec.action_cells is None:
            raise ConfigurationError(
                f"network.kind=q_sa needs moves from a cell to a cell, which the actions of {spec.name} are not; use q_pool"
            )
        self.cells: Tensor  # int64 [A, 2]
        self.register_buffer("cells", torch.from_numpy(spec.action_cells).to(torch.int64), persistent=False)
        self.reading = reading_of(spec, flat=False)
        self.layers = _Convolutions(spec, settings, planes=channels_read(spec) + 2, outputs=1)

    def forward(self, planes: Tensor, actions: Tensor) -> Tensor:
        """Map planes, float [B, C, H, W], and actions, int64 [B], to values for the player to move, float32 [B]."""
        height, width = planes.shape[2], planes.shape[3]
        cells = self.cells.index_select(0, actions)[:, :, None]  # [B, 2, 1]
        board = torch.arange(height * width, device=planes.device)[None, None, :]
        moves = (cells == board).to(planes.dtype).reshape(-1, 2, height, width)
        values: Tensor = self.layers(torch.cat([self.reading(planes), moves], dim=1))
        return values.squeeze(1)


def new_q_network(spec: GameSpec, settings: NetworkSettings, *, seed: int) -> QPool | QSA:
    """Return a randomly initialised network of action values, determined by the seed; the global generator is not used.

    Raises `ConfigurationError` for another `kind`, and for settings that do not fit the game.
    """
    kinds: dict[str, type[QPool | QSA]] = {"q_pool": QPool, "q_sa": QSA}
    if settings.kind not in kinds:
        raise ConfigurationError(
            f"network.kind={settings.kind} has a policy and a value; a learner of action values needs q_pool or q_sa"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return kinds[settings.kind](spec, settings)


def _pads(size: list[int], kernel: int) -> list[int]:
    """Return left, right, top and bottom, such that every cell is seen: the odd row or column is added behind."""
    height, width = ((-(-cells // _STRIDE) - 1) * _STRIDE + kernel - cells for cells in size)
    return [width // 2, width - width // 2, height // 2, height - height // 2]


def _size_after(cells: int, kernel: int, padding: str) -> int:
    return -(-cells // _STRIDE) if padding == "same" else (cells - kernel) // _STRIDE + 1
