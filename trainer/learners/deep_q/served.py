"""Served form of a network of action values: the pool by its source, and the values of the moves in it.

    policy          softmax of Q / temperature over the pool, so that the likeliest move is the greedy one
    value           the largest Q of the pool, within [-1, 1], and its negative for the other player
    pool            (1 + score) / 2 for the moves of the pool (`zerofleet.contracts.heads`)
    action_values   1 / (1 + exp(-2 Q))

Requests list moves without an order; the pool is ranked here, so that every player of the model has the same.

Axes: B batch, L listed actions, M moves of a pool.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from games.core import GameSpec
from trainer.exported_module import unpack_planes
from trainer.q_networks import QSA, QPool

__all__ = ["TEMPERATURE", "ActionValueModule", "OwnValues"]

TEMPERATURE = 0.05
"""Temperature of the served policy: a move whose Q is 0.1 lower is seven times less likely, as prior of a search."""

_LEAST_SCORE = -0.999  # above -1, which is a move outside the pool
_NONE = -1e30


class _Ranks(nn.Module):
    """Values by rank, whatever the moves."""

    def __init__(self, network: QPool) -> None:
        super().__init__()
        self.network = network

    def forward(self, planes: Tensor, pool: Tensor) -> Tensor:
        """Map planes and pools, int64 [B, M], to float32 [B, M]."""
        values: Tensor = self.network(planes)
        return values[:, : pool.size(1)]


class _Moves(nn.Module):
    """Values by move."""

    def __init__(self, network: QSA) -> None:
        super().__init__()
        self.network = network

    def forward(self, planes: Tensor, pool: Tensor) -> Tensor:
        """Map planes and actions, int64 [B, M], to float32 [B, M]."""
        width = pool.size(1)
        values: Tensor = self.network(planes.repeat_interleave(width, 0), pool.flatten())
        return values.reshape(-1, width)


class OwnValues(nn.Module):
    """Source of a pool (`trainer.pool_sources`): the values of the network itself, as tanh(Q)."""

    def __init__(self, network: QSA) -> None:
        super().__init__()
        self.moves = _Moves(network)

    def forward(self, planes: Tensor, actions: Tensor) -> Tensor:
        """See `PoolSource.forward`."""
        scores: Tensor = torch.tanh(self.moves(planes, actions))
        return scores


class ActionValueModule(nn.Module):
    """Network and source of its pool, as a model of two players. Scriptable."""

    def __init__(self, network: QPool | QSA, source: nn.Module, spec: GameSpec, *, pool: int, score_weight: float) -> None:
        """`pool`: number of moves among which the model chooses; `score_weight`: see `trainer.learners.deep_q.values`."""
        super().__init__()
        self.planes, self.height, self.width = spec.planes
        self.pool, self.score_weight = pool, score_weight
        self.temperature, self.least, self.none = TEMPERATURE, _LEAST_SCORE, _NONE
        self.source = source
        self.values = _Moves(network) if isinstance(network, QSA) else _Ranks(network)

    def forward(self, state: Tensor, legal: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Evaluate packed positions; see `trainer.exported_module.ServingModule.forward`.

        The extra heads are those of `zerofleet.contracts.heads.MOVE_HEADS`, float32 [B, L] each.
        """
        planes = unpack_planes(state, self.planes, self.height, self.width).to(self.values.network.layers.out.weight.dtype)
        listed = legal >= 0
        actions = legal.to(torch.int64).clamp(min=0)
        scores = self.source(planes, actions).float().clamp(min=self.least, max=1.0).masked_fill(~listed, self.none)
        order = torch.sort(scores, stable=True, dim=1, descending=True)[1]
        places = order[:, : min(self.pool, legal.size(1))]  # [B, M]
        inside = listed.gather(1, places)
        scored = scores.gather(1, places)  # [B, M], the best first
        values = self.score_weight * (scored - scored[:, :1]) + self.values(planes, actions.gather(1, places)).float()
        logits = (values / self.temperature).masked_fill(~inside, self.none)
        shares = torch.softmax(logits, dim=1) * inside
        best = values.masked_fill(~inside, self.none).amax(1, keepdim=True).clamp(min=-1.0, max=1.0)
        best = torch.where(inside.any(1, keepdim=True), best, torch.zeros_like(best))
        empty = torch.zeros_like(scores)
        ranked = (1.0 + scored) / 2.0
        return (
            empty.scatter(1, places, shares).half(),
            torch.cat((best, -best), dim=1),
            empty.scatter(1, places, ranked.masked_fill(~inside, 0.0)),
            empty.scatter(1, places, torch.sigmoid(2.0 * values) * inside),
        )
