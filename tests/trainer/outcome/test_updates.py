"""Gradients, one batch learned by heart, and replays."""

import numpy as np
import pytest
import torch
from outcome_at_work import ALL_LEARN, NETWORK, learn_from, learner_of, read, valid, weights_of

from trainer.learners.outcome.labels import Labelled
from zerofleet.errors import CorruptModel


@pytest.mark.parametrize("output", ["win_or_loss", "win_probability"])
def test_the_gradient_is_that_of_finite_differences(records, output):
    learner = learner_of({**NETWORK, "hidden": [5, 4], "activation": "tanh", "value_output": output}, learning_rate=1e-12)
    games = [learner.window.read(valid(record)) for record in records[:3]]
    states, labels = (np.concatenate([getattr(game, name) for game in games]) for name in ("states", "labels"))
    report = learner.train_on(games)
    step = 5e-3  # the network computes in single precision

    def loss():
        return float(((learner.chances(states).astype(np.float64) - labels) ** 2).mean())

    assert report.squared_error == pytest.approx(loss(), rel=1e-5)
    largest = 0.0
    for parameter in learner.network.parameters():
        flat, gradient = parameter.data.view(-1), parameter.grad.flatten()
        for index in range(0, len(flat), max(1, len(flat) // 5)):
            kept, values = flat[index].item(), []
            for shifted in (kept + step, kept - step):
                flat[index] = shifted
                values.append(loss())
            flat[index] = kept
            assert gradient[index].item() == pytest.approx((values[0] - values[1]) / (2 * step), abs=3e-5)
            largest = max(largest, abs(gradient[index].item()))
    assert largest > 0.01


def test_an_update_descends_the_gradient_of_the_mean_squared_error_once(records):
    learner = learner_of(learning_rate=0.5)
    games = [learner.window.read(valid(record)) for record in records[:2]]
    before = weights_of(learner)
    report = learner.train_on(games)
    names = [name for name, _ in learner.network.named_parameters()]
    gradients = {name: parameter.grad for name, parameter in learner.network.named_parameters()}
    for name in names:
        torch.testing.assert_close(learner.network.state_dict()[name], before[name] - 0.5 * gradients[name])
    assert report.samples == sum(len(game) for game in games)
    assert report.gradient_norm == pytest.approx(float(torch.stack([g.norm() for g in gradients.values()]).norm()), rel=1e-5)


@pytest.mark.parametrize("normalisation", ["none", "batch", "layer"])
def test_one_batch_is_learned_by_heart(records, normalisation):
    learner = learner_of({**NETWORK, "hidden": [64, 32], "normalisation": normalisation}, learning_rate=0.3, momentum=0.9)
    read_games = [learner.window.read(valid(record)) for record in records[:4]]
    wanted = {}
    for game in read_games:
        for state, label in zip(game.states, game.labels, strict=True):
            wanted.setdefault(state.tobytes(), label)
    states = np.array([np.frombuffer(one, np.uint8) for one in wanted])
    batch = [Labelled(states, np.array(list(wanted.values()), np.float32))]
    losses = [learner.train_on(batch).squared_error for _ in range(400)]
    assert losses[0] > 0.1
    assert losses[-1] < 0.005


def test_replays_are_drawn_from_the_games_learned_from(records):
    learner = learner_of(replays=3, memory_games=5)
    learn_from(learner, records[:8])
    reports = [learner.step() for _ in range(8)]
    sizes = [len(read(record, **ALL_LEARN)) for record in records[:8]]
    assert reports[0].samples == 4 * sizes[0]  # the memory holds the first game alone
    assert learner.window.games == 0
    assert len(learner.window) == sum(sizes[3:])  # kept: what a restart must read again
    assert learner.state.samples_trained == sum(report.samples for report in reports)


def test_weights_that_diverge_end_the_process(records):
    learner = learner_of()
    with torch.no_grad():
        next(learner.network.parameters()).fill_(float("nan"))
    learn_from(learner, records[:1])
    with pytest.raises(CorruptModel, match="diverged"):
        learner.step()
