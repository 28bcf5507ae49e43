"""Served form of a network: packed bits in, probabilities of the listed actions out. Scriptable.

TorchScript requires a fixed number of returned tensors, and Triton a tuple of them, so there is a class for each number of
extra heads; `serving_module` selects it.

Axes: B batch, C planes, H x W cells, A actions, L listed actions, P players.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from games.core import GameSpec
from trainer.dense import without_dropout
from trainer.network import Network
from trainer.tower import fold_kernels
from zerofleet.contracts.heads import AUXILIARY_HEADS

__all__ = ["ServingModule", "planes_of", "serving_module", "unpack_planes"]


class ServingModule(nn.Module):
    """Served network without extra heads.

    It computes in the type of its weights, float32 as exported, for CPUs. A server with a GPU calls `.to(device).half()`
    after loading for half precision; softmax, tanh and sigmoid stay in float32.
    """

    def __init__(self, network: Network, spec: GameSpec) -> None:
        super().__init__()
        self.planes, self.height, self.width = spec.planes
        self.squash = network.policy_activation != "softmax"
        self.network = network
        self.finish = nn.ModuleList(_Probabilities() if name == "opponents" else nn.Identity() for name in network.heads)

    def forward(self, state: Tensor, legal: Tensor) -> tuple[Tensor, Tensor]:
        """Evaluate packed positions.

        `state`: uint8 [B, packed_bytes]; `legal`: int16 [B, L], padded with -1. Returns `policy` float16 [B, L], which sums
        to 1 over the listed actions and is 0 at padding, `value` float32 [B, P], and the extra heads if there are any.
        """
        policy, value, _ = self.answer(state, legal)
        return policy, value

    def answer(self, state: Tensor, legal: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Evaluate as `forward` does; the extra heads, in their wire types, are a list."""
        bits = unpack_planes(state, self.planes, self.height, self.width)
        logits, value, extra = self.network(bits.to(self.network.unit.dtype))
        index = legal.to(torch.int64)
        listed = index >= 0
        chosen = logits.gather(1, index.clamp(min=0))
        if self.squash:  # the softmax of their logarithms divides the sigmoids by their sum
            chosen = functional.logsigmoid(chosen)
        chosen = chosen.masked_fill(~listed, -1e30)  # finite, so that a row of padding stays finite
        policy = torch.softmax(chosen, dim=1) * listed
        extra_heads: list[Tensor] = []
        for i, finish in enumerate(self.finish):
            extra_heads.append(finish(extra[i]))
        return policy.half(), value, extra_heads


class _WithOneHead(ServingModule):
    """Served network with one extra head."""

    def forward(self, state: Tensor, legal: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        """See `ServingModule.forward`."""
        policy, value, extra_heads = self.answer(state, legal)
        return policy, value, extra_heads[0]


class _WithTwoHeads(ServingModule):
    """Served network with two extra heads."""

    def forward(self, state: Tensor, legal: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # type: ignore[override]
        """See `ServingModule.forward`."""
        policy, value, extra_heads = self.answer(state, legal)
        return policy, value, extra_heads[0], extra_heads[1]


class _Probabilities(nn.Module):
    """Softmax over the logits of all actions."""

    def forward(self, logits: Tensor) -> Tensor:
        """Map float32 [B, A] to float16 [B, A] that sums to 1."""
        return torch.softmax(logits, dim=1).half()


def serving_module(network: Network, spec: GameSpec) -> ServingModule:
    """Return the served form of a copy of `network`: no auxiliary heads, no dropout, evaluation mode, float32, on the CPU."""
    served = copy.deepcopy(network).cpu().float()
    fold_kernels(served)
    without_dropout(served)
    kept = [index for index, name in enumerate(served.heads) if name not in AUXILIARY_HEADS]
    served.extra = nn.ModuleList(served.extra[index] for index in kept)
    served.heads = tuple(served.heads[index] for index in kept)
    return (ServingModule, _WithOneHead, _WithTwoHeads)[len(kept)](served, spec).eval()


def planes_of(spec: GameSpec, states: np.ndarray) -> Tensor:
    """Return the planes of packed positions (uint8 [B, packed_bytes]), float32 [B, C, H, W]."""
    return unpack_planes(torch.from_numpy(np.ascontiguousarray(states)), *spec.planes).float()


def unpack_planes(state: Tensor, planes: int, height: int, width: int) -> Tensor:
    """Unpack bits, uint8 [B, packed_bytes], least significant first, into uint8 planes [B, C, H, W]."""
    shifts = torch.arange(8, dtype=torch.uint8, device=state.device)
    bits = state.unsqueeze(2).bitwise_right_shift(shifts).bitwise_and(1)  # [B, packed_bytes, 8]
    return bits.flatten(1)[:, : planes * height * width].reshape(-1, planes, height, width)
