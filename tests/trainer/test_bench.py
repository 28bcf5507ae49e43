"""The benchmark of the trainer: its figures are there and agree with each other."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from trainer.bench import measure


@pytest.mark.slow
def test_the_figures_of_the_benchmark_are_consistent(game):
    figures = measure(game, "tiny", seconds=0.5, games_per_second=100.0)
    assert figures.samples_per_second == pytest.approx(figures.batch_size / figures.step_ms * 1e3, rel=0.02)
    assert figures.games_validated_per_second > 0
    assert figures.samples_received_per_second > figures.games_validated_per_second
    assert 0 <= figures.wait_share <= 1
    assert figures.reuse <= 4.0
    assert figures.fed_games_per_second > 0


@pytest.mark.slow
def test_two_ranks_measure_together_and_rank_0_alone_reports():
    torchrun = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = ["--game", "tic_tac_toe", "--preset", "tiny", "--seconds", "0.2", "--games-per-second", "50"]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [*torchrun, "-m", "trainer.bench", *words], env=environment, capture_output=True, text=True, timeout=240, check=True
    )
    figures = json.loads(done.stdout)
    assert figures["processes"] == 2
    assert figures["samples_per_second"] > 0
