"""Batch normalisation over a batch distributed over several ranks.

Each rank normalises its part with the moments of the whole batch, and gradients flow through these moments. So a batch gives
the same network on one process or several (docs/decisions/0009-data-parallel.md). torch's SyncBatchNorm does the same, but
on CUDA only.

Axes: R ranks, B positions of this rank, F features, H x W cells.
"""

from __future__ import annotations

import copy
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainer.network import Network

__all__ = ["Exchange", "GlobalBatchNorm2d", "with_global_norms"]

_CELLS = (0, 2, 3)  # all axes except the features


class Exchange(Protocol):
    """Collective operations of all ranks, each with a tensor of the same shape."""

    def gather(self, tensor: Tensor) -> Tensor:
        """Return the tensors of all ranks, [R, ...]."""
        ...

    def add_up(self, tensor: Tensor) -> None:
        """Replace the tensor by the sum over all ranks."""
        ...


class GlobalBatchNorm2d(nn.BatchNorm2d):
    """Batch norm in training over the batch of all ranks; shares weights and statistics with the wrapped norm."""

    def __init__(self, norm: nn.BatchNorm2d, exchange: Exchange) -> None:
        super().__init__(norm.num_features, eps=norm.eps, momentum=norm.momentum)
        self._exchange = exchange
        self.weight, self.bias = norm.weight, norm.bias
        self.running_mean, self.running_var = norm.running_mean, norm.running_var
        self.num_batches_tracked = norm.num_batches_tracked

    def forward(self, x: Tensor) -> Tensor:
        """Normalise float [B, F, H, W]; every rank must call it."""
        mean, variance, count = self._moments(x.detach().float())
        self._follow(mean, variance * (count / (count - 1)))
        y: Tensor = _Normalise.apply(x, self.weight, self.bias, mean, variance, count, self.eps, self._exchange)  # type: ignore[no-untyped-call]
        return y

    @torch.no_grad()
    def _moments(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean and biased variance of the whole batch, float32 [F], and the number of values behind them, float32 [].

        Ranks send their own moments, not sums of squares: merging moments loses no digits (Chan et al. 1983).
        """
        own = x.mean(_CELLS)
        spread = (x - _broad(own)).square_().mean(_CELLS)
        count = x.new_full((1,), x.numel() / x.shape[1])
        everyone = self._exchange.gather(torch.cat([own, spread, count])).double()  # [R, 2F + 1]
        means, variances, counts = everyone[:, : len(own)], everyone[:, len(own) : -1], everyone[:, -1:]
        total = counts.sum()
        mean = (counts * means).sum(0) / total
        variance = (counts * (variances + (means - mean).square())).sum(0) / total
        return mean.float(), variance.float(), total.float()

    @torch.no_grad()
    def _follow(self, mean: Tensor, variance: Tensor) -> None:
        """Update the running statistics as `nn.BatchNorm2d` does."""
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked += 1
        share = self.momentum if self.momentum is not None else 1.0 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(variance, share)


class _Normalise(torch.autograd.Function):
    """Normalisation with given moments of the whole batch, differentiated through these moments."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, *given: Any) -> Tensor:
        mean, variance, count, eps, exchange = given
        ctx.save_for_backward(x, weight, mean, (variance + eps).rsqrt(), count)
        ctx.exchange = exchange
        return functional.batch_norm(x, mean, variance, weight, bias, training=False, eps=eps)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, inverse, count = ctx.saved_tensors
        gradient = gradients[0].float()
        normal = (x.float() - _broad(mean)).mul_(_broad(inverse))
        of_bias, of_weight = gradient.sum(_CELLS), (gradient * normal).sum(_CELLS)  # this rank's, [F]
        sums = torch.stack([of_bias, of_weight])
        ctx.exchange.add_up(sums)
        sums /= count
        of_x = (gradient - _broad(sums[0])).addcmul_(normal, _broad(sums[1]), value=-1).mul_(_broad(weight * inverse))
        return of_x.to(x.dtype), of_weight, of_bias, *[None] * 5


def with_global_norms(network: Network, exchange: Exchange) -> Network:
    """Return a view of the network (same parameters and buffers, no copies) with norms over the batch of all ranks."""
    shared = {id(tensor): tensor for tensor in (*network.parameters(), *network.buffers())}
    view = copy.deepcopy(network, shared)
    for module in list(view.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.BatchNorm2d):
                setattr(module, name, GlobalBatchNorm2d(child, exchange).train(child.training))
    return view


def _broad(features: Tensor) -> Tensor:
    """Reshape [F] to [1, F, 1, 1]."""
    return features[None, :, None, None]
