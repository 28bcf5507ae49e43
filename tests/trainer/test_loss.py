"""The loss: exact numbers on small examples."""

from __future__ import annotations

import math

import pytest
import torch

from trainer.batches import Batch
from trainer.loss import compute_losses


def batch(legal, policy, value):
    return Batch(torch.zeros(len(legal), 1, 1, 1), torch.tensor(legal), torch.tensor(policy), torch.tensor(value))


def test_a_uniform_network_pays_the_logarithm_of_the_number_of_legal_actions():
    example = batch([[0, 2, -1], [1, -1, -1]], [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]], [[1.0, -1.0], [0.0, 0.0]])
    losses = compute_losses(torch.zeros(2, 4), torch.zeros(2, 2), example, value_weight=1.0)
    assert losses.policy.item() == pytest.approx((math.log(2) + math.log(1)) / 2)
    assert losses.value.item() == pytest.approx(0.5)
    assert losses.total.item() == pytest.approx(math.log(2) / 2 + 0.5)


def test_cross_entropy_by_hand():
    logits = torch.log(torch.tensor([[0.2, 123.0, 0.6]]))  # action 1 is illegal: 0.2 and 0.6 become 1/4 and 3/4
    example = batch([[0, 2]], [[0.5, 0.5]], [[0.0]])
    losses = compute_losses(logits, torch.tensor([[0.5]]), example, value_weight=2.0)
    wanted = -0.5 * (math.log(0.25) + math.log(0.75))
    assert losses.policy.item() == pytest.approx(wanted)
    assert losses.total.item() == pytest.approx(wanted + 2.0 * 0.25)


def test_illegal_actions_get_no_gradient():
    logits = torch.randn(1, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    example = batch([[1, 3, -1, -1]], [[0.25, 0.75, 0.0, 0.0]], [[0.0]])
    compute_losses(logits, torch.zeros(1, 1), example, value_weight=1.0).total.backward()
    assert logits.grad[0, [0, 2, 4]].tolist() == [0, 0, 0]
    probabilities = torch.softmax(logits.detach()[0, [1, 3]], 0)
    torch.testing.assert_close(logits.grad[0, [1, 3]], probabilities - torch.tensor([0.25, 0.75]))


def test_illegal_logits_however_large_change_nothing():
    example = batch([[0, 1, -1]], [[0.5, 0.5, 0.0]], [[0.0]])
    huge = torch.tensor([[0.0, 0.0, 1e30]])
    assert compute_losses(huge, torch.zeros(1, 1), example, value_weight=1.0).policy.item() == pytest.approx(math.log(2))
