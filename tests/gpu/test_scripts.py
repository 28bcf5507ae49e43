"""Scripts of `benchmarks/gpu` without a GPU: they import, their arithmetic, and the ceiling on a CPU."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re

import numpy as np
import pytest

import benchmarks.gpu
from benchmarks.gpu import ceiling, served
from zerofleet.errors import Unavailable

FIGURES = {
    "workers": 8,
    "served_positions_per_second": 1_200_000,
    "raw_positions_per_second": 1_500_000,
    "raw_best_batch": 1024,
    "ratio": 0.8,
    "mean_batch": 3500.4,
    "device_busy_share": 0.913,
    "server_cores": 1.25,
    "worker_cores": 7.5,
}


class Paced:
    """Network that evaluates so many positions a second of its own clock, which runs slower in the first turn."""

    def __init__(self, per_second):
        self.now_s = 0.0
        self.calls = 0
        self._per_second = per_second

    def evaluate(self, states, legal):
        (rows,) = map(len, states)
        assert rows == sum(map(len, legal))
        self.now_s += rows / self._per_second * (100 if self.calls == 0 else 1)
        self.calls += 1

    def clock_s(self):
        return self.now_s


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(benchmarks.gpu.__path__)])
def test_every_script_finds_the_modules_that_it_imports(name):
    module = importlib.import_module(f"benchmarks.gpu.{name}")
    with pytest.raises(SystemExit) as ended:
        module.main(["--help"])
    assert ended.value.code == 0


def test_rates_leave_out_the_first_turn_and_keep_the_batch_size():
    network = Paced(per_second=1000.0)
    positions = np.zeros((3, 5), np.uint8), np.zeros((3, 7), np.int16)
    small, large = ceiling.measure(network, positions, [10, 50], rounds=3, seconds=0.2, clock_s=network.clock_s)
    assert (small.batch, large.batch) == (10, 50)
    assert small.evaluations_per_second == small.slowest == small.fastest == 1000
    assert large.ms_per_batch == pytest.approx(50.0)


@pytest.mark.slow
def test_the_ceiling_is_measured_on_a_cpu(capsys):
    size = ["--blocks", "1", "--channels", "8", "--batches", "4", "16"]
    assert ceiling.main([*size, "--device", "cpu", "--rounds", "2", "--seconds", "0"]) == 0
    printed = capsys.readouterr().out
    assert "backend " in printed
    assert re.findall(r"^\| (\d+) \| [1-9]", printed, flags=re.MULTILINE) == ["4", "16"]


def test_a_measurement_of_serving_is_one_row():
    assert served.row(FIGURES) == "| 8 | 1,200,000 | 1,500,000 (batch 1,024) | 80.0% | 3,500 | 91.3% | 1.25 / 7.50 |"


def test_the_size_of_the_network_reaches_the_services_and_is_reset(monkeypatch, capsys):
    monkeypatch.setenv("ZEROFLEET_NETWORK__BLOCKS", "2")
    monkeypatch.delenv("ZEROFLEET_NETWORK__CHANNELS", raising=False)
    seen = []

    def serve(game, preset, seconds, *, workers, arguments):
        seen.append((preset, workers, arguments, os.environ["ZEROFLEET_NETWORK__BLOCKS"]))
        assert os.environ["ZEROFLEET_NETWORK__CHANNELS"] == "96"
        return dict(FIGURES, workers=workers)

    assert served.main(["--blocks", "6", "--channels", "96", "--workers", "4", "8", "--device", "cuda:0"], serve=serve) == 0
    server = ["--device", "cuda:0", "--precision", "auto", "--backend", "auto"]
    assert seen == [("gpu", 4, server, "6"), ("gpu", 8, server, "6")]
    assert os.environ["ZEROFLEET_NETWORK__BLOCKS"] == "2"
    assert "ZEROFLEET_NETWORK__CHANNELS" not in os.environ
    assert "network 6x96" in capsys.readouterr().out


def test_a_process_that_fails_ends_the_measurement_with_its_reason(capsys):
    def serve(*_, **__):
        raise Unavailable("the server exited with code 1")

    assert served.main(["--workers", "4"], serve=serve) == 1
    assert "4 workers: the server exited with code 1" in capsys.readouterr().err
