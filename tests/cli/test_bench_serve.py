"""`zerofleet bench serve` on the smallest network."""

from __future__ import annotations

import math

import numpy as np
import pytest

from games.core import make
from zerofleet.cli.bench.serve import _show
from zerofleet.cli.bench.serve_figures import _fill, figures_of

TURN = {
    "positions": 700,
    "games": 7,
    "moves": 100,
    "seconds": 1.0,
    "bytes_asked": 0,
    "bytes_answered": 0,
    "busy_s": 0.5,
    "evaluated": 700,
    "device_s": 0.5,
    "server_s": 0.5,
    "worker_s": 0.2,
    "requests": 30,
    "latencies_s": [0.1],
    "person_s": [],
    "batches": {64: 11},
}
BARE = {64: (1000, 1.0, 0.5)}


def measured(raw, served):
    return figures_of(make("tic_tac_toe"), "tiny", raw, served, workers=1, threads=1, transport="auto")


def test_batch_fill_is_the_share_of_positions_by_batch_size():
    assert _fill({1: 8, 2: 4, 3: 4, 4: 3, 64: 1, 65: 0}) == {"1": 0.0769, "2": 0.0769, "4": 0.2308, "64": 0.6154}
    assert _fill({}) == {}


def test_positions_are_counted_by_game_and_by_move_unless_games_take_too_long():
    counted, not_counted = measured([BARE] * 2, [TURN] * 2), measured([BARE] * 2, [TURN | {"games": 0, "moves": 0}] * 2)
    assert (counted.positions_per_game, counted.positions_per_move) == (100.0, 7.0)
    assert (not_counted.positions_per_game, not_counted.positions_per_move) == (0.0, 0.0)
    assert counted.requests_per_second == 30.0  # of all requests, however few latencies the sample has


def test_the_interval_of_the_ratio_is_students_over_rounds_each_served_turn_beside_its_bare_one():
    raw = [{64: (rate, 1.0, 0.5)} for rate in (1000, 2000, 500)]  # a machine whose speed changes from round to round
    found = measured(raw, [TURN | {"positions": positions} for positions in (800, 1800, 350)])
    assert found.ratio_by_round == [0.8, 0.9, 0.7]
    half = 4.303 * 0.1 / math.sqrt(3)  # of Student's t with two degrees of freedom
    assert found.ratio_interval == [pytest.approx(0.8 - half, abs=1e-4), pytest.approx(0.8 + half, abs=1e-4)]


def test_a_device_thread_that_waits_lowers_the_ratio_and_slower_work_that_by_processor_time_as_well():
    bare = {64: (1000, 1.0, 1.0), 32: (900, 1.0, 0.1)}  # the size with the higher rate is the measure of both ratios
    waits = measured([bare] * 2, [TURN | {"positions": 500, "evaluated": 500, "device_s": 0.5}] * 2)
    slower = measured([bare] * 2, [TURN | {"positions": 500, "evaluated": 500, "device_s": 1.0}] * 2)
    assert (waits.ratio, waits.processor_ratio) == (0.5, 1.0)
    assert (slower.ratio, slower.processor_ratio) == (0.5, 0.5)
    assert (slower.raw_positions_per_processor_second, slower.served_positions_per_processor_second) == (1000, 500)


@pytest.mark.slow
def test_bench_serve_prints_all_fields_as_json_with_the_latency_of_a_person_beside_self_play(zerofleet, capsys):
    words = ("bench", "serve", "--game", "tic_tac_toe", "--preset", "tiny", "--seconds", "2", "--person", "high")
    figures = zerofleet(*words, "--json").json()
    assert (figures["game"], figures["transport"]) == ("tic_tac_toe", "auto")
    assert figures["raw_positions_per_second"] > 0
    assert figures["served_positions_per_second"] > 0
    assert figures["ratio"] == pytest.approx(
        figures["served_positions_per_second"] / figures["raw_positions_per_second"], rel=0.01, abs=1e-4
    )
    low, high = figures["ratio_interval"]
    assert low < np.mean(figures["ratio_by_round"]) < high
    assert figures["processor_ratio"] == pytest.approx(
        figures["served_positions_per_processor_second"] / figures["raw_positions_per_processor_second"], rel=0.01, abs=1e-4
    )
    assert figures["processor_ratio"] > 0
    assert figures["mean_batch"] >= 1
    assert sum(figures["batch_fill"].values()) == pytest.approx(1.0, abs=0.01)
    for latency_ms in (figures["latency_ms"], figures["person_latency_ms"]):
        assert 0 < latency_ms["p50"] <= latency_ms["p95"] <= latency_ms["p99"]
    for person_ms in (figures["person_latency_ms"], None):  # the tables of a measurement with a person, and without one
        _show(figures | {"person_latency_ms": person_ms})
        shown = capsys.readouterr().out
        assert "latency p50 / p95 / p99" in shown
        assert f"{low:.1%} to {high:.1%}" in shown
        assert "ratio by processor time of the device thread" in shown
        assert ("latency of a person's requests" in shown) == (person_ms is not None)


@pytest.mark.slow
def test_bench_serve_reports_why_its_server_failed_to_start(zerofleet):
    outcome = zerofleet("bench", "serve", "--game", "tic_tac_toe", "--preset", "tiny", "--precision", "float16")
    assert outcome.code != 0
    assert "float16 needs a GPU" in outcome.err
