"""Values of transitions by a network of either kind, and the targets of the two learners.

    Q(s, a) = b (score(a) - best score of the pool) + f(s, a)        b: `deep_q.score_weight`; f: the network

Axes: B transitions, M moves of a pool.
"""

from __future__ import annotations

import torch
from torch import Tensor

from games.core import GameSpec
from trainer.exported_module import planes_of
from trainer.learners.deep_q.transitions import NO_MOVE, Transitions
from trainer.q_networks import QSA, QPool

__all__ = ["pool_values", "targets_of", "values_of"]

_LOWEST = -1e30


def values_of(network: QPool | QSA, spec: GameSpec, batch: Transitions, *, score_weight: float) -> Tensor:
    """Return Q(s, a) of the moves played, float32 [B]."""
    planes, scored = planes_of(spec, batch.states), score_weight * torch.from_numpy(batch.margins)
    if isinstance(network, QSA):
        moves: Tensor = network(planes, torch.from_numpy(batch.actions).long())
        return scored + moves
    ranked: Tensor = network(planes)
    return scored + ranked.gather(1, torch.from_numpy(batch.ranks).long()[:, None]).squeeze(1)


def pool_values(network: QPool | QSA, planes: Tensor, pool: Tensor) -> Tensor:
    """Return f of the moves of a pool (int64 [B, M]), float32 [B, M]; the values of empty places mean nothing."""
    if isinstance(network, QSA):
        width = pool.shape[1]
        moves: Tensor = network(planes.repeat_interleave(width, 0), pool.clamp(min=0).flatten())
        return moves.reshape(-1, width)
    ranked: Tensor = network(planes)
    return ranked[:, : pool.shape[1]]


@torch.no_grad()
def targets_of(
    network: QPool | QSA, spec: GameSpec, batch: Transitions, *, discount: float, on_policy: bool, score_weight: float
) -> Tensor:
    """Return the targets y of the values of a batch, float32 [B].

    y = r at the end of the game. Otherwise y = r + gamma max over the pool of Q(s', a'), with the values of `network` (Mnih et
    al. 2015, section 1.1), or with a' as played where `on_policy` (Rummery and Niranjan 1994).
    """
    pool = torch.from_numpy(batch.next_pools).long()
    scored = score_weight * torch.from_numpy(batch.next_margins)
    values = scored + pool_values(network, planes_of(spec, batch.next_states), pool)
    if on_policy:
        ahead = values.gather(1, torch.from_numpy(batch.next_ranks).long().clamp(min=0)[:, None]).squeeze(1)
    else:
        ahead = values.masked_fill(pool == NO_MOVE, _LOWEST).amax(1)
    rewards, ended = torch.from_numpy(batch.rewards), torch.from_numpy(batch.ended)
    return torch.where(ended, rewards, rewards + discount * ahead)
