"""`zerofleet curves` on the history of a run."""

from __future__ import annotations

import json
import re

import pytest

from zerofleet.cli.commands.curves import UNKNOWN
from zerofleet.storage.runs import RunDirectory


@pytest.fixture
def run(tmp_path):
    """Return a run whose play becomes narrow over ten rows."""
    root = tmp_path / "run"
    with RunDirectory.create_or_open(root, "tic_tac_toe", {}, preset="tiny", seed=1) as directory:
        path = directory.paths.metrics / "run.jsonl"
    path.parent.mkdir(exist_ok=True)
    rows = [
        {
            "at": "2026-11-22T10:00:00+00:00",
            "elapsed_s": 360.0 * i,
            "ended_result": 55 * i,
            "ended_cut": 5 * i,
            "ended_resigned": 30 * i,
            "ended_soft_resigned": 10 * i,
            "wins_taken": 9 * i,
            "wins_overlooked": i,
            "target_entropy": 1.6 - 0.1 * i,
            "selfplay_samples": 100 * i,
            "selfplay_evaluations": 1_500 * i,
            "match_evaluations": 500 * i,
            "ladder_evaluations": 0,
            "network_age_s": None,
            "adoptions": 0,
            "adoption_total_s": 0.0,
        }
        for i in range(11)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return root


def test_the_table_has_a_line_for_each_period(zerofleet, run):
    outcome = zerofleet("curves", "--run-dir", str(run), "--points", "2")
    assert outcome.code == 0, outcome.err
    header, first, second = outcome.out.splitlines()
    assert re.split(r"  +", header.strip()) == [
        *("hours", "resigned", "softly", "cut", "overlooked", "entropy", "openings", "positions"),
        *("per sample", "gate", "age", "adoption"),
    ]
    dash = UNKNOWN
    assert " ".join(first.split()) == f"0.50 40.0 % 10.0 % 5.0 % 10.0 % 1.40 nat {dash} {dash} 20.0 25.0 % {dash} {dash}"
    assert " ".join(second.split()) == f"1.00 40.0 % 10.0 % 5.0 % 10.0 % 0.85 nat {dash} {dash} 20.0 25.0 % {dash} {dash}"


def test_the_periods_of_a_run_of_less_than_an_hour_are_in_minutes(zerofleet, run):
    path = run / "metrics" / "run.jsonl"
    path.write_text("".join(f"{line}\n" for line in path.read_text().splitlines()[:2]))
    header, *rows = zerofleet("curves", "--run-dir", str(run), "--points", "2").out.splitlines()
    assert header.split()[0] == "minutes"
    assert rows[-1].split()[0] == "6.0"


def test_a_run_without_a_game_has_a_sentence_in_place_of_a_table(zerofleet, run):
    row = {"at": "2026-11-22T10:00:00+00:00", "ended_result": 0, "target_entropy": None}
    lines = [json.dumps({**row, "elapsed_s": elapsed_s}) for elapsed_s in (1.0, 9.0)]
    (run / "metrics" / "run.jsonl").write_text("\n".join(lines) + "\n")
    assert zerofleet("curves", "--run-dir", str(run)).out == "no games yet\n"


def test_json_has_the_series_of_the_page_without_nan(zerofleet, run):
    said = zerofleet("curves", "tic_tac_toe", "--run-dir", str(run), "--points", "4", "--json").json()
    found = {one["name"]: one for one in said["series"]}
    rows = len(said["axes"]["run"]["hours"])
    assert rows == 4
    by_ending = {one["name"]: one["values"] for one in said["series"] if one["chart"] == "Games by ending"}
    assert by_ending.keys() == {"resigned", "soft_resigned", "cut"}
    assert by_ending["resigned"] == pytest.approx([0.4] * rows)
    assert by_ending["soft_resigned"] == pytest.approx([0.1] * rows)
    assert by_ending["cut"] == pytest.approx([0.05] * rows)
    assert found["evaluations_per_sample"]["values"] == pytest.approx([20.0] * rows)
    assert "network_age" not in found  # never known
    whole = zerofleet("curves", "--run-dir", str(run), "--json").json()
    assert len(whole["axes"]["run"]["hours"]) == 11


def test_json_has_the_export_to_adoption(zerofleet, run):
    rows = [
        {"at": "2026-11-22T10:00:00+00:00", "elapsed_s": 10.0 * i, "adoptions": i, "adoption_total_s": 7.0 * i}
        for i in (0, 1, 2)
    ]
    (run / "metrics" / "run.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (found,) = [
        one for one in zerofleet("curves", "--run-dir", str(run), "--json").json()["series"] if one["name"] == "adoption"
    ]
    assert (found["unit"], found["values"]) == ("s", [None, 7.0, 7.0])


@pytest.mark.slow
def test_the_curves_are_drawn(zerofleet, run, tmp_path):
    outcome = zerofleet("curves", "--run-dir", str(run), "--plot", str(tmp_path / "curves.svg"))
    assert outcome.code == 0, outcome.err
    texts = set(re.findall(r"<!-- (.*?) -->", (tmp_path / "curves.svg").read_text()))
    assert {
        "tic_tac_toe: diagnostics of a run",
        "resigned games, %",
        "cut games, %",
        "target entropy, nat",
        "evaluations per sample",
    } <= texts
    assert "wrote the curves to" in outcome.err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((), "give a game, or a run with --run-dir"),
        (("--run-dir", "RUN", "--plot", "curves.pdf"), "its name must end in .svg or .png"),
        (("othello", "--run-dir", "RUN"), "is a run of tic_tac_toe, not of othello"),
    ],
)
def test_an_impossible_request_is_rejected(zerofleet, run, words, error):
    outcome = zerofleet("curves", *(str(run) if word == "RUN" else word for word in words))
    assert outcome.code == 2
    assert error in outcome.err


def test_damaged_lines_are_left_out_and_said(zerofleet, run):
    path = run / "metrics" / "run.jsonl"
    whole = zerofleet("curves", "--run-dir", str(run), "--json")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:5], '{"at": "2026-11', *lines[5:]]) + "\n")
    damaged = zerofleet("curves", "--run-dir", str(run), "--json")
    assert damaged.json() == whole.json()
    assert f"left out 1 damaged line of {path}" in " ".join(damaged.err.split())


def test_a_run_without_diagnostics_is_rejected(zerofleet, run):
    (run / "metrics" / "run.jsonl").write_text('{"at": "2026-11-22T10:00:00+00:00", "elapsed_s": 3.0}\n')
    outcome = zerofleet("curves", "--run-dir", str(run))
    assert outcome.code == 2
    assert "has no diagnostics" in outcome.err
    assert zerofleet("curves", "--run-dir", str(run), "--json").json()["promotions"] == []
