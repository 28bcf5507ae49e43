"""Batches assembled on a device equal those assembled on the host."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_batches import samples_of

from games.core import make
from trainer.batches import BatchMaker
from trainer.device_batches import DeviceBatches
from trainer.learner import Learner
from trainer.network import new_network
from trainer.samples import Samples
from trainer.window import SampleWindow
from zerofleet.contracts.encodings import sample_positions
from zerofleet.contracts.records import decode_record, validate
from zerofleet.presets import TrainSettings

CPU = torch.device("cpu")
FIELDS = ("planes", "legal", "policy", "value", "opponents", "plies_left", "reply", "weight")
GAMES = ["tic_tac_toe", "connect_four", "othello", "abalone", "take_six", "rock_paper_scissors", "chinese_checkers_star37"]


def anything(game, count=30) -> Samples:
    """Samples of real positions whose targets are any numbers of their types, -1 included."""
    spec, rng = game.spec(), np.random.default_rng(5)
    samples = Samples.empty(spec, count)
    states, legal = sample_positions(game, games=4, seed=2)
    chosen = rng.integers(len(states), size=count)
    samples.states[:], samples.legal[:] = states[chosen], legal[chosen]
    for array in (samples.policy, samples.value, samples.plies_left, samples.weight):
        array[:] = rng.uniform(-1, 1, array.shape)
    for array in (samples.opponents, samples.reply):
        array[:] = rng.integers(-1, spec.num_actions, array.shape)
    return samples


@pytest.mark.parametrize("name", GAMES)
def test_a_batch_of_the_device_is_that_of_the_host_for_every_symmetry(name):
    game = make(name)
    maker = BatchMaker(game.spec())
    drawn = maker.turn(anything(game), np.random.default_rng(1))
    assert len(set(drawn.turns)) > len(game.spec().symmetries) / 2
    for part in (drawn, drawn.part(3, 4)):  # a rank may have a single sample
        host, device = maker.build(part).to(CPU), DeviceBatches(game.spec(), CPU).build(part)
        for field in FIELDS:
            wanted, got = getattr(host, field), getattr(device, field)
            assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), field
            torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)
        assert device.whole == host.whole
        assert device.planes.is_contiguous(memory_format=torch.channels_last)


def test_a_learner_takes_the_same_steps_with_either(connect_four, small, record):
    trained = []
    for there in (False, True):
        window = SampleWindow(connect_four.spec(), TrainSettings())
        for number in range(6):
            window.add(window.read(validate(decode_record(record(number, of=connect_four)[1]))))
        network = new_network(connect_four.spec(), small, seed=1)
        learner = Learner(connect_four.spec(), network, TrainSettings(batch_size=32), window, seed=3)
        learner._device_batches = DeviceBatches(connect_four.spec(), CPU) if there else None
        for _ in range(3):
            learner.step()
        trained.append([*learner.network.state_dict().values(), *learner.candidate().state_dict().values()])
    for one, other in zip(*trained, strict=True):
        assert torch.equal(one, other)


def test_the_arrays_of_a_batch_do_not_share_memory_with_the_window(connect_four):
    maker, samples = BatchMaker(connect_four.spec()), samples_of(connect_four, 4)
    batch = DeviceBatches(connect_four.spec(), CPU).build(maker.turn(samples, None))
    before = batch.value.clone()
    samples.value[:] = 9.0
    assert torch.equal(batch.value, before)
