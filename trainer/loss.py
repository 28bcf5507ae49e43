"""The loss: cross-entropy of the policy over legal actions, squared error of the value.

Axes: B batch, A actions, L most legal actions, P players.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from trainer.batches import Batch

__all__ = ["Losses", "compute_losses"]

_UNLISTED = -1e30  # a logit whose probability is 0; minus infinity would make 0 * inf = nan of the padding


class Losses(NamedTuple):
    """Scalars, each a mean over the batch."""

    total: Tensor
    policy: Tensor
    value: Tensor


def compute_losses(logits: Tensor, value: Tensor, batch: Batch, *, value_weight: float) -> Losses:
    """Return the losses of a network's answer.

    `logits`: float32 [B, A] of all actions; those not in `batch.legal` take no part, so an illegal action neither gains
    nor loses by them. `value`: float32 [B, P], index 0 the player to move, as in `batch.value`.
    """
    listed = batch.legal >= 0
    chosen = logits.gather(1, batch.legal.clamp(min=0)).masked_fill(~listed, _UNLISTED)  # [B, L]
    log_policy = torch.log_softmax(chosen, dim=1)
    policy_loss = -(batch.policy * log_policy).sum(dim=1).mean()
    value_loss = (value - batch.value).square().mean()
    return Losses(policy_loss + value_weight * value_loss, policy_loss, value_loss)
