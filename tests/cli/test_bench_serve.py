"""`zerofleet bench serve` on the smallest network."""

from __future__ import annotations

import pytest

from games.core import make
from zerofleet.cli.bench.serve import Carrier, _figures, _fill, _show


def test_batch_fill_is_the_share_of_positions_by_batch_size():
    assert _fill({1: 8, 2: 4, 3: 4, 4: 3, 64: 1, 65: 0}) == {"1": 0.0769, "2": 0.0769, "4": 0.2308, "64": 0.6154}
    assert _fill({}) == {}


def test_positions_are_counted_by_game_and_by_move_unless_games_take_too_long():
    turn = {
        "positions": 700,
        "seconds": 1.0,
        "bytes_asked": 0,
        "bytes_answered": 0,
        "busy_s": 0.5,
        "server_s": 0.5,
        "worker_s": 0.2,
    }
    turn |= {"requests": 30, "latencies_s": [0.1], "person_s": [], "batches": {64: 11}}

    def figures(games, moves):
        served, raw = [turn | {"games": games, "moves": moves}] * 2, [{64: (640, 1.0)}] * 2
        return _figures(make("tic_tac_toe"), "tiny", raw, served, workers=1, threads=1, transport=Carrier.AUTO)

    counted, not_counted = figures(7, 100), figures(0, 0)
    assert (counted.positions_per_game, counted.positions_per_move) == (100.0, 7.0)
    assert (not_counted.positions_per_game, not_counted.positions_per_move) == (0.0, 0.0)
    assert counted.requests_per_second == 30.0  # of all requests, however few latencies the sample has


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
    assert figures["mean_batch"] >= 1
    assert sum(figures["batch_fill"].values()) == pytest.approx(1.0, abs=0.01)
    for latency_ms in (figures["latency_ms"], figures["person_latency_ms"]):
        assert 0 < latency_ms["p50"] <= latency_ms["p95"] <= latency_ms["p99"]
    for person_ms in (figures["person_latency_ms"], None):  # the tables of a measurement with a person, and without one
        _show(figures | {"person_latency_ms": person_ms})
        shown = capsys.readouterr().out
        assert "latency p50 / p95 / p99" in shown
        assert ("latency of a person's requests" in shown) == (person_ms is not None)


@pytest.mark.slow
def test_bench_serve_reports_why_its_server_failed_to_start(zerofleet):
    outcome = zerofleet("bench", "serve", "--game", "tic_tac_toe", "--preset", "tiny", "--precision", "float16")
    assert outcome.code != 0
    assert "float16 needs a GPU" in outcome.err
