"""Merging of equal positions: means of targets, weights by rule, and a gradient that stays the same."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from trainer.batches import BatchMaker
from trainer.loss import compute_losses
from trainer.merging import merge_equal
from trainer.network import new_network
from trainer.samples import Samples
from zerofleet.contracts.encodings import sample_positions


def samples_with_repeats(game, *, seed=0, count=60):
    """Rows of few distinct positions, with targets and weights of their own."""
    rng = np.random.default_rng(seed)
    states, legal = sample_positions(game, games=3, seed=seed)
    chosen = rng.integers(0, 12, count)
    states, legal = states[chosen], legal[chosen]
    policy = np.where(legal >= 0, rng.random(legal.shape), 0)
    policy = (policy / policy.sum(axis=1, keepdims=True)).astype(np.float16)
    value = rng.uniform(-1, 1, (count, game.spec().num_players)).astype(np.float32)
    opponents = rng.integers(-1, 9, (count, 1)).astype(np.int16)
    plies_left = np.where(rng.random(count) < 0.3, -1, rng.random(count)).astype(np.float32)
    replies = rng.integers(-1, 9, count).astype(np.int16)
    return Samples(states, legal, policy, value, opponents, plies_left, replies, rng.uniform(0.2, 1, count).astype(np.float32))


def slowly(samples, growth):
    """The same by dictionaries: what each distinct position should become, in the order of the first rows."""
    groups: dict[bytes, list[int]] = {}
    for row in range(len(samples)):
        groups.setdefault(samples.states[row].tobytes() + samples.legal[row].tobytes(), []).append(row)
    for rows in groups.values():
        weights = [float(samples.weight[row]) for row in rows]
        ends = [
            (w, float(samples.plies_left[row])) for w, row in zip(weights, rows, strict=True) if samples.plies_left[row] >= 0
        ]
        yield (
            rows[0],
            sum(w * samples.policy[row].astype(float) for w, row in zip(weights, rows, strict=True)) / sum(weights),
            sum(w * samples.value[row].astype(float) for w, row in zip(weights, rows, strict=True)) / sum(weights),
            sum(w * share for w, share in ends) / sum(w for w, _ in ends) if ends else -1.0,
            sum(weights) / len(rows) * growth(len(rows)),
        )


@pytest.mark.parametrize(
    ("rule", "growth"), [("constant", lambda n: 1.0), ("log", lambda n: 1 + math.log2(n)), ("linear", lambda n: n)]
)
def test_merged_rows_equal_a_slow_second_implementation(game, rule, growth):
    for seed in range(3):
        samples = samples_with_repeats(game, seed=seed)
        merged = merge_equal(samples, rule)
        wanted = list(slowly(samples, growth))
        assert len(merged) == len(wanted) < len(samples)
        for row, (first, policy, value, plies_left, weight) in enumerate(wanted):
            np.testing.assert_array_equal(merged.states[row], samples.states[first])
            np.testing.assert_array_equal(merged.legal[row], samples.legal[first])
            np.testing.assert_array_equal(merged.opponents[row], samples.opponents[first])
            assert merged.reply[row] == samples.reply[first]
            np.testing.assert_allclose(merged.policy[row], policy, atol=1e-3)
            np.testing.assert_allclose(merged.value[row], value, atol=1e-6)
            assert merged.plies_left[row] == pytest.approx(plies_left, abs=1e-6)
            assert merged.weight[row] == pytest.approx(weight, rel=1e-6)


def test_samples_without_repeats_and_without_a_rule_stay_as_they_are(game):
    samples = samples_with_repeats(game)
    assert merge_equal(samples, "off") is samples
    distinct = merge_equal(samples, "linear")
    assert merge_equal(distinct, "linear") is distinct


def test_a_linear_rule_leaves_the_gradient_unchanged(game, small):
    samples = samples_with_repeats(game)
    network, maker = new_network(game.spec(), small, seed=0).eval(), BatchMaker(game.spec())
    gradients = []
    for rule in ("off", "linear"):
        batch = maker.make(merge_equal(samples, rule), None)
        logits, value, _ = network(batch.planes)
        network.zero_grad()
        compute_losses(logits, value, batch, value_weight=1.0).total.backward()
        gradients.append([parameter.grad.clone() for parameter in network.parameters()])
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one, two, atol=2e-4, rtol=2e-3)  # merged policies are rounded to float16 once more
