"""The loss: cross-entropy of the policy over legal actions, squared error of the value.

Axes: B batch, A actions, L most legal actions, P players.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from trainer.batches import Batch

__all__ = ["Losses", "compute_losses", "log_policy"]

_UNLISTED = -1e30  # a logit whose probability is 0; minus infinity would make 0 * inf = nan of the padding


class Losses(NamedTuple):
    """Scalars, each a mean over the batch."""

    total: Tensor
    policy: Tensor
    value: Tensor


def log_policy(logits: Tensor, legal: Tensor, activation: str = "softmax") -> Tensor:
    """Return the logarithms of the probabilities that `logits` give to the listed actions, float32 [B, L].

    `logits`: float32 [B, A]; `legal`: int64 [B, L], padded with -1, where the answer is about -1e30. `activation` as
    `NetworkSettings.policy_activation`: softmax over the listed actions; `sigmoid_norm`: sigmoids divided by their sum;
    `sigmoid_raw`: sigmoids, which sum to anything.
    """
    listed = legal >= 0
    chosen = logits.gather(1, legal.clamp(min=0))
    if activation != "softmax":
        chosen = functional.logsigmoid(chosen)
    chosen = chosen.masked_fill(~listed, _UNLISTED)
    # The softmax of logarithms divides the numbers by their sum.
    return chosen if activation == "sigmoid_raw" else torch.log_softmax(chosen, dim=1)


def compute_losses(
    logits: Tensor, value: Tensor, batch: Batch, *, value_weight: float, policy_activation: str = "softmax"
) -> Losses:
    """Return the losses of a network's answer.

    `logits`: float32 [B, A] of all actions; those not in `batch.legal` take no part, so an illegal action neither gains
    nor loses by them. `value`: float32 [B, P], index 0 the player to move, as in `batch.value`.
    """
    policy_loss = -(batch.policy * log_policy(logits, batch.legal, policy_activation)).sum(dim=1).mean()
    value_loss = (value - batch.value).square().mean()
    return Losses(policy_loss + value_weight * value_loss, policy_loss, value_loss)
