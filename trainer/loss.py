"""Loss: cross-entropy of the policy over legal or all actions, squared error of the value, and a term for each extra head.

Axes: B batch, A actions, L most legal actions, P players.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from trainer.batches import Batch

__all__ = ["ILLEGAL_MASS", "POLICY_ENTROPY", "Losses", "compute_losses", "log_policy", "policy_surprise"]

ILLEGAL_MASS = "illegal_mass"
"""Name of the meter of the probability on illegal actions; it is no loss."""
POLICY_ENTROPY = "policy_entropy"
"""Name of the meter of the entropy of the network's policy, in nats; it is no loss."""

_UNLISTED = -1e30  # a logit whose probability is 0; minus infinity would make 0 * inf = nan of the padding


class Losses(NamedTuple):
    """Scalars, each a weighted mean over the whole batch; for a part of the batch, its contribution to that mean."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    """Entropy of the policy over the legal actions, in nats, averaged over positions by their weights; not in the total."""
    extra: dict[str, Tensor]
    """Loss of each extra head by name; 0 where no position of the batch has a target. With a policy over all actions also
    `ILLEGAL_MASS`, which is not in the total."""


def log_policy(logits: Tensor, legal: Tensor, activation: str = "softmax", *, over: str = "legal") -> Tensor:
    """Return the log probabilities of the listed actions, float32 [B, L].

    `logits`: float32 [B, A]; `legal`: int64 [B, L], padded with -1, where the result is about -1e30. `activation` is that of
    `NetworkSettings.policy_activation`: softmax over the listed actions; `sigmoid_norm`: sigmoids divided by their sum;
    `sigmoid_raw`: sigmoids, not normalised. `over`, of `TrainSettings.policy_over`: the actions over which probabilities sum
    to 1, `legal` or `all`.
    """
    listed = legal >= 0
    if over == "all":
        logs = logits if activation == "softmax" else functional.logsigmoid(logits)
        logs = logs if activation == "sigmoid_raw" else torch.log_softmax(logs, dim=1)
        return logs.gather(1, legal.clamp(min=0)).masked_fill(~listed, _UNLISTED)
    chosen = logits.gather(1, legal.clamp(min=0))
    if activation != "softmax":
        chosen = functional.logsigmoid(chosen)
    chosen = chosen.masked_fill(~listed, _UNLISTED)
    # The softmax of logarithms divides the numbers by their sum.
    return chosen if activation == "sigmoid_raw" else torch.log_softmax(chosen, dim=1)


@torch.no_grad()
def policy_surprise(logits: Tensor, batch: Batch, policy_activation: str = "softmax") -> Tensor:
    """Return float32 [B], at least 0: the Kullback-Leibler divergence of each policy target from the network's policy."""
    predicted = log_policy(logits, batch.legal, policy_activation)
    return (torch.xlogy(batch.policy, batch.policy) - batch.policy * predicted).sum(dim=1).clamp(min=0.0)


def compute_losses(
    logits: Tensor,
    value: Tensor,
    batch: Batch,
    *,
    value_weight: float,
    policy_activation: str = "softmax",
    policy_over: str = "legal",
    weight: Tensor | None = None,
    extra: Mapping[str, Tensor] | None = None,
    extra_weights: Mapping[str, float] | None = None,
) -> Losses:
    """Return the losses of a network's outputs.

    `logits`: float32 [B, A] of all actions; those not in `batch.legal` are masked and get no gradient, unless `policy_over` is
    `all`: then the policy loss lowers them, and the probability on them is measured. `value`: float32 [B, P], index 0 the
    player to move, as in `batch.value`. `weight`: float32 [B], replaces the weights of the batch in the policy and value
    losses; the sum over the whole batch must be the same. `extra`: outputs of the extra heads by name: `opponents` and `reply`
    logits float32 [B, A], `plies_left` a share float32 [B, 1]. Their losses enter the total with
    `extra_weights`, by default 1.
    """
    weights, total_weight = (batch.weight if weight is None else weight)[:, None], batch.whole.weight
    logs = log_policy(logits, batch.legal, policy_activation, over=policy_over)
    policy_loss = -(weights * batch.policy * logs).sum() / total_weight
    value_loss = (weights * (value - batch.value).square()).sum() / (total_weight * value.shape[1])
    total = policy_loss + value_weight * value_loss
    terms = {"opponents": _opponents_loss, "plies_left": _plies_left_loss, "reply": _reply_loss}
    losses = {name: terms[name](answer, batch) for name, answer in (extra or {}).items()}
    for name, loss in losses.items():
        total = total + (extra_weights or {}).get(name, 1.0) * loss
    if policy_over == "all":
        losses[ILLEGAL_MASS] = _illegal_mass(logits, batch, policy_activation)
    if policy_over == "all" or policy_activation == "sigmoid_raw":
        with torch.no_grad():
            logs = log_policy(logits, batch.legal, _normalised(policy_activation))
    return Losses(total, policy_loss, value_loss, _entropy(logs, batch), losses)


@torch.no_grad()
def _entropy(logs: Tensor, batch: Batch) -> Tensor:
    """Return the mean entropy of policies over the legal actions; `logs`: their logarithms, float32 [B, L]."""
    return -(batch.weight * (logs.exp() * logs).sum(dim=1)).sum() / batch.whole.weight


def _normalised(activation: str) -> str:
    return "sigmoid_norm" if activation == "sigmoid_raw" else activation


@torch.no_grad()
def _illegal_mass(logits: Tensor, batch: Batch, policy_activation: str) -> Tensor:
    """Return the share of a policy over all actions that is on illegal ones, averaged over positions by their weights."""
    legal_mass = log_policy(logits, batch.legal, _normalised(policy_activation), over="all").exp().sum(dim=1)
    return (batch.weight * (1.0 - legal_mass).clamp(min=0.0)).sum() / batch.whole.weight


def _opponents_loss(logits: Tensor, batch: Batch) -> Tensor:
    """Return the cross-entropy of the opponents' choices, equally weighted within a position, over all actions."""
    listed = batch.opponents >= 0
    chosen = torch.log_softmax(logits, dim=1).gather(1, batch.opponents.clamp(min=0)).masked_fill(~listed, 0.0)
    count = listed.sum(dim=1)
    return -(batch.weight * chosen.sum(dim=1) / count.clamp(min=1)).sum() / (batch.whole.with_opponents or 1.0)


def _plies_left_loss(answer: Tensor, batch: Batch) -> Tensor:
    """Return the squared error of the share of plies left, over positions where it is known."""
    known = batch.plies_left >= 0
    error = (answer.squeeze(1) - batch.plies_left).masked_fill(~known, 0.0)
    return (batch.weight * error.square()).sum() / (batch.whole.with_plies_left or 1.0)


def _reply_loss(logits: Tensor, batch: Batch) -> Tensor:
    """Return the cross-entropy of the next player's moves over all actions, over positions where they are known."""
    chosen = torch.log_softmax(logits, dim=1).gather(1, batch.reply.clamp(min=0)[:, None]).squeeze(1)
    return -(batch.weight * chosen.masked_fill(batch.reply < 0, 0.0)).sum() / (batch.whole.with_reply or 1.0)
