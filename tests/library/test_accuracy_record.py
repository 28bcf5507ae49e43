"""Recorded accuracy of versions: durable lines in the run directory, and series over the training of the versions."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from zerofleet.library.accuracy_record import (
    Accuracy,
    Figures,
    MeasuredAccuracy,
    Result,
    ShareValue,
    accuracy_file,
    append_accuracy,
    drawn_set,
    filed_set,
    latest_results,
    read_accuracy,
    stored_set,
)
from zerofleet.library.accuracy_series import with_accuracy
from zerofleet.library.model_list import ModelEntry
from zerofleet.library.series import RunSeries, as_csv
from zerofleet.storage.run_paths import RunPaths

BEGAN = datetime(2026, 11, 23, 12, tzinfo=UTC)


def share(count, of=20):
    return ShareValue(count=count, of=of, share=count / of if of else None, low=0.0, high=1.0)


def measured(version, kept, *, mode="policy alone", search="", source="random", positions="", seed=0):
    figures = Figures(kept=share(20), decided=share(kept), exact=share(kept), mean_lost=0.5)
    result = Result(source=source, mode=mode, search=search, positions=positions, all=figures, plies=())
    about = {"player": f"model:{version}", "game": "tic_tac_toe", "parameters": {}, "seed": seed, "unit": "points"}
    accuracy = Accuracy(**about, first_ply=0, simulations=30, results=(result,))
    return MeasuredAccuracy(version=version, measured_at=BEGAN, accuracy=accuracy)


def entry(version, steps):
    known = {"status": "champion", "is_champion": True, "was_champion": True, "elo": None, "elo_low": None, "elo_high": None}
    times = {"created_at": BEGAN.replace(hour=12 + version)}
    return ModelEntry(
        version=version, **known, **times, rated_games=0, match=None, reason="", note="", train_steps=steps, games_seen=9
    )


@pytest.fixture
def paths(tmp_path):
    return RunPaths(tmp_path)


def test_measurements_are_read_in_the_order_in_which_they_were_made(paths):
    assert read_accuracy(paths) == ()
    made = (measured(1, 10), measured(2, 15))
    for one in made:
        append_accuracy(paths, one)
    assert read_accuracy(paths) == made


def test_a_record_of_an_earlier_release_is_read_without_the_number_of_positions_asked_for(paths):
    now = measured(1, 10)
    now = now.model_copy(update={"accuracy": now.accuracy.model_copy(update={"wanted_positions": 500})})
    earlier = now.model_dump(mode="json")
    del earlier["accuracy"]["wanted_positions"]
    accuracy_file(paths).parent.mkdir(parents=True)
    accuracy_file(paths).write_text(json.dumps(earlier) + "\n")
    append_accuracy(paths, now)
    assert [one.accuracy.wanted_positions for one in read_accuracy(paths)] == [None, 500]


def test_a_partial_line_of_a_killed_process_costs_that_line_alone(paths):
    append_accuracy(paths, measured(1, 10))
    with accuracy_file(paths).open("ab") as file:
        file.write(b'{"version": 2, "measured')
    assert [one.version for one in read_accuracy(paths)] == [1]
    append_accuracy(paths, measured(3, 12))
    assert [one.version for one in read_accuracy(paths)] == [1, 3]


def test_the_newest_measurement_of_a_version_and_mode_counts():
    found = latest_results([measured(2, 10), measured(1, 5), measured(2, 16), measured(2, 19, mode="30 simulations")])
    kept = {at[:3]: result.all.decided.count for at, result in found.items()}
    assert kept == {(1, "random", "policy alone"): 5, (2, "random", "policy alone"): 16, (2, "random", "30 simulations"): 19}
    assert next(iter(found)).version == 1


def test_measurements_in_different_sets_of_positions_are_series_of_their_own():
    name = filed_set("end<game>.txt", [(0, 1), (2, 3)])
    nothing, models = (
        RunSeries(axes={}, series=(), promotions=()),
        (entry(1, 100), entry(2, 300)),
    )
    records = [measured(1, 5), measured(2, 10, seed=3), measured(1, 15, source="file", positions=name)]
    records += [measured(2, 20, source="file", positions=filed_set("end<game>.txt", [(0, 1), (2, 4)]))]
    found = with_accuracy(nothing, records, models, BEGAN)
    labels = {one.label: one.values for one in found.series}
    assert len({one.name for one in found.series}) == len(labels) == 4
    assert labels["policy alone, random games: 20 positions, seed 0"] == (0.25, None)
    assert labels["policy alone, random games: 20 positions, seed 3"] == (None, 0.5)
    assert labels[f"policy alone, a file: {name}"] == (0.75, None)
    assert name.startswith("2 positions, end<game>.txt ")


def test_measurements_with_another_search_and_those_that_state_none_are_series_of_their_own(paths):
    unstated = measured(1, 10, mode="30 simulations").model_dump(mode="json")
    del unstated["accuracy"]["results"][0]["search"]
    accuracy_file(paths).parent.mkdir(parents=True)
    accuracy_file(paths).write_text(json.dumps(unstated) + "\n")
    for version, kept, root in ((1, 15, "gumbel"), (2, 16, "gumbel"), (2, 12, "puct")):
        append_accuracy(paths, measured(version, kept, mode="30 simulations", search=f"root={root},replies=true"))
    nothing, models = RunSeries(axes={}, series=(), promotions=()), (entry(1, 100), entry(2, 300))
    found = with_accuracy(nothing, read_accuracy(paths), models, BEGAN)
    assert {one.label: one.values for one in found.series} == {
        "30 simulations, random games: 20 positions, seed 0": (0.5, None),
        "30 simulations (root=gumbel,replies=true), random games: 20 positions, seed 0": (0.75, 0.8),
        "30 simulations (root=puct,replies=true), random games: 20 positions, seed 0": (None, 0.6),
    }
    assert as_csv(found, "accuracy").splitlines()[0].split(",")[3:] == [
        "accuracy_random_30_simulations_20_positions_seed_0",
        "accuracy_random_30_simulations_root_gumbel_replies_true_20_positions_seed_0",
        "accuracy_random_30_simulations_root_puct_replies_true_20_positions_seed_0",
    ]


def test_the_name_of_a_drawn_set_has_all_that_determines_its_positions():
    assert drawn_set(1500, seed=2, first_ply=8) == "1,500 positions, seed 2, from ply 8"
    late = stored_set(1_500, seed=0, first_ply=8, oldest=2_000, newest=3_499)
    assert late == "1,500 positions, seed 0, from ply 8, games 2,000 to 3,499"


def test_a_series_has_a_value_for_each_measured_version_at_its_training_step():
    nothing = RunSeries(axes={}, series=(), promotions=())
    models = (entry(1, 100), entry(2, 300))
    records = [measured(1, 5), measured(2, 15), measured(2, 20, mode="30 simulations"), measured(7, 1)]  # version 7 is deleted
    found = with_accuracy(nothing, records, models, BEGAN)
    assert found.axes["accuracy"].step == (100.0, 300.0)
    assert found.axes["accuracy"].hours == (1.0, 2.0)
    assert {one.label: one.values for one in found.series} == {
        "policy alone, random games: 20 positions, seed 0": (0.25, 0.75),
        "30 simulations, random games: 20 positions, seed 0": (None, 1.0),
    }
    assert as_csv(found, "accuracy").splitlines()[1] == "100.0,9.0,1.0,0.25,"
    assert as_csv(found, "trainer") == "step,games,hours\n"


def test_a_run_without_measurements_keeps_its_series():
    nothing = RunSeries(axes={}, series=(), promotions=())
    assert with_accuracy(nothing, [], (), None) is nothing
