"""The loss: exact numbers on small examples."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from trainer.batches import Batch, Whole
from trainer.loss import ILLEGAL_MASS, compute_losses, log_policy, policy_surprise


def batch(legal, policy, value, opponents=None, plies_left=None, reply=None, weight=None):
    count = len(legal)
    opponents, plies_left = opponents or [[-1]] * count, plies_left or [-1.0] * count
    reply, weight = reply or [-1] * count, weight or [1.0] * count
    return Batch(
        torch.zeros(count, 1, 1, 1),
        torch.tensor(legal),
        torch.tensor(policy),
        torch.tensor(value),
        torch.tensor(opponents),
        torch.tensor(plies_left),
        torch.tensor(reply),
        torch.tensor(weight),
        Whole(
            count,
            sum(weight),
            sum(w for w, row in zip(weight, opponents, strict=True) if max(row) >= 0),
            sum(w for w, share in zip(weight, plies_left, strict=True) if share >= 0),
            sum(w for w, move in zip(weight, reply, strict=True) if move >= 0),
        ),
    )


def test_the_policy_loss_of_a_uniform_network_is_the_logarithm_of_the_number_of_legal_actions():
    example = batch([[0, 2, -1], [1, -1, -1]], [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]], [[1.0, -1.0], [0.0, 0.0]])
    losses = compute_losses(torch.zeros(2, 4), torch.zeros(2, 2), example, value_weight=1.0)
    assert losses.policy.item() == pytest.approx((math.log(2) + math.log(1)) / 2)
    assert losses.value.item() == pytest.approx(0.5)
    assert losses.total.item() == pytest.approx(math.log(2) / 2 + 0.5)


def test_the_cross_entropy_equals_a_calculation_by_hand():
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


def test_large_logits_of_illegal_actions_do_not_change_the_loss():
    example = batch([[0, 1, -1]], [[0.5, 0.5, 0.0]], [[0.0]])
    huge = torch.tensor([[0.0, 0.0, 1e30]])
    assert compute_losses(huge, torch.zeros(1, 1), example, value_weight=1.0).policy.item() == pytest.approx(math.log(2))


def test_the_loss_of_the_opponents_head_weights_each_choice_equally():
    example = batch([[0], [0], [0]], [[1.0]] * 3, [[0.0, 0.0, 0.0]] * 3, [[2, 3], [-1, -1], [1, -1]])
    answer = torch.log(torch.tensor([[0.1, 0.2, 0.3, 0.4]] * 3))
    losses = compute_losses(
        torch.zeros(3, 4),
        torch.zeros(3, 3),
        example,
        value_weight=1.0,
        extra={"opponents": answer},
        extra_weights={"opponents": 0.5},
    )
    wanted = -((math.log(0.3) + math.log(0.4)) / 2 + math.log(0.2)) / 2
    assert losses.extra["opponents"].item() == pytest.approx(wanted)
    assert losses.total.item() == pytest.approx(0.5 * wanted)


def test_the_loss_of_the_plies_left_head_is_the_squared_error_where_the_end_is_known():
    example = batch([[0], [0]], [[1.0]] * 2, [[0.0]] * 2, plies_left=[0.75, -1.0])
    losses = compute_losses(
        torch.zeros(2, 2), torch.zeros(2, 1), example, value_weight=1.0, extra={"plies_left": torch.tensor([[0.25], [0.9]])}
    )
    assert losses.extra["plies_left"].item() == pytest.approx(0.25)
    assert losses.total.item() == pytest.approx(0.25)


def test_the_loss_of_the_reply_head_is_the_cross_entropy_where_the_reply_is_known():
    example = batch([[0], [0], [0]], [[1.0]] * 3, [[0.0]] * 3, reply=[2, -1, 0])
    answer = torch.log(torch.tensor([[0.1, 0.2, 0.3, 0.4]] * 3))
    losses = compute_losses(
        torch.zeros(3, 4), torch.zeros(3, 1), example, value_weight=1.0, extra={"reply": answer}, extra_weights={"reply": 0.15}
    )
    wanted = -(math.log(0.3) + math.log(0.1)) / 2
    assert losses.extra["reply"].item() == pytest.approx(wanted)
    assert losses.total.item() == pytest.approx(0.15 * wanted)


def test_a_batch_without_choices_of_opponents_has_no_loss_of_the_opponents_head():
    example = batch([[0]], [[1.0]], [[0.0]])
    answer = torch.randn(1, 4, requires_grad=True)
    losses = compute_losses(torch.zeros(1, 4), torch.zeros(1, 1), example, value_weight=1.0, extra={"opponents": answer})
    losses.total.backward()
    assert losses.extra["opponents"].item() == 0.0
    assert not answer.grad.any()


def test_a_sample_of_weight_three_counts_as_three_samples():
    generator = torch.Generator().manual_seed(0)
    logits, value = torch.randn(3, 4, generator=generator), torch.randn(3, 2, generator=generator)
    heads = {"opponents": torch.randn(3, 4, generator=generator), "plies_left": torch.rand(3, 1, generator=generator)}
    heads["reply"] = torch.randn(3, 4, generator=generator)
    legal, policy = [[0, 2], [1, -1], [1, 3]], [[0.5, 0.5], [1.0, 0.0], [0.2, 0.8]]
    targets, opponents, plies_left = [[1.0, -1.0], [0.0, 0.5], [-1.0, 1.0]], [[2], [-1], [3]], [0.5, 0.25, -1.0]
    reply = [-1, 2, 0]
    weighted = batch(legal, policy, targets, opponents, plies_left, reply, weight=[1.0, 3.0, 0.5])
    repeats = torch.tensor([0, 0, 1, 1, 1, 1, 1, 1, 2])  # twice the weights

    def repeated(rows):
        return [rows[i] for i in repeats.tolist()]

    plain = batch(*map(repeated, (legal, policy, targets, opponents, plies_left, reply)))
    one = compute_losses(logits, value, weighted, value_weight=0.7, extra=heads)
    two = compute_losses(
        logits[repeats], value[repeats], plain, value_weight=0.7, extra={name: head[repeats] for name, head in heads.items()}
    )
    for got, wanted in zip(
        (one.total, one.entropy, *one.extra.values()), (two.total, two.entropy, *two.extra.values()), strict=True
    ):
        torch.testing.assert_close(got, wanted)


def test_the_surprise_of_a_policy_is_its_divergence_by_hand():
    example = batch([[0, 2], [1, -1]], [[0.5, 0.5], [1.0, 0.0]], [[0.0]] * 2)
    logits = torch.log(torch.tensor([[0.2, 123.0, 0.6], [0.1, 0.2, 0.3]]))
    surprise = policy_surprise(logits, example)
    assert surprise.tolist() == pytest.approx([0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75), 0.0])


def test_given_weights_replace_those_of_the_batch_in_policy_and_value_losses():
    example = batch([[0, 2], [1, -1]], [[0.5, 0.5], [1.0, 0.0]], [[1.0], [0.0]])
    losses = compute_losses(torch.zeros(2, 3), torch.zeros(2, 1), example, value_weight=1.0, weight=torch.tensor([1.5, 0.5]))
    assert losses.policy.item() == pytest.approx(1.5 * math.log(2) / 2)
    assert losses.value.item() == pytest.approx(1.5 / 2)


def test_a_policy_over_all_actions_is_normalised_over_them_and_its_mass_on_illegal_ones_is_measured():
    logits = torch.log(torch.tensor([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]))
    example = batch([[0, 2], [1, -1]], [[0.5, 0.5], [1.0, 0.0]], [[0.0]] * 2, weight=[1.0, 3.0])
    losses = compute_losses(logits, torch.zeros(2, 1), example, value_weight=1.0, policy_over="all")
    wanted = -(0.5 * math.log(0.2) + 0.5 * math.log(0.3) + 3 * math.log(0.1)) / 4
    assert losses.policy.item() == pytest.approx(wanted)
    assert losses.total.item() == pytest.approx(wanted)  # the meter is no loss
    assert losses.extra[ILLEGAL_MASS].item() == pytest.approx((0.5 + 3 * 0.9) / 4)


def test_illegal_actions_get_the_gradient_of_the_whole_softmax_without_a_mask():
    logits = torch.randn(1, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    example = batch([[1, 3, -1, -1]], [[0.25, 0.75, 0.0, 0.0]], [[0.0]])
    compute_losses(logits, torch.zeros(1, 1), example, value_weight=1.0, policy_over="all").total.backward()
    torch.testing.assert_close(logits.grad[0], torch.softmax(logits.detach()[0], 0) - torch.tensor([0, 0.25, 0, 0.75, 0]))


@pytest.mark.parametrize(
    ("activation", "over"), [*itertools.product(("softmax", "sigmoid_norm", "sigmoid_raw"), ("legal", "all"))]
)
def test_the_entropy_is_that_of_the_policy_over_legal_actions_weighted_and_without_gradient(activation, over):
    logits = torch.tensor([[0.5, -1.0, 2.0], [0.3, 0.7, -0.2]], requires_grad=True)
    example = batch([[0, 2], [1, -1]], [[0.5, 0.5], [1.0, 0.0]], [[0.0]] * 2, weight=[1.0, 3.0])
    losses = compute_losses(
        logits, torch.zeros(2, 1), example, value_weight=1.0, policy_activation=activation, policy_over=over
    )
    shares = [math.exp(one) if activation == "softmax" else 1 / (1 + math.exp(-one)) for one in (0.5, 2.0)]
    share = shares[0] / sum(shares)
    wanted = -(share * math.log(share) + (1 - share) * math.log(1 - share)) / 4  # a single legal action has no entropy
    assert losses.entropy.item() == pytest.approx(wanted, rel=1e-5)
    assert not losses.entropy.requires_grad


def test_a_masked_policy_has_no_meter_of_the_illegal_mass():
    example = batch([[0, 1]], [[0.5, 0.5]], [[0.0]])
    assert compute_losses(torch.zeros(1, 3), torch.zeros(1, 1), example, value_weight=1.0).extra == {}


@pytest.mark.parametrize("activation", ["softmax", "sigmoid_norm"])
def test_training_without_a_mask_drives_the_illegal_mass_down_and_with_one_leaves_it(activation):
    example = batch([[0, 2]], [[0.25, 0.75]], [[0.0]])
    masses = {}
    for over in ("all", "legal"):
        logits = torch.zeros(1, 8, requires_grad=True)
        optimizer = torch.optim.SGD([logits], lr=2.0)
        for _ in range(600):
            losses = compute_losses(
                logits, torch.zeros(1, 1), example, value_weight=1.0, policy_activation=activation, policy_over=over
            )
            optimizer.zero_grad()
            losses.total.backward()
            optimizer.step()
        legal = log_policy(logits, example.legal, activation, over="all").exp().sum().item()
        torch.testing.assert_close(log_policy(logits, example.legal, activation).exp()[0, 1].item(), 0.75, atol=0.05, rtol=0)
        masses[over] = 1.0 - legal
    assert masses["all"] < 0.03
    assert masses["legal"] > 0.4
