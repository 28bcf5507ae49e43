"""Convolutions of a training step in the compiled kernel, as differentiable functions of torch.

    convolution    3x3, padding 1
    chain          one or more units: a convolution, its norm over the batch, relu; with a residual, the input is added
                   before the last relu

Both take dense float32 tensors on a CPU; `fits` tells. Channels are padded with zeros to whole vectors. A second derivative
is not supported and raises. With the same number of threads the same inputs give the same bits.

Axes: B positions, C channels of the input, F channels of the output, H x W cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from zerofleet.evaluators.native.training import Kernel, Unit, unsupported

__all__ = ["chain", "convolution", "fits", "kernel_for"]

_LAST = torch.channels_last


@cache
def kernel_for(height: int, width: int) -> Kernel:
    """Return the kernel for a board, made once a process."""
    return Kernel.of(height, width)


def fits(x: Tensor, weight: Tensor) -> bool:
    """Return whether the kernel computes this convolution: float32 on a CPU, eager, without autocast, on a small board."""
    return (
        x.dtype == weight.dtype == torch.float32
        and x.device.type == weight.device.type == "cpu"
        and x.dim() == 4
        and x.numel() > 0
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and not unsupported(x.shape[2], x.shape[3])
    )


def convolution(x: Tensor, weight: Tensor, kernel: Kernel | None = None) -> Tensor:
    """Return the convolution float32 [B, F, H, W] of `x` [B, C, H, W] with `weight` [F, C, 3, 3]. `kernel`: for tests."""
    kernel = kernel or kernel_for(x.shape[2], x.shape[3])
    features, lanes = weight.shape[0], kernel.instructions.lanes
    y: Tensor = _Convolution.apply(kernel, _padded(x, lanes), _padded_weight(weight, lanes))  # type: ignore[no-untyped-call]
    return y if y.shape[1] == features else y[:, :features]


def chain(
    x: Tensor, weights: Sequence[Tensor], norms: Sequence[nn.BatchNorm2d], *, residual: bool, kernel: Kernel | None = None
) -> Tensor:
    """Return the output float32 [B, F, H, W] of units one after another, and update the norms' running statistics.

    `weights`: [F, C, 3, 3] of each convolution. `residual`: add `x`, of as many channels, before the last relu. The norms
    must be in training mode.
    """
    kernel = kernel or kernel_for(x.shape[2], x.shape[3])
    features, lanes = weights[-1].shape[0], kernel.instructions.lanes
    parameters: list[Tensor] = []
    for weight, norm in zip(weights, norms, strict=True):
        parameters += [_padded_weight(weight, lanes), _padded_row(norm.weight, lanes), _padded_row(norm.bias, lanes)]
    plan = _Plan(kernel, tuple(norms), residual, torch.is_grad_enabled())
    out: Tensor = _Chain.apply(plan, _padded(x, lanes), *parameters)  # type: ignore[no-untyped-call]
    return out if out.shape[1] == features else out[:, :features]


class _Convolution(torch.autograd.Function):
    """Convolution of whole vectors of channels."""

    @staticmethod
    def forward(ctx: Any, kernel: Kernel, x: Tensor, weight: Tensor) -> Tensor:
        x = x.contiguous(memory_format=_LAST)
        y = _like(x, weight.shape[0])
        unit, by_kernel = _unit(kernel, x, weight), _forward_weights(weight)
        unit.y, unit.weights = y.data_ptr(), by_kernel.data_ptr()
        kernel.forward(unit, torch.get_num_threads())
        ctx.kernel = kernel
        ctx.save_for_backward(x, weight)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        gradient = gradients[0].contiguous(memory_format=_LAST)
        unit, turned = _unit(ctx.kernel, x, weight), _backward_weights(weight)
        unit.gradient, unit.turned = gradient.data_ptr(), turned.data_ptr()
        of_x = _like(x, x.shape[1]) if ctx.needs_input_grad[1] else None
        of_weight = _of_weights(weight) if ctx.needs_input_grad[2] else None
        unit.of_x, unit.of_weights = _address(of_x), _address(of_weight)
        ctx.kernel.backward(unit, torch.get_num_threads())
        return None, of_x, None if of_weight is None else of_weight.permute(3, 2, 0, 1)


class _Plan(NamedTuple):
    """Parts of a chain besides its tensors."""

    kernel: Kernel
    norms: tuple[nn.BatchNorm2d, ...]
    residual: bool
    differentiable: bool
    """Whether a backward pass may follow; without one, nothing is kept for it."""


class _Chain(torch.autograd.Function):
    """Units one after another; the output of one is saved as the input of the next."""

    @staticmethod
    def forward(ctx: Any, plan: _Plan, x: Tensor, *parameters: Tensor) -> Tensor:
        x = x.contiguous(memory_format=_LAST)
        saved, read = [x], x
        for i, norm in enumerate(plan.norms):
            weight, gain, shift = parameters[3 * i : 3 * i + 3]
            unit, by_kernel = _unit(plan.kernel, read, weight), _forward_weights(weight)
            y = _like(x, weight.shape[0])
            out = _like(x, weight.shape[0]) if plan.differentiable else y  # the norm reads a number before it writes it
            moments = gain.new_empty(2, len(gain))
            unit.weights, unit.y, unit.out = by_kernel.data_ptr(), y.data_ptr(), out.data_ptr()
            _set_norm(unit, norm, gain, shift, moments)
            unit.residual = x.data_ptr() if plan.residual and i == len(plan.norms) - 1 else None
            plan.kernel.forward(unit, torch.get_num_threads())
            _follow(norm, moments, y.numel() // y.shape[1])
            if plan.differentiable:
                saved += [weight, gain, shift, moments, y, out]
            read = out
        if plan.differentiable:
            ctx.save_for_backward(*saved)
            ctx.plan = plan
        return read

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, *saved = ctx.saved_tensors
        plan: _Plan = ctx.plan
        last = len(plan.norms) - 1
        gradient = gradients[0].contiguous(memory_format=_LAST)
        of_residual = _like(x, x.shape[1]) if plan.residual else None
        of_parameters: list[Tensor] = []
        for i in range(last, -1, -1):
            weight, gain, shift, moments, y, out = saved[6 * i : 6 * i + 6]
            read = x if i == 0 else saved[6 * i - 1]
            unit, turned = _unit(plan.kernel, read, weight), _backward_weights(weight)
            unit.turned, unit.y, unit.gradient = turned.data_ptr(), y.data_ptr(), gradient.data_ptr()
            _set_norm(unit, plan.norms[i], gain, shift, moments)
            of_weight, of_gain, of_shift = _of_weights(weight), torch.empty_like(gain), torch.empty_like(gain)
            unit.of_weights, unit.of_gain, unit.of_shift = of_weight.data_ptr(), of_gain.data_ptr(), of_shift.data_ptr()
            if i == last and of_residual is not None:
                unit.out, unit.of_residual = out.data_ptr(), of_residual.data_ptr()
            of_read = None
            if i > 0 or ctx.needs_input_grad[1]:
                of_read = of_residual if i == 0 and of_residual is not None else _like(read, read.shape[1])
                unit.add = int(of_read is of_residual)
            unit.of_x = _address(of_read)
            plan.kernel.backward(unit, torch.get_num_threads())
            of_parameters = [of_weight.permute(3, 2, 0, 1), of_gain, of_shift, *of_parameters]
            if of_read is not None:
                gradient = of_read
        return None, gradient if ctx.needs_input_grad[1] else None, *of_parameters


def _unit(kernel: Kernel, x: Tensor, weight: Tensor) -> Unit:
    unit = kernel.unit(x.shape[0], weight.shape[1], weight.shape[0])
    unit.x = x.data_ptr()
    return unit


def _set_norm(unit: Unit, norm: nn.BatchNorm2d, gain: Tensor, shift: Tensor, moments: Tensor) -> None:
    """Set what a norm consists of; `moments`: float32 [2, F]."""
    unit.eps, unit.gain, unit.shift = norm.eps, gain.data_ptr(), shift.data_ptr()
    unit.mean, unit.variance = moments[0].data_ptr(), moments[1].data_ptr()


def _follow(norm: nn.BatchNorm2d, moments: Tensor, count: int) -> None:
    """Update the running statistics as `nn.BatchNorm2d` does; `moments`: mean and biased variance, `count` values each."""
    if norm.running_mean is None or norm.running_var is None or norm.num_batches_tracked is None:
        return
    norm.num_batches_tracked += 1
    share = norm.momentum if norm.momentum is not None else 1.0 / float(norm.num_batches_tracked)
    norm.running_mean.lerp_(moments[0, : norm.num_features], share)
    norm.running_var.lerp_(moments[1, : norm.num_features] * (count / (count - 1)), share)


def _like(x: Tensor, channels: int) -> Tensor:
    """Return an uninitialised tensor [B, channels, H, W] with channels last."""
    batch, _, height, width = x.shape
    return torch.empty((batch, channels, height, width), dtype=torch.float32, memory_format=_LAST)


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _forward_weights(weight: Tensor) -> Tensor:
    """Return [3, 3, C, F]."""
    return weight.permute(2, 3, 1, 0).contiguous()


def _backward_weights(weight: Tensor) -> Tensor:
    """Return [3, 3, F, C]."""
    return weight.permute(2, 3, 0, 1).contiguous()


def _of_weights(weight: Tensor) -> Tensor:
    features, channels = weight.shape[:2]
    return torch.empty((3, 3, channels, features), dtype=torch.float32)


def _missing(size: int, lanes: int) -> int:
    return -size % lanes


def _padded(x: Tensor, lanes: int) -> Tensor:
    more = _missing(x.shape[1], lanes)
    return functional.pad(x, (0, 0, 0, 0, 0, more)) if more else x


def _padded_weight(weight: Tensor, lanes: int) -> Tensor:
    more, further = _missing(weight.shape[1], lanes), _missing(weight.shape[0], lanes)
    return functional.pad(weight, (0, 0, 0, 0, 0, more, 0, further)) if more or further else weight


def _padded_row(row: Tensor, lanes: int) -> Tensor:
    more = _missing(len(row), lanes)
    return functional.pad(row, (0, more)) if more else row
