"""The memory of the last transitions, and draws from it."""

import math

import numpy as np
import pytest
from pydantic import ValidationError

from trainer.learners.deep_q.memory import Memory
from trainer.learners.deep_q.transitions import Transitions
from zerofleet.presets.deep_q import DeepQSettings


def numbered(count, *, replay=100, **settings):
    memory = Memory(DeepQSettings(replay=replay, **settings), packed_bytes=1, pool=1)
    for number in range(count):
        row = Transitions.empty(1, packed_bytes=1, pool=1)
        row.actions[0] = number
        memory.insert(row)
    return memory


def test_the_memory_holds_the_last_transitions_first_in_first_out():
    memory = numbered(250)
    assert sorted(memory.ring.actions.tolist()) == list(range(150, 250))
    assert memory.ring.actions[memory.by_age(np.arange(100))].tolist() == list(range(249, 149, -1))
    assert len(numbered(7)) == 7


@pytest.mark.parametrize("count", [30, 100, 137])
def test_uniform_draws_are_equally_frequent(count):
    drawn = numbered(count).draw(50_000, np.random.default_rng(5))
    counts = np.bincount(drawn, minlength=min(count, 100))
    assert len(counts) == min(count, 100)
    expected = counts.sum() / len(counts)
    statistic = float(((counts - expected) ** 2 / expected).sum())  # chi-square with n - 1 degrees of freedom
    freedom = len(counts) - 1
    assert abs(statistic - freedom) < 3.3 * math.sqrt(2 * freedom)


def test_poisson_draws_have_the_truncated_distribution_of_the_age():
    memory = numbered(137, replay=30, sampling="poisson", poisson_age=12)
    ages = 136 - memory.ring.actions[memory.draw(50_000, np.random.default_rng(5))]
    shares = np.array([12**age / math.factorial(age) for age in range(30)])
    np.testing.assert_allclose(np.bincount(ages, minlength=30) / 50_000, shares / shares.sum(), atol=0.006)


@pytest.mark.parametrize(("sampling", "replay"), [("sweep", 2_000), ("poisson", 1_000_000)])
def test_a_memory_of_a_size_for_its_sampling_is_accepted(sampling, replay):
    assert DeepQSettings(sampling=sampling, replay=replay).replay == replay


def test_a_memory_too_large_for_sweeps_is_refused_with_the_limit():
    with pytest.raises(
        ValidationError, match="sampling=sweep takes at most 2000 transitions in memory, got replay=2001; lower"
    ):
        DeepQSettings(sampling="sweep", replay=2_001)
