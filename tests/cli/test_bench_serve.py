"""`zerofleet bench serve` on the smallest network."""

from __future__ import annotations

import pytest

from zerofleet.cli.bench.serve import _fill


def test_batch_fill_is_the_share_of_positions_by_batch_size():
    assert _fill({1: 8, 2: 4, 3: 4, 4: 3, 64: 1, 65: 0}) == {"1": 0.0769, "2": 0.0769, "4": 0.2308, "64": 0.6154}
    assert _fill({}) == {}


@pytest.mark.slow
def test_bench_serve_prints_all_fields_as_json(zerofleet):
    figures = zerofleet("bench", "serve", "--game", "tic_tac_toe", "--preset", "tiny", "--seconds", "2", "--json").json()
    assert figures["game"] == "tic_tac_toe"
    assert figures["raw_positions_per_second"] > 0
    assert figures["served_positions_per_second"] > 0
    assert figures["ratio"] == pytest.approx(
        figures["served_positions_per_second"] / figures["raw_positions_per_second"], rel=0.01
    )
    assert figures["mean_batch"] >= 1
    assert sum(figures["batch_fill"].values()) == pytest.approx(1.0, abs=0.01)
    assert figures["person_latency_ms"] is None
    assert 0 < figures["latency_ms"]["p50"] <= figures["latency_ms"]["p95"] <= figures["latency_ms"]["p99"]


@pytest.mark.slow
def test_bench_serve_measures_the_latency_of_a_person_beside_self_play(zerofleet):
    words = ("bench", "serve", "--game", "tic_tac_toe", "--preset", "tiny", "--seconds", "2", "--person", "high")
    latency_ms = zerofleet(*words, "--json").json()["person_latency_ms"]
    assert 0 < latency_ms["p50"] <= latency_ms["p95"] <= latency_ms["p99"]
    assert "latency of a person's requests" in zerofleet(*words).out


@pytest.mark.slow
def test_bench_serve_reports_why_its_server_failed_to_start(zerofleet):
    outcome = zerofleet("bench", "serve", "--game", "tic_tac_toe", "--preset", "tiny", "--precision", "float16")
    assert outcome.code != 0
    assert "float16 needs a GPU" in outcome.err
