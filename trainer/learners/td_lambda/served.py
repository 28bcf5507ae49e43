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

__all__ = ["ValueModule", "as_tensors", "from_tensors", "value_module"]


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
        mine = self.sign * (2.0 * self.chances(bits.to(self.out.weight.dtype)) - 1.0)
        return values_alone(mine, legal)

    def chances(self, planes: Tensor) -> Tensor:
        """Return the network's output, float32 [B, 1], for planes (float [B, C, H, W])."""
        inputs = self.reading(planes).flatten(1)
        hidden = torch.sigmoid(self.hidden(inputs).float())
        for layer in self.deep:
            hidden = torch.sigmoid(layer(hidden.to(self.out.weight.dtype)).float())
        return torch.sigmoid(self.out(hidden.to(self.out.weight.dtype)).float())


class FirstPlayerModule(ValueModule):
    """Perceptron that reads positions in the first player's view, and whose output is that player's chance. Scriptable.

    `games.views` states why the view and the player to move follow from the bits.
    """

    def __init__(self, net: Perceptron, spec: GameSpec) -> None:
        super().__init__(net, spec, of_opponent=False)
        if spec.other_view is None:
            raise ValueError(f"{spec.name} has no view of the other player")
        self.sources: Tensor  # int64 [C]
        self.inverted: Tensor  # float32 [C, 1, 1]
        inverted = torch.tensor([float(one) for one in spec.other_view.inverted])[:, None, None]
        self.register_buffer("sources", torch.tensor(spec.other_view.sources), persistent=False)
        self.register_buffer("inverted", inverted, persistent=False)

    def forward(self, state: Tensor, legal: Tensor) -> tuple[Tensor, Tensor]:
        """See `ValueModule.forward`."""
        planes = unpack_planes(state, self.planes, self.height, self.width).float()
        stones = planes[:, :2].sum(dim=(2, 3))
        first = stones[:, :1] == stones[:, 1:]
        swapped = (planes.index_select(1, self.sources) - self.inverted).abs()
        seen = torch.where(first[:, :, None, None], planes, swapped)
        value = 2.0 * self.chances(seen.to(self.out.weight.dtype)) - 1.0
        return values_alone(torch.where(first, value, -value), legal)


def value_module(net: Perceptron, spec: GameSpec, successor: str) -> ValueModule:
    """Return the served form of a network that learned from successive positions of a kind (`TdLambdaSettings.successor`)."""
    if successor == "first_player":
        return FirstPlayerModule(net, spec)
    return ValueModule(net, spec, of_opponent=successor == "own")


def values_alone(mine: Tensor, legal: Tensor) -> tuple[Tensor, Tensor]:
    """Return a uniform policy, float16 [B, L], and the values `mine` (float32 [B, 1]) for both players, float32 [B, 2]."""
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
