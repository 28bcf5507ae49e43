"""The device of `zerofleet.testing.devices`: shapes of a model's heads, and time by batch and row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inference_server.network import Backend
from zerofleet.contracts.encodings import sample_positions
from zerofleet.testing.devices import TimedBackend
from zerofleet.testing.models import manifest_of, uniform_golden


def test_answers_have_the_shapes_and_types_of_the_heads(game):
    backend: Backend = TimedBackend()
    heads = ("policy", "value", "plies_left")
    network = backend.load(Path("unread"), manifest_of(game, uniform_golden(game), heads=heads), max_batch=4)
    states, legal = sample_positions(game, games=2, seed=0)
    for rows in (3, len(states)):  # within the largest batch, and beyond it
        policy, value, plies_left = network.evaluate([states[:1], states[1:rows]], [legal[:1], legal[1:rows]])
        assert (policy.shape, policy.dtype) == ((rows, legal.shape[1]), np.float16)
        assert (value.shape, value.dtype) == ((rows, 2), np.float32)
        assert (plies_left.shape, plies_left.dtype) == ((rows, 1), np.float32)
        assert not policy.any()


def test_a_batch_takes_its_time_and_that_of_each_row(game):
    slept: list[float] = []
    backend = TimedBackend(batch_s=0.25, row_s=0.5, sleep=slept.append)
    network = backend.load(Path("unread"), manifest_of(game, uniform_golden(game)), max_batch=16)
    states, legal = sample_positions(game, games=1, seed=0)
    network.evaluate([states[:2], states[2:3]], [legal[:2], legal[2:3]])
    assert slept == [pytest.approx(0.25 + 3 * 0.5)]


def test_a_device_without_a_time_does_not_sleep(game):
    slept: list[float] = []
    network = TimedBackend(sleep=slept.append).load(Path("unread"), manifest_of(game, uniform_golden(game)), max_batch=16)
    states, legal = sample_positions(game, games=1, seed=0)
    network.evaluate([states], [legal])
    assert slept == []
