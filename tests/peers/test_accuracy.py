"""Table of accuracy: rows of the peers, results of the product, intervals."""

from __future__ import annotations

import json

import pytest

from benchmarks.peers.accuracy import Share, main, of_peers, of_zerofleet, points, table, with_seeds
from zerofleet.errors import InvalidRequest

ROW = {
    "peer": "open_spiel",
    "version": "open_spiel 2.0.2",
    "settings": "small",
    "seed": 1,
    "cpu_s": 300.0,
    "reached_cpu_s": 301.2,
    "games": 120,
    "samples": 2400,
    "updates": 16,
    "policy_sign": 50.0,
    "policy_exact": 40.0,
    "search_sign": 75.0,
    "search_exact": 60.0,
    "simulations": 100,
    "policy_positions": 1000,
    "search_positions": 200,
    "judging_cpu_s": 20.0,
}
MEASURES = [("policy alone, sign", 0.8), ("policy alone, exact", 0.7), ("100 simulations, sign", 0.9), ("", 0.85)]
RESULT = {
    "format": 1,
    "preset": "laptop",
    "unit": "processor seconds",
    "judge": {"kind": "perfect play"},
    "seeds": [
        {
            "seed": 1,
            "judgements": [
                {
                    "planned": 150.0,
                    "start_cpu_seconds": 12.0,
                    "games": 5000,
                    "samples": 60_000,
                    "steps": 400,
                    "measures": [{"name": name, "value": value, "of": 1000} for name, value in MEASURES],
                }
            ],
        }
    ],
}


def test_a_share_is_shown_in_per_cent_with_wilsons_interval():
    assert str(Share(0.5, 100)) == "50.0 (40.4 to 59.6)"


def test_rows_of_a_peer_keep_progress_and_both_judgements():
    (found,) = of_peers([json.dumps(ROW)])
    assert (found.program, found.cpu_s, found.games, found.updates) == ("open_spiel (small)", 300.0, 120, 16)
    assert found.policy == (Share(0.5, 1000), Share(0.4, 1000))
    assert found.search == (Share(0.75, 200), Share(0.6, 200))


def test_a_search_that_was_left_out_is_an_empty_cell():
    (found,) = of_peers([json.dumps(ROW | {"search_sign": None, "search_exact": None, "search_positions": 0})])
    assert found.search is None
    assert table([found])[-1].endswith("|  |")


def test_a_row_without_a_judgement_of_the_policy_is_refused():
    with pytest.raises(ValueError, match="--policy-positions must not be 0"):
        list(of_peers([json.dumps(ROW | {"policy_sign": None, "policy_exact": None})]))


def test_a_result_of_the_product_counts_from_the_start_of_its_process_as_those_of_the_peers_do():
    (found,) = of_zerofleet(RESULT)
    assert (found.program, found.cpu_s, found.samples, found.updates) == ("zerofleet (laptop)", 162.0, 60_000, 400)
    assert found.policy == (Share(0.8, 1000), Share(0.7, 1000))
    assert found.search == (Share(0.9, 1000), Share(0.85, 1000))


@pytest.mark.parametrize(
    ("change", "named"),
    [({"judge": {"kind": "matches"}}, "judged by matches"), ({"unit": "samples"}, "on a budget of samples")],
)
def test_a_result_of_another_judge_or_budget_is_refused(change, named):
    with pytest.raises(InvalidRequest, match=f"{named}.*want perfect play and processor seconds"):
        list(of_zerofleet(RESULT | change))


def test_a_result_without_the_time_before_its_budget_is_refused():
    (seed,) = RESULT["seeds"]
    (judgement,) = seed["judgements"]
    earlier = {name: value for name, value in judgement.items() if name != "start_cpu_seconds"}
    with pytest.raises(InvalidRequest, match=r"states no start_cpu_seconds.*measure it again"):
        list(of_zerofleet(RESULT | {"seeds": [seed | {"judgements": [earlier]}]}))


def test_programs_with_several_seeds_have_a_name_for_each():
    peers = of_peers([json.dumps(ROW | {"seed": seed}) for seed in (0, 1)])
    names = [one.program for one in with_seeds([*peers, *of_zerofleet(RESULT)])]
    assert names == ["open_spiel (small), seed 0", "open_spiel (small), seed 1", "zerofleet (laptop)"]


def test_the_table_is_in_the_order_of_processor_seconds():
    _, _, first, second = table([*of_peers([json.dumps(ROW)]), *of_zerofleet(RESULT)])
    assert first.startswith("| 162 | zerofleet (laptop) | 5,000 | 60,000 | 400 | 80.0 (")
    assert second.startswith("| 300 | open_spiel (small) | 120 | 2,400 | 16 | 50.0 (")


def test_the_curve_of_a_program_is_the_sign_of_its_policy():
    (found,) = points(of_peers([json.dumps(ROW)]))
    assert (found.name, found.at, found.mean) == ("open_spiel (small)", 300.0, 0.5)
    assert found.low < 0.5 < found.high


def test_the_command_reads_files_prints_the_table_and_draws(tmp_path, capsys):
    rows, result, plot = tmp_path / "rows.jsonl", tmp_path / "result.json", tmp_path / "plot.svg"
    rows.write_text(json.dumps(ROW) + "\n")
    result.write_text(json.dumps(RESULT))
    assert main([str(rows), "--zerofleet", str(result), "--plot", str(plot)]) == 0
    assert "open_spiel (small)" in capsys.readouterr().out
    assert "open_spiel" in plot.read_text()
