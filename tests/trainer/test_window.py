"""The growing window: numbers of the rule, what leaves, what is drawn."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trainer.samples import Samples
from trainer.window import SampleWindow, window_size
from zerofleet.presets import TrainSettings

KATAGO = TrainSettings(window_min=250_000, window_exponent=0.75, window_slope=0.4, window_max=10**9)


@pytest.mark.parametrize(
    ("total", "size"),
    [
        (0, 0),
        (1, 1),
        (250_000, 250_000),
        (250_001, 250_000),
        # c (1 + beta ((N/c)^alpha - 1) / alpha) by hand: N/c = 16, 16^0.75 = 8, 1 + 0.4 * 7 / 0.75 = 4.7333
        (4_000_000, 1_183_333),
        # N/c = 964, as many samples as KataGo's main run: 964^0.75 = 173.0, 1 + 0.4 * 172.0 / 0.75 = 92.74
        (241_000_000, 23_183_953),
    ],
)
def test_the_window_rule_matches_a_calculation_by_hand(total, size):
    assert window_size(total, KATAGO) == size


def test_the_window_grows_by_its_slope_at_first_and_never_shrinks():
    sizes = [window_size(total, KATAGO) for total in range(250_000, 260_000, 1000)]
    assert np.diff(sizes) == pytest.approx(400, abs=3)
    assert (np.diff([window_size(n, KATAGO) for n in range(0, 5_000_000, 10_000)]) >= 0).all()


def test_the_window_never_exceeds_its_maximum():
    assert window_size(10_000, TrainSettings(window_min=5_000, window_max=1_000)) == 1_000


def numbered(spec, numbers):
    samples = Samples.empty(spec, len(numbers))
    samples.value[:] = np.array(numbers, np.float32)[:, None]
    return samples


def drawn(window, rng):
    return {int(value) for value in window.draw(4000, rng).value[:, 0]}


def test_exactly_the_most_recent_samples_are_drawn(game):
    settings = TrainSettings(window_min=10, window_slope=0.4)
    window, rng, total = SampleWindow(game.spec(), settings), np.random.default_rng(0), 0
    for count in (1, 3, 4, 9, 0, 30, 17):
        window.add(numbered(game.spec(), range(total, total + count)))
        total += count
        assert window.total == total
        assert len(window) == window_size(total, settings)
        assert drawn(window, rng) == set(range(total - len(window), total))


def test_adding_more_samples_than_the_window_size_leaves_the_last_ones(game):
    window = SampleWindow(game.spec(), TrainSettings(window_min=10, window_max=20))
    window.add(numbered(game.spec(), range(10_000)))
    assert drawn(window, np.random.default_rng(0)) == set(range(9_980, 10_000))


@pytest.mark.slow
def test_the_ring_buffer_grows_and_wraps_without_losing_or_mixing_samples(game):
    settings = TrainSettings(window_min=5_000, window_max=12_000)
    window, rng, total = SampleWindow(game.spec(), settings), np.random.default_rng(0), 0
    while total < 60_000:
        count = int(rng.integers(1, 2_000))
        window.add(numbered(game.spec(), range(total, total + count)))
        total += count
        found = window.draw(2_000, rng).value[:, 0]
        assert found.min() >= total - len(window)
        assert found.max() < total
    assert len(drawn(window, rng)) > 3_000


def test_a_window_with_a_later_first_sample_draws_only_samples_that_arrived(game):
    window = SampleWindow(game.spec(), TrainSettings(window_min=1_000), first=700)
    assert (len(window), window.total) == (0, 700)
    window.add(numbered(game.spec(), range(700, 750)))
    assert (len(window), window.total) == (50, 750)
    assert drawn(window, np.random.default_rng(0)) == set(range(700, 750))


def test_drawn_samples_are_copies(game):
    window = SampleWindow(game.spec(), TrainSettings())
    window.add(numbered(game.spec(), [1]))
    window.draw(1, np.random.default_rng(0)).value[:] = 9
    assert drawn(window, np.random.default_rng(0)) == {1}


class EverySample:
    """In place of a generator of random numbers: each sample of the window once."""

    def integers(self, low, high, _count):
        return np.arange(low, high)


def test_a_window_that_grows_after_it_wrapped_keeps_every_sample_whole(game):
    settings = TrainSettings(window_min=4_096, window_slope=0.4, window_max=12_000)
    window, total = SampleWindow(game.spec(), settings), 0
    while len(window) < settings.window_max:
        samples = numbered(game.spec(), range(total, total + 1_001))
        samples.weight[:] = samples.value[:, 0]
        window.add(samples)
        total += len(samples)
        kept = window.draw(len(window), EverySample())
        assert kept.value[:, 0].tolist() == kept.weight.tolist() == list(range(total - len(window), total))


def test_a_window_without_memory_to_grow_keeps_its_samples(game, monkeypatch):
    def refuse(*_arguments):
        raise MemoryError("Unable to allocate 8.36 GiB")

    window = SampleWindow(game.spec(), TrainSettings())
    window.add(numbered(game.spec(), range(4_096)))
    monkeypatch.setattr("trainer.window.Samples.empty", refuse)
    with pytest.raises(MemoryError):
        window.add(numbered(game.spec(), [4_096]))
    monkeypatch.undo()
    assert window.draw(4_096, EverySample()).value[:, 0].tolist() == list(range(4_096))
    window.add(numbered(game.spec(), [4_096]))
    assert window.draw(4_097, EverySample()).value[:, 0].tolist() == list(range(4_097))


@pytest.mark.slow
def test_the_growth_of_a_window_needs_memory_for_one_more_of_its_arrays_at_most():
    command = [sys.executable, str(Path(__file__).with_name("window_process.py")), str(32 * 4_096)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    figures = json.loads(done.stdout)
    huge_pages = 2 * (2 << 20)
    assert figures["growth_bytes"] < figures["largest_array_bytes"] + huge_pages < 0.7 * figures["window_bytes"]
