"""Policies made by softmax and by sigmoids, and the trap of sigmoids that nobody normalises."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from trainer.exported_module import serving_module
from trainer.loss import log_policy
from trainer.network import Network, new_network
from zerofleet.presets import NetworkSettings

LOGITS = torch.tensor([[0.5, -1.0, 2.0, 9.0]])
LEGAL = torch.tensor([[0, 1, 2, -1]])
# Four positions, told apart by one bit each, and the policies that a search found in them. Action 3 is never legal.
POSITIONS = torch.eye(4).reshape(4, 4, 1, 1)
LISTED = torch.tensor([[0, 1, 2, -1]] * 4)
TARGETS = torch.tensor([[0.8, 0.1, 0.1, 0.0], [0.1, 0.8, 0.1, 0.0], [0.1, 0.1, 0.8, 0.0], [0.45, 0.45, 0.1, 0.0]])
ENTROPY = float(-(TARGETS * TARGETS.clamp(min=1e-9).log()).sum(dim=1).mean())


def test_normalised_sigmoids_are_divided_by_their_sum_over_the_listed_actions():
    sigmoids = torch.sigmoid(LOGITS[0, :3])
    got = log_policy(LOGITS, LEGAL, "sigmoid_norm").exp()
    torch.testing.assert_close(got[0, :3], sigmoids / sigmoids.sum())
    assert got[0, 3] == 0


def test_raw_sigmoids_are_not_normalised():
    got = log_policy(LOGITS, LEGAL, "sigmoid_raw").exp()
    torch.testing.assert_close(got[0, :3], torch.sigmoid(LOGITS[0, :3]))
    assert got[0, 3] == 0


def test_softmax_is_the_default_policy_activation():
    torch.testing.assert_close(log_policy(LOGITS, LEGAL).exp()[0, :3], torch.softmax(LOGITS[0, :3], 0))


@pytest.mark.parametrize("activation", ["softmax", "sigmoid_norm", "sigmoid_raw"])
def test_extreme_logits_give_finite_losses_and_gradients(activation):
    logits = torch.tensor([[-200.0, 200.0, 0.0, 1e4]]).requires_grad_()
    loss = -(torch.tensor([[1.0, 0.0, 0.0, 0.0]]) * log_policy(logits, LEGAL, activation)).sum()
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()


def flat_spec(connect_four):
    return replace(connect_four.spec(), planes=(4, 1, 1), num_actions=4, max_legal=4, symmetries=())


def trained(connect_four, activation: str) -> tuple[Network, float]:
    """A network that has seen the four positions 400 times, and its policy loss on them."""
    settings = NetworkSettings(kind="perceptron", hidden=(16,), activation="tanh", policy_activation=activation)
    network = new_network(flat_spec(connect_four), settings, seed=1)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
    for _ in range(400):
        logits, _, _ = network(POSITIONS)
        loss = -(TARGETS * log_policy(logits, LISTED, network.policy_activation)).sum(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network, loss.item()


def served_policies(connect_four, network: Network) -> torch.Tensor:
    states = torch.tensor([[1], [2], [4], [8]], dtype=torch.uint8)
    with torch.inference_mode():
        policy, _ = serving_module(network, flat_spec(connect_four))(states, LISTED.to(torch.int16))
    torch.testing.assert_close(policy.float().sum(dim=1), torch.ones(4), atol=2e-3, rtol=0)
    assert (policy[:, 3] == 0).all()
    return policy.float()


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["softmax", "sigmoid_norm"])
def test_a_normalised_policy_learns_four_positions(connect_four, activation):
    network, loss = trained(connect_four, activation)
    assert loss == pytest.approx(ENTROPY, abs=0.01)
    torch.testing.assert_close(served_policies(connect_four, network), TARGETS, atol=0.03, rtol=0)


@pytest.mark.slow
def test_raw_sigmoids_all_rise_to_one_without_learning(connect_four):
    network, loss = trained(connect_four, "sigmoid_raw")
    logits, _, _ = network(POSITIONS)
    assert torch.sigmoid(logits[:, :3]).min() > 0.97
    assert loss < 0.1 * ENTROPY  # "better" than any policy could be
    torch.testing.assert_close(served_policies(connect_four, network)[:, :3], torch.full((4, 3), 1 / 3), atol=0.02, rtol=0)
