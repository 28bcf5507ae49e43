"""The learner: it learns, keeps to its reuse bound, and survives gradients that are not finite."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from trainer.learner import Learner
from trainer.loss import policy_surprise
from trainer.network import new_network
from trainer.optimisation import WeightAverage, learning_rate, make_optimizer
from trainer.samples import Samples
from trainer.window import SampleWindow
from zerofleet.contracts.encodings import sample_positions
from zerofleet.errors import CorruptModel
from zerofleet.presets import NetworkSettings, TrainSettings

QUICK = TrainSettings(batch_size=32, min_samples=1, warmup_steps=5, learning_rate=5e-3, max_reuse=1e9, average_decay=0.9)


def made_up_samples(game, count=24, seed=0):
    """Distinct positions, each with one best action and a value of its own."""
    states, legal = sample_positions(game, games=12, seed=seed)
    _, first = np.unique(states, axis=0, return_index=True)
    states, legal = states[first][:count], legal[first][:count]
    rng = np.random.default_rng(seed)
    policy = np.zeros(legal.shape, np.float16)
    policy[np.arange(len(legal)), rng.integers((legal >= 0).sum(axis=1))] = 1
    won = rng.choice([-1.0, 0.0, 1.0], len(states)).astype(np.float32)
    value = np.stack([won, -won], axis=1)
    return Samples(
        states,
        legal,
        policy,
        value,
        np.full((len(won), 1), -1, np.int16),
        np.full(len(won), 0.5, np.float32),
        np.full(len(won), -1, np.int16),
        np.ones(len(won), np.float32),
    )


def learner_of(game, small, settings=QUICK, *, symmetric=True, seed=3):
    window = SampleWindow(game.spec(), settings)
    window.add(made_up_samples(game))
    learner = Learner(game.spec(), new_network(game.spec(), small, seed=seed), settings, window, seed=seed)
    if not symmetric:  # random answers to positions are not symmetric, so only unturned ones can be learnt by heart
        learner._maker._cells = learner._maker._cells[:1]
        learner._maker._actions = learner._maker._actions[:1]
    return learner


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_a_learner_memorises_a_handful_of_positions(game, small, optimizer):
    rate = {"adamw": 5e-3, "sgd": 5e-2}[optimizer]
    settings = QUICK.model_copy(update={"optimizer": optimizer, "learning_rate": rate})
    learner = learner_of(game, small.model_copy(update={"channels": 16}), settings, symmetric=False)
    first = learner.step()
    for _ in range(250):
        last = learner.step()
    assert last.policy < 0.1 * first.policy
    assert last.value < 0.2 * first.value


def test_a_batch_whose_positions_are_all_equal_is_not_merged_to_one_which_no_batch_norm_could_take(game):
    flat = NetworkSettings(kind="perceptron", hidden=(8,), normalisation="batch")
    learner = learner_of(game, flat, QUICK.model_copy(update={"merge_equal": "linear", "window_max": 1}))
    assert not learner.step().skipped


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{"merge_equal": "constant"}, {"merge_equal": "log"}, {"merge_equal": "linear"}, {"surprise_share": 0.5}],
    ids=str,
)
def test_a_learner_memorises_a_handful_of_positions_with_each_weighting(game, small, changes):
    learner = learner_of(game, small.model_copy(update={"channels": 16}), QUICK.model_copy(update=changes), symmetric=False)
    first = learner.step()
    for _ in range(150):
        last = learner.step()
    assert last.policy < 0.2 * first.policy
    assert last.value < 0.3 * first.value


@pytest.mark.slow
def test_a_candidate_of_a_converged_learner_evaluates_like_the_learner(game, small):
    learner = learner_of(game, small, symmetric=False)
    for _ in range(200):
        learner.step()
    candidate = learner.candidate()
    assert not candidate.training
    batch = learner._maker.make(made_up_samples(game), None)
    learner.network.eval()
    with torch.no_grad():
        ours, theirs = learner.network(batch.planes), candidate(batch.planes)
    torch.testing.assert_close(ours[1], theirs[1], atol=0.25, rtol=0)


def test_a_candidate_depends_on_the_step_alone_and_does_not_disturb_training(game, small):
    with_candidates, without = (learner_of(game, small) for _ in range(2))
    for _ in range(4):
        one, two = with_candidates.candidate().state_dict(), with_candidates.candidate().state_dict()
        assert all(torch.equal(one[name], two[name]) for name in one)
        with_candidates.step()
        without.step()
    for name, tensor in with_candidates.network.state_dict().items():
        assert torch.equal(tensor, without.network.state_dict()[name]), name


def test_a_network_without_statistics_and_with_extra_heads_is_trained(game):
    heads = NetworkSettings(kind="perceptron", hidden=(16,), activation="tanh", heads=("opponents", "plies_left"))
    learner = learner_of(game, heads, QUICK.model_copy(update={"plies_left_weight": 1.0}), symmetric=False)
    reports = [learner.step() for _ in range(60)]
    assert set(reports[0].extra) == {"opponents", "plies_left"}
    assert reports[0].extra["opponents"] == 0.0  # nobody chooses in secret
    assert reports[-1].extra["plies_left"] < 0.5 * reports[0].extra["plies_left"] + 1e-3
    again = learner_of(game, heads, seed=4)
    again.load_weights(learner.network.state_dict())
    torch.testing.assert_close(again.network.state_dict(), learner.network.state_dict())


def test_steps_are_allowed_only_up_to_the_reuse_bound(game, small):
    settings = QUICK.model_copy(update={"max_reuse": 4.0, "batch_size": 10, "min_samples": 20})
    learner = learner_of(game, small, settings)
    assert learner.window.total == 24
    assert learner.steps_allowed() == 9  # 4 * 24 = 96 samples, 10 a step
    for _ in range(9):
        learner.step()
    assert learner.steps_allowed() == 0
    assert learner.reuse == pytest.approx(90 / 24)
    learner.window.add(made_up_samples(game, 1))
    assert learner.steps_allowed() == 1


def test_no_step_is_allowed_before_enough_samples_have_arrived(game, small):
    assert learner_of(game, small, QUICK.model_copy(update={"min_samples": 25})).steps_allowed() == 0


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_is_skipped_and_counted(game, small, bad):
    learner = learner_of(game, small)
    for _ in range(3):
        learner.step()
    before = {name: tensor.clone() for name, tensor in learner.network.state_dict().items()}
    average = [weight.clone() for weight in learner.average.weights]
    trained = learner.state.samples_trained
    hook = learner.network.trunk.stem.weight.register_hook(lambda gradient: gradient * bad)
    report = learner.step()
    hook.remove()
    assert report.skipped
    assert (learner.state.skipped, learner.state.step, learner.state.samples_trained) == (1, 4, trained)
    for name, tensor in learner.network.state_dict().items():
        assert torch.equal(tensor, before[name]), name  # the statistics of the batch norms included
    assert all(torch.equal(a, b) for a, b in zip(average, learner.average.weights, strict=True))
    assert not learner.step().skipped
    assert learner.state.skipped_in_a_row == 0


def test_a_diverged_network_ends_training_with_advice(game, small):
    learner = learner_of(game, small)
    learner.network.trunk.stem.weight.register_hook(lambda gradient: gradient * float("nan"))
    for _ in range(49):
        assert learner.step().skipped
    with pytest.raises(CorruptModel, match=r"lower train\.learning_rate"):
        learner.step()
    assert learner.state.skipped == 50


def test_a_large_gradient_is_clipped(game, small):
    settings = QUICK.model_copy(update={"gradient_clip": 1e-3, "optimizer": "sgd", "momentum": 0.0, "weight_decay": 0.0})
    learner = learner_of(game, small, settings)
    before = [parameter.detach().clone() for parameter in learner.network.parameters()]
    report = learner.step()
    moved = [(b - p.detach()).square().sum() for b, p in zip(before, learner.network.parameters(), strict=True)]
    assert report.gradient_norm > 1e-3
    assert math.sqrt(sum(float(m) for m in moved)) == pytest.approx(1e-3 * report.learning_rate, rel=1e-2)


def test_the_learning_rate_warms_up_then_stays_or_falls_to_a_tenth():
    constant = TrainSettings(learning_rate=1.0, warmup_steps=9)
    assert [learning_rate(constant, step) for step in (0, 4, 9, 10, 10**6)] == pytest.approx([0.1, 0.5, 1, 1, 1])
    cosine = TrainSettings(learning_rate=1.0, warmup_steps=0, schedule="cosine", schedule_steps=100)
    assert [learning_rate(cosine, step) for step in (0, 50, 100, 1000)] == pytest.approx([1, 0.55, 0.1, 0.1])
    linear = TrainSettings(learning_rate=1.0, warmup_steps=0, schedule="linear", schedule_steps=100, schedule_floor=0.2)
    assert [learning_rate(linear, step) for step in (0, 50, 100, 1000)] == pytest.approx([1, 0.6, 0.2, 0.2])


def test_a_schedule_over_the_plan_falls_with_the_share_that_has_passed_whatever_the_step(game, small):
    cosine = TrainSettings(learning_rate=1.0, warmup_steps=0, schedule="cosine", schedule_over="plan")
    assert [learning_rate(cosine, 10**7, share) for share in (0.0, 0.5, 1.0)] == pytest.approx([1, 0.55, 0.1])
    learner = learner_of(game, small, QUICK.model_copy(update={"schedule": "linear", "schedule_over": "plan"}))
    for _ in range(10):
        learner.step()
    rates = []
    for learner.progress in (0.0, 0.5, 1.0, 7.0):
        rates.append(learner.step().learning_rate)
    assert rates == pytest.approx([5e-3, 5e-3 * 0.55, 5e-4, 5e-4])
    assert learner.progress == 1.0


def test_biases_and_batch_norms_are_not_decayed(game, small):
    optimizer = make_optimizer(new_network(game.spec(), small, seed=0), TrainSettings(weight_decay=0.1))
    decayed, free = optimizer.param_groups
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.1, 0.0)
    assert all(parameter.ndim > 1 for parameter in decayed["params"])
    assert all(parameter.ndim == 1 for parameter in free["params"])


def test_the_weight_average_adapts_quickly_at_first_and_then_at_the_set_decay(game, small):
    network = new_network(game.spec(), small, seed=0)
    average = WeightAverage(network, decay=0.5)
    start, wanted = average.weights[0].clone(), 0.0
    for step in range(1, 6):
        with torch.no_grad():
            next(network.parameters()).copy_(start + step)
        average.update(network)
        decay = min(0.5, (1 + step) / (10 + step))
        wanted = decay * wanted + (1 - decay) * step
        torch.testing.assert_close(average.weights[0], start + wanted)


def test_a_share_of_the_weight_is_distributed_by_surprise_and_the_sum_is_kept(game, small):
    learner = learner_of(game, small, QUICK.model_copy(update={"surprise_share": 0.4}))
    batch = learner._maker.make(made_up_samples(game), None)
    with torch.no_grad():
        logits, _, _ = learner.network(batch.planes)
    surprise = policy_surprise(logits, batch)
    weights = learner._weights_by_surprise(logits, batch)
    torch.testing.assert_close(weights, 0.6 + 0.4 * surprise / surprise.mean())
    assert weights.sum().item() == pytest.approx(len(weights))
    certain = torch.full_like(logits, -50.0).scatter_(1, batch.legal.gather(1, batch.policy.argmax(1, keepdim=True)), 50.0)
    assert learner._weights_by_surprise(certain, batch).tolist() == [1.0] * len(weights)  # nothing surprises


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [{"global_pooling": 4}, {"squeeze": 8}, {"global_pooling": 4, "squeeze": 8}, {"heads": ("reply",)}], ids=str
)
def test_each_kind_of_network_memorises_a_handful_of_positions(game, small, changes):
    learner = learner_of(game, small.model_copy(update={"channels": 16, **changes}), symmetric=False)
    samples = learner.window._rows
    samples.reply[: len(made_up_samples(game))] = np.arange(len(made_up_samples(game))) % 9
    first = learner.step()
    for _ in range(200):
        last = learner.step()
    assert last.policy < 0.15 * first.policy
    assert last.value < 0.25 * first.value
    assert set(last.extra) == set(changes.get("heads", ()))
    assert all(loss < 0.4 * first.extra[name] for name, loss in last.extra.items())
