"""Batches: bits to planes, symmetries of planes, actions and targets together."""

from __future__ import annotations

import numpy as np
import pytest

from games import core
from games.kit import bits
from trainer.batches import BatchMaker
from trainer.samples import Samples
from zerofleet.contracts.encodings import sample_positions


def samples_of(game, count=40):
    states, legal = sample_positions(game, games=8, seed=3)
    states, legal = states[:count], legal[:count]
    rng = np.random.default_rng(1)
    policy = np.where(legal >= 0, rng.random(legal.shape), 0)
    policy /= policy.sum(axis=1, keepdims=True)
    value = rng.uniform(-1, 1, (len(states), 2)).astype(np.float32)
    opponents = rng.integers(-1, game.spec().num_actions, (len(states), 1)).astype(np.int16)
    plies_left, weight = rng.random((2, len(states))).astype(np.float32)
    return Samples(states, legal, policy.astype(np.float16), value, opponents, plies_left, opponents[:, 0], weight)


def test_without_symmetry_the_planes_equal_the_games_encoding(game, connect_four):
    for chosen in (game, connect_four):
        samples = samples_of(chosen)
        batch = BatchMaker(chosen.spec()).make(samples, None)
        np.testing.assert_array_equal(batch.planes.numpy(), bits.unpack(samples.states, chosen.spec().planes))
        np.testing.assert_array_equal(batch.legal.numpy(), samples.legal)
        np.testing.assert_array_equal(batch.opponents.numpy(), samples.opponents)
        np.testing.assert_array_equal(batch.plies_left.numpy(), samples.plies_left)


def test_every_symmetry_is_used_and_transforms_planes_and_actions_consistently(game):
    samples = samples_of(game, 1)
    many = Samples(*(np.repeat(array, 400, axis=0) for array in samples.arrays))
    batch = BatchMaker(game.spec()).make(many, np.random.default_rng(0))
    planes = bits.unpack(samples.states, game.spec().planes)[0].reshape(2, 9)
    identity = (np.arange(9), np.arange(9))
    images = [identity, *((s.cells, s.actions) for s in game.spec().symmetries)]
    wanted = [(planes[:, cells], actions[samples.legal[0]]) for cells, actions in images]
    seen = set()
    for row in range(400):
        got = batch.planes[row].reshape(2, 9).numpy(), batch.legal[row].numpy()
        matches = [i for i, (p, a) in enumerate(wanted) if (p == got[0]).all() and (a == got[1]).all()]
        assert matches
        seen.update(matches)
    assert len(seen) == 8


def test_the_opponents_choices_are_transformed_with_the_board(game):
    samples = samples_of(game, 1)
    samples.opponents[:] = 5
    samples.legal[0, :] = -1
    samples.legal[0, 0] = 1
    many = Samples(*(np.repeat(array, 100, axis=0) for array in samples.arrays))
    batch = BatchMaker(game.spec()).make(many, np.random.default_rng(0))
    pairs = {(int(own), int(other)) for own, other in zip(batch.legal[:, 0], batch.opponents[:, 0], strict=True)}
    assert pairs == {(1, 5), *((int(s.actions[1]), int(s.actions[5])) for s in game.spec().symmetries)}


def test_a_transformed_position_equals_the_position_after_the_transformed_moves(connect_four):
    """Play a line and its mirror image: the batch made of one, mirrored, must equal the encoding of the other."""
    spec = connect_four.spec()
    mirror = spec.symmetries[0].actions
    moves = [0, 1, 1, 4, 6, 6, 2]
    encoded = []
    for line in (moves, [int(mirror[move]) for move in moves]):
        state = np.zeros(spec.state_size, spec.state_dtype)
        core.reset(connect_four, state, 0)
        for move in line:
            core.play(connect_four, state, move)
        planes = np.zeros(spec.packed_bytes, np.uint8)
        core.encode(connect_four, state, core.to_move(connect_four, state), planes)
        encoded.append(planes)
    samples = samples_of(connect_four, 1)
    one = Samples(np.stack([encoded[0]] * 50), *(np.repeat(array, 50, axis=0) for array in samples.arrays[1:]))
    batch = BatchMaker(spec).make(one, np.random.default_rng(0))
    images = {batch.planes[row].numpy().astype(np.uint8).tobytes() for row in range(50)}
    assert images == {bits.unpack(packed, spec.planes).tobytes() for packed in encoded}


def test_a_symmetry_does_not_change_padding_and_targets(game):
    samples = samples_of(game)
    batch = BatchMaker(game.spec()).make(samples, np.random.default_rng(0))
    np.testing.assert_array_equal(batch.legal.numpy() < 0, samples.legal < 0)
    np.testing.assert_array_equal(batch.policy.numpy(), samples.policy.astype(np.float32))
    np.testing.assert_array_equal(batch.value.numpy(), samples.value)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_same_generator_state_makes_the_same_batch(game, seed):
    samples, maker = samples_of(game), BatchMaker(game.spec())
    one, two = (maker.make(samples, np.random.default_rng(seed)) for _ in range(2))
    assert (one.planes == two.planes).all()
    assert (one.legal == two.legal).all()
