"""Served form of a value network: the value of the position, and a policy without preference.

A request holds a position as its player to move sees it, and no rules, so the afterstates of its moves are unknown here. The
policy is therefore uniform over the legal moves, and a player looks ahead by the rules: a search, or the agent
`network,by=value` (docs/decisions/0014-learners.md).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from games.core import GameSpec
from trainer.exported_module import unpack_planes
from trainer.reading import reading_of
from zerofleet.evaluators.in_process.kernels import Perceptron, perceptron_of

__all__ = ["ValueModule", "as_tensors", "from_tensors"]


class ValueModule(nn.Module):
    """Perceptron of sigmoids as a model of two players. Scriptable."""

    def __init__(self, net: Perceptron, spec: GameSpec, *, of_opponent: bool) -> None:
        """`of_opponent`: the output is the probability that the player who is not to move wins."""
        super().__init__()
        self.planes, self.height, self.width = spec.planes
        self.sign = -1.0 if of_opponent else 1.0
        self.reading = reading_of(spec, flat=True)
        inputs, units = net.hidden.shape
        self.hidden = nn.Linear(inputs, units)
        self.deep = nn.ModuleList(nn.Linear(units, units) for _ in net.deep_bias)
        self.out = nn.Linear(units, 1)
        self.load_state_dict(as_tensors(net))

    def forward(self, state: Tensor, legal: Tensor) -> tuple[Tensor, Tensor]:
        """Evaluate packed positions; see `trainer.exported_module.ServingModule.forward`.

        The value of a player is 2 V - 1 for the probability V of winning: a draw counts as the learner's reward for it.
        """
        bits = unpack_planes(state, self.planes, self.height, self.width)
        inputs = self.reading(bits.to(self.out.weight.dtype)).flatten(1)
        hidden = torch.sigmoid(self.hidden(inputs).float())
        for layer in self.deep:
            hidden = torch.sigmoid(layer(hidden.to(self.out.weight.dtype)).float())
        chance = torch.sigmoid(self.out(hidden.to(self.out.weight.dtype)).float())
        mine = self.sign * (2.0 * chance - 1.0)
        listed = (legal >= 0).float()
        policy = listed / listed.sum(1, keepdim=True).clamp(min=1.0)
        return policy.half(), torch.cat((mine, -mine), dim=1)


def as_tensors(net: Perceptron) -> dict[str, Tensor]:
    """Return the weights as float32 tensors, named and laid out as those of torch's linear layers."""
    return {
        "hidden.weight": torch.from_numpy(net.hidden.T.astype(np.float32)).contiguous(),
        "hidden.bias": torch.from_numpy(net.hidden_bias.astype(np.float32)),
        **{f"deep.{m}.weight": torch.from_numpy(w.T.astype(np.float32)).contiguous() for m, w in enumerate(net.deep)},
        **{f"deep.{m}.bias": torch.from_numpy(b.astype(np.float32)) for m, b in enumerate(net.deep_bias)},
        "out.weight": torch.from_numpy(net.out[None].astype(np.float32)),
        "out.bias": torch.from_numpy(net.out_bias.astype(np.float32)),
    }


def from_tensors(tensors: Mapping[str, Tensor]) -> Perceptron:
    """Return the float64 perceptron of tensors named as by `as_tensors`."""
    arrays = {name: tensor.double().numpy().copy() for name, tensor in tensors.items()}
    weights = {
        "hidden": np.ascontiguousarray(arrays["hidden.weight"].T),
        "hidden_bias": arrays["hidden.bias"],
        "out": arrays["out.weight"][0].copy(),
        "out_bias": arrays["out.bias"],
    }
    further = sum(name.startswith("deep.") for name in arrays) // 2
    if further:
        weights["deep"] = np.stack([arrays[f"deep.{layer}.weight"].T for layer in range(further)])
        weights["deep_bias"] = np.stack([arrays[f"deep.{layer}.bias"] for layer in range(further)])
    return perceptron_of(weights)
