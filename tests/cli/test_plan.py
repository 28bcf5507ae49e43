from __future__ import annotations

import json

import pytest

from zerofleet.storage.runs import RunDirectory


def test_the_plan_names_the_part_that_saturates_first(zerofleet):
    found = zerofleet("plan", "--gpus", "2", "--workers", "4", "--json").json()
    assert found["saturates_first"] == "inference servers"
    assert found["games_per_hour"] > 0
    assert found["simulated"] is None
    assert "connect_four" in found["game"]


def test_the_simulation_is_printed_with_the_plan(zerofleet):
    found = zerofleet("plan", "--gpus", "2", "--workers", "8", "--simulate", "--seconds", "5", "--json").json()
    assert found["simulated"]["evaluations_per_second"] == pytest.approx(found["evaluations_per_second"], rel=0.1)


def test_a_simulation_in_which_no_request_of_the_match_was_answered_has_no_times_of_it(zerofleet):
    words = ("plan", "--gpus", "1", "--workers", "1", "--simulate", "--seconds", "1")
    found = zerofleet(*words, "--json").json()
    assert (found["simulated"]["gate_step_ms"] is None) == (found["simulated"]["gate_match_s"] is None)
    assert zerofleet(*words).code == 0


def row(at, games):
    evaluations = {"selfplay_evaluations": 130 * games, "match_evaluations": 13 * games, "ladder_evaluations": 0}
    return json.dumps({"at": "2026-11-24T10:00:00+00:00", "elapsed_s": at, "games": games, "moves": 17 * games, **evaluations})


def test_a_plan_like_a_run_has_its_games_and_the_share_of_its_gate(zerofleet, tmp_path):
    root = tmp_path / "run"
    with RunDirectory.create_or_open(root, "connect_four", {}, preset="laptop", seed=1) as run:
        run.paths.metrics.mkdir(exist_ok=True)
        (run.paths.metrics / "run.jsonl").write_text(f"{row(0.0, 0)}\n{row(60.0, 5_000)}\n")
    usual, like = (zerofleet("plan", *words, "--json") for words in ((), ("--like", str(root))))
    assert like.json()["evaluations_per_game"] == 130.0
    assert like.json()["gate_share"] == pytest.approx(1 / 11)
    assert like.json()["games_per_hour"] != usual.json()["games_per_hour"]
    assert "5,000 games of the last 60 s" in like.err
    assert "17.0 moves, 130.0 evaluations; the gate takes 9.1% of all evaluations" in like.err
    other = zerofleet("plan", "--like", str(tmp_path))
    assert (other.code, other.out) == (2, "")


def test_the_plan_is_printed_as_tables(zerofleet):
    shown = zerofleet("plan", "--simulate", "--seconds", "2").out
    assert "saturates first" in shown
    assert "most games in the stream" in shown


def test_a_plan_with_the_shipped_costs_states_the_settings_that_replace_the_presets(zerofleet):
    shown = zerofleet("plan")
    told = "settings in place of the preset's: network.blocks=2, network.channels=32"
    assert told in " ".join(shown.err.split())
    assert told in zerofleet("plan", "--json").json()["costs"]


@pytest.mark.parametrize("option", ["--plies", "--link-gbit", "--seconds", "--trainer-away"])
def test_an_infinite_number_of_a_plan_is_refused(zerofleet, option):
    refused = zerofleet("plan", "--simulate", option, "inf")
    assert (refused.code, refused.out) == (2, "")
    assert f"'{option}': inf is out of range; want a finite number" in refused.err


@pytest.mark.parametrize(
    "words",
    [
        ("agent", "connect_four", "random", "--seconds"),
        ("perft", "connect_four", "--seconds"),
        ("rhombus_search", "--seconds"),
        ("search", "--seconds"),
        ("serve", "--seconds"),
        ("train", "--seconds"),
        ("train", "--games-per-second"),
    ],
    ids=" ".join,
)
def test_a_measurement_without_an_end_is_refused(zerofleet, words):
    refused = zerofleet("bench", *words, "inf")
    assert (refused.code, refused.out) == (2, "")
    assert "inf is out of range; want a finite number" in refused.err
