"""Targets, gradients and what they converge to."""

import numpy as np
import pytest
import torch
from deep_q_at_work import RHOMBUS, SMALL, SPEC, on_rhombus, opened, random_batch, read, settings_of

from games import positions
from trainer.exported_module import planes_of
from trainer.learners.deep_q.transitions import NO_MOVE, Transitions
from trainer.learners.deep_q.values import targets_of, values_of
from zerofleet.errors import CorruptModel


@pytest.mark.parametrize("score_weight", [0.0, 3.0])
@pytest.mark.parametrize("kind", ["q_pool", "q_sa"])
def test_targets_are_the_reward_at_the_end_and_else_the_best_or_the_played_move(tmp_path, kind, score_weight):
    learner = opened(on_rhombus(tmp_path, kind=kind), RHOMBUS)
    batch, spec = random_batch(RHOMBUS, 8, pool=6), RHOMBUS.spec()
    batch.next_pools[0, 2:] = NO_MOVE
    batch.next_ranks[0] = 1
    with torch.no_grad():
        planes = planes_of(spec, batch.next_states)
        if kind == "q_pool":
            ahead = learner.network(planes).numpy()
        else:
            columns = [learner.network(planes, torch.from_numpy(batch.next_pools[:, k]).long().clamp(min=0)) for k in range(6)]
            ahead = torch.stack(columns, 1).numpy()
    ahead = ahead + score_weight * batch.next_margins
    best = [ahead[0, :2].max(), *ahead[1:].max(axis=1)]
    played = ahead[np.arange(8), batch.next_ranks]
    for on_policy, following in ((False, np.array(best)), (True, played)):
        terms = {"discount": 0.9, "on_policy": on_policy, "score_weight": score_weight}
        found = targets_of(learner.network, spec, batch, **terms).numpy()
        np.testing.assert_allclose(found, np.where(batch.ended, batch.rewards, batch.rewards + 0.9 * following), atol=1e-6)


@pytest.mark.parametrize("kind", ["q_pool", "q_sa"])
def test_the_first_update_is_the_learning_rate_times_the_measured_gradient(tmp_path, kind):
    """Central differences of half the mean squared error, at constant targets."""
    learner = opened(on_rhombus(tmp_path, kind=kind, learning_rate=0.01, score_weight=2.0), RHOMBUS)
    batch, spec = random_batch(RHOMBUS, 4, pool=6), RHOMBUS.spec()
    wanted = targets_of(learner.target, spec, batch, discount=0.99, on_policy=False, score_weight=2.0)
    parameters = dict(learner.network.named_parameters())
    before = {name: tensor.detach().clone() for name, tensor in parameters.items()}

    def loss():
        with torch.no_grad():
            return float((values_of(learner.network, spec, batch, score_weight=2.0).double() - wanted).square().mean() / 2)

    rng, measured = np.random.default_rng(2), {}
    for name, tensor in parameters.items():
        flat = tensor.data.view(-1)
        for place in rng.choice(len(flat), min(4, len(flat)), replace=False):
            start, losses = float(flat[place]), []
            for change in (2e-4, -2e-4):
                flat[place] = start + change
                losses.append(loss())
            flat[place] = start
            measured[name, place] = (losses[0] - losses[1]) / 4e-4
    learner.update(batch)
    for (name, place), slope in measured.items():
        moved = float(parameters[name].data.view(-1)[place] - before[name].view(-1)[place])
        assert moved == pytest.approx(-0.01 * slope, abs=2e-5)
    assert max(abs(slope) for slope in measured.values()) > 1e-2


def test_the_rate_falls_to_its_floor_along_half_a_cosine_over_the_plan(tmp_path):
    learner = opened(on_rhombus(tmp_path, learning_rate=0.01, rate_floor=0.2, momentum=0.0), RHOMBUS)
    batch, rates, moved = random_batch(RHOMBUS, 4, pool=6), [], []
    first = {name: tensor.clone() for name, tensor in learner.network.state_dict().items()}
    for done in (0.0, 0.5, 1.0):
        learner.network.load_state_dict(first)
        learner.progress = done
        rates.append(learner.update(batch).learning_rate)
        moved.append(max(float((tensor - first[name]).abs().max()) for name, tensor in learner.network.state_dict().items()))
    assert rates == pytest.approx([0.01, 0.006, 0.002])
    assert moved == pytest.approx([moved[0], 0.6 * moved[0], 0.2 * moved[0]], rel=1e-2)


@pytest.mark.parametrize("learner", ["dqn", "deep_sarsa"])
@pytest.mark.parametrize("kind", ["q_pool", "q_sa"])
def test_one_batch_is_learned_by_heart(tmp_path, kind, learner):
    chosen = opened(on_rhombus(tmp_path, kind=kind, learner=learner, learning_rate=0.05), RHOMBUS)
    batch = random_batch(RHOMBUS, 4, pool=6)
    batch.ended[:] = True
    for _ in range(400):
        report = chosen.update(batch)
    assert report.squared_error < 1e-3


def test_targets_stay_the_same_between_two_refreshes_of_the_target_network(tmp_path, records):
    learner = opened(settings_of(tmp_path, target_period=5))
    for record in records:
        learner.window.add(read(learner, record))
    probe, seen = random_batch(SMALL, 6, pool=9), []
    for _ in range(11):
        learner.step()
        seen.append(targets_of(learner.target, SPEC, probe, discount=0.99, on_policy=False, score_weight=0.0).tolist())
    assert [seen[k] == seen[k - 1] for k in range(1, 11)] == [k % 5 != 0 for k in range(1, 11)]
    every = opened(settings_of(tmp_path, target_period=1))
    for record in records:
        every.window.add(read(every, record))
    for _ in range(3):
        before = {name: tensor.clone() for name, tensor in every.network.state_dict().items()}
        every.step()
        assert all(torch.equal(tensor, before[name]) for name, tensor in every.target.state_dict().items())


def test_values_of_a_small_decision_process_are_found(tmp_path):
    """Three positions in a row with two moves each: the first move goes on, or at the end wins 1; the second stops with 0.2.

    Q* is gamma^2, gamma and 1 for the first move. On policy with a coin as behaviour it is gamma V', V' the mean of both moves.
    """
    gamma, steps = 0.9, 3
    network = {"kind": "q_pool", "pool": 9, "q_channels": (16, 16)}
    chain = np.zeros((steps, SPEC.packed_bytes), np.uint8)
    for k in range(steps):
        chain[k] = positions.encode_for(SMALL, positions.replay(SMALL, [0, 4, 8][:k], 0), 0)
    for learner, ahead in (
        ("dqn", [gamma**2, gamma, 1.0]),
        ("deep_sarsa", [gamma * (gamma * 0.6 + 0.2) / 2, gamma * 0.6, 1.0]),
    ):
        chosen = opened(
            settings_of(tmp_path, learner, network=network, discount=gamma, learning_rate=0.1, target_period=20, momentum=0.5)
        )
        rng = np.random.default_rng(3)
        for _ in range(1_500):
            batch = Transitions.empty(24, packed_bytes=SPEC.packed_bytes, pool=9)
            place, stops = np.arange(24) // 2 % steps, np.arange(24) % 2
            batch.states[:], batch.ranks[:] = chain[place], stops
            batch.ended[:] = stops.astype(bool) | (place == steps - 1)
            batch.rewards[:] = np.where(stops, 0.2, np.where(place == steps - 1, 1.0, 0.0))
            batch.next_states[:] = chain[np.minimum(place + 1, steps - 1)]
            batch.next_pools[:, :2], batch.next_ranks[:] = (0, 1), rng.integers(2, size=24)
            if chosen.state.step % 20 == 0:
                chosen.target.load_state_dict(chosen.network.state_dict())
            chosen.state.step += 1
            chosen.update(batch)
        with torch.no_grad():
            found = chosen.network(planes_of(SPEC, chain))[:, :2].numpy()
        tolerance = 0.02 if learner == "dqn" else 0.06  # a coin decides the targets of the latter
        np.testing.assert_allclose(found[:, 0], ahead, atol=tolerance)
        np.testing.assert_allclose(found[:, 1], 0.2, atol=0.02)


def test_weights_that_diverge_end_the_process(tmp_path):
    learner = opened(settings_of(tmp_path))
    with torch.no_grad():
        learner.network.layers.out.weight.fill_(float("nan"))
    with pytest.raises(CorruptModel, match="diverged"):
        learner.update(random_batch(SMALL, 4, pool=9))
