from __future__ import annotations

import pytest

import games
from zerofleet.cli.bench.perft import run


def test_perft_returns_counts_and_speed():
    figures = run("connect_four", 6, {"rows": 4, "columns": "5"})
    assert figures["counts"] == [5, 25, 125, 625, 3120, 15500]
    assert figures["finished"] == [0] * 6
    assert figures["parameters"] == {"rows": "4", "columns": "5", "connect": "4"}
    assert figures["positions"] == sum(figures["counts"])
    assert figures["positions_per_second"] > 0


def test_perft_rejects_invalid_game_parameters():
    with pytest.raises(games.InvalidParameters):
        run("connect_four", 3, {"rows": 1})
    with pytest.raises(games.UnknownGame):
        run("ludo", 3)


def test_bench_perft_prints_all_fields_as_json(zerofleet):
    figures = zerofleet("bench", "perft", "tic_tac_toe", "--depth", "3", "--json").json()
    assert figures["counts"] == [9, 72, 504]
    assert figures["positions_per_second"] > 0


def test_bench_perft_prints_a_row_for_every_length(zerofleet):
    outcome = zerofleet("bench", "perft", "connect_four", "--depth", "4", "--set", "columns=25")
    assert outcome.code == 0
    assert "connect_four_columns25" in outcome.out
    assert "390,625" in outcome.out
    assert "positions per second" in outcome.out


def test_bench_perft_rejects_a_depth_of_zero(zerofleet):
    assert zerofleet("bench", "perft", "tic_tac_toe", "--depth", "0").code == 2
