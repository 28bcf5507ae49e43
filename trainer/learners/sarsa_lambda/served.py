"""Served form of the linear evaluation: a model of two players, with a uniform policy as for other models of values.

See docs/decisions/0014-learners.md. Axes: B batch; boards are 9 x 9.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from games.chinese_checkers.rhombus.board import SIDE
from trainer.export import Served
from trainer.exported_module import unpack_planes
from trainer.rhombus_values import LinearEvaluation
from zerofleet.contracts.manifests import NetworkDict

__all__ = ["LinearModule", "served_linear"]


class LinearModule(nn.Module):
    """Linear evaluation as a model of two players. Scriptable."""

    def __init__(self, weights: Tensor) -> None:
        """`weights`: float32 [3, F], by phase."""
        super().__init__()
        self.evaluation = LinearEvaluation(weights)
        self.side = SIDE

    def forward(self, state: Tensor, legal: Tensor) -> tuple[Tensor, Tensor]:
        """Evaluate packed positions; see `trainer.exported_module.ServingModule.forward`."""
        mine = -self.evaluation(unpack_planes(state, 2, self.side, self.side))[:, None]  # for the player to move
        listed = (legal >= 0).float()
        policy = listed / listed.sum(1, keepdim=True).clamp(min=1.0)
        return policy.half(), torch.cat((mine, -mine), dim=1)


def served_linear(weights: Tensor, network: NetworkDict) -> Served:
    """Return weights, float [3, F], as a model; `network`: their description in a manifest."""
    weights = weights.float()
    return Served(LinearModule(weights).eval(), {"weights": weights}, network)
