"""The benchmark of the trainer: its figures are there and agree with each other."""

from __future__ import annotations

import pytest

from trainer.bench import measure


@pytest.mark.slow
def test_the_figures_are_measured_and_agree(game):
    figures = measure(game, "tiny", seconds=0.5, games_per_second=100.0)
    assert figures.samples_per_second == pytest.approx(figures.batch_size / figures.step_ms * 1e3, rel=0.02)
    assert figures.games_validated_per_second > 10
    assert figures.samples_received_per_second > figures.games_validated_per_second
    assert 0 <= figures.wait_share <= 1
    assert figures.reuse <= 4.0
    assert figures.fed_games_per_second > 1
