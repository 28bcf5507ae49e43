"""Residual towers trained by the compiled kernel on a CPU (docs/decisions/0017-training-kernel.md).

`with_compiled_units` returns a view of a network: the same parameters and buffers, with its 3x3 convolutions in the kernel
and, where a plain norm and relu follow, these too. The network itself stays plain torch; average, checkpoints and exports
are made of it.

    stem            convolution, norm, relu                              chain of one unit
    residual block  convolution, norm, relu, convolution, norm, relu     chain of two units and a residual
    otherwise       convolution                                          with pooling, squeeze, a bias, or norms over ranks

Axes: B positions, C planes, F features, H x W cells.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainer.compiled_units import chain, convolution, fits
from trainer.network import Network
from trainer.norms import GlobalBatchNorm2d
from trainer.tower import HexConv2d, ResidualBlock, Tower
from zerofleet.evaluators.native.training import Kernel, unsupported

__all__ = ["backend_name", "obstacle", "with_compiled_units"]

_LEAST_LANES = 8  # narrower vectors are slower than torch


def backend_name() -> str:
    """Return the kernel's name with the instruction set of this processor, such as `native_avx2`. Needs the kernel."""
    return Kernel.of(1, 1).name


def obstacle(network: nn.Module, device: torch.device, board: tuple[int, ...]) -> str:
    """Return the reason why torch alone trains a network; empty if the kernel can take part. `board`: height and width."""
    if device.type != "cpu":
        return f"training is on a device of type {device.type}"
    trunk = getattr(network, "trunk", None)
    if not isinstance(trunk, Tower):
        return "the network has no residual tower"
    if trunk.stem.weight.dtype != torch.float32:
        return f"its weights are {trunk.stem.weight.dtype}"
    height, width = board
    if reason := unsupported(height, width):
        return reason
    return "" if Kernel.of(1, 1).instructions.lanes >= _LEAST_LANES else "the processor has no AVX2"


def with_compiled_units(network: Network, *, kernel: Kernel | None = None) -> Network:
    """Return a view of a network without `obstacle`, with its tower in the kernel; see the module's text.

    Where an input does not fit the kernel, and in evaluation mode, the view computes as torch does. `kernel`: for tests.
    """
    shared: dict[int, object] = {id(tensor): tensor for tensor in (*network.parameters(), *network.buffers())}
    shared |= {id(norm): norm for norm in network.modules() if isinstance(norm, GlobalBatchNorm2d)}  # they hold a connection
    view = copy.deepcopy(network, shared)
    if isinstance(view.trunk, Tower):
        view.trunk = _CompiledTower(view.trunk, kernel)  # type: ignore[assignment]
    return view


class _CompiledTower(nn.Module):
    """`Tower` in the kernel."""

    def __init__(self, tower: Tower, kernel: Kernel | None) -> None:
        super().__init__()
        self.stem = tower.stem
        self.stem_norm = tower.stem_norm
        self.blocks = nn.Sequential(*(_compiled(block, kernel) for block in tower.blocks))
        self._kernel = kernel
        self._plain = tower.stem.bias is None and _is_plain(tower.stem_norm)
        self.train(tower.training)

    def forward(self, planes: Tensor) -> Tensor:
        """Map float [B, C, H, W] to features, float [B, F, H, W]."""
        if not self._plain or not self.training or not fits(planes, self.stem.weight):
            x = functional.relu(self.stem_norm(self.stem(planes)))
        else:
            x = chain(planes, [_weight(self.stem)], [self.stem_norm], residual=False, kernel=self._kernel)
        y: Tensor = self.blocks(x)
        return y


class _CompiledBlock(nn.Module):
    """`ResidualBlock` without pooling and squeeze, in the kernel."""

    def __init__(self, block: ResidualBlock, kernel: Kernel | None) -> None:
        super().__init__()
        self.block = block
        self._kernel = kernel

    def forward(self, x: Tensor) -> Tensor:
        """Map float [B, F, H, W] to the same shape."""
        block = self.block
        if not self.training or not fits(x, block.conv1.weight):
            y: Tensor = block(x)
            return y
        weights, norms = [_weight(block.conv1), _weight(block.conv2)], [block.norm1, block.norm2]
        return chain(x, weights, norms, residual=True, kernel=self._kernel)


class _CompiledConvolution(nn.Module):
    """3x3 convolution without a bias, in the kernel."""

    def __init__(self, plain: nn.Conv2d, kernel: Kernel | None) -> None:
        super().__init__()
        self.plain = plain
        self._kernel = kernel

    def forward(self, x: Tensor) -> Tensor:
        """Map float [B, C, H, W] to [B, F, H, W]."""
        if not self.training or not fits(x, self.plain.weight):
            y: Tensor = self.plain(x)
            return y
        return convolution(x, _weight(self.plain), self._kernel)


def _compiled(block: nn.Module, kernel: Kernel | None) -> nn.Module:
    if not isinstance(block, ResidualBlock):
        return block
    if block.pooling is None and block.squeeze is None and _is_plain(block.norm1) and _is_plain(block.norm2):
        return _CompiledBlock(block, kernel)
    block.conv1 = _CompiledConvolution(block.conv1, kernel)  # type: ignore[assignment]
    block.conv2 = _CompiledConvolution(block.conv2, kernel)  # type: ignore[assignment]
    return block


def _is_plain(norm: nn.Module) -> bool:
    """Return whether a norm takes its moments from the batch of this process alone, with weights of its own."""
    return type(norm) is nn.BatchNorm2d and norm.affine


def _weight(convolution: nn.Conv2d) -> Tensor:
    """Return the weights in effect: masked on a hexagonal lattice."""
    return convolution.weight * convolution.mask if isinstance(convolution, HexConv2d) else convolution.weight
