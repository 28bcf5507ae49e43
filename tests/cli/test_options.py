from __future__ import annotations

from datetime import UTC, datetime

import pytest
import typer

from games.core import make
from zerofleet.cli.options import chosen_game, chosen_run, read_parameters
from zerofleet.errors import RunDirectoryError
from zerofleet.storage.run_lookup import default_directory, find_run
from zerofleet.storage.runs import RunDirectory, RunHeader


def test_parameters_are_read_from_name_equals_value():
    assert read_parameters(["rows=4", " columns = 5 "]) == {"rows": "4", "columns": "5"}
    assert read_parameters(None) == {}
    assert chosen_game("connect_four", ["rows=4"]) == make("connect_four", rows=4)


@pytest.mark.parametrize("items", [["rows"], ["rows="], ["=4"], ["rows=4", "rows=5"]])
def test_the_error_for_a_malformed_parameter_names_it(items):
    with pytest.raises(typer.BadParameter, match=r"rows|=4"):
        read_parameters(items)


def test_the_newest_run_of_the_game_is_the_default(tmp_path):
    for name, game, year in (("old", "connect_four", 2020), ("new", "connect_four", 2021), ("other", "tic_tac_toe", 2022)):
        _make_run(tmp_path / name, game, year)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    assert find_run(make("connect_four"), None, runs=tmp_path).root == tmp_path / "new"


def test_a_run_with_other_parameters_is_not_a_run_of_the_game(tmp_path):
    _make_run(tmp_path / "wide", "connect_four", 2020, {"columns": "9"})
    with pytest.raises(RunDirectoryError, match=r"no run of connect_four in .*start one with `zerofleet run connect_four`"):
        find_run(make("connect_four"), None, runs=tmp_path)
    assert find_run(make("connect_four", columns=9), None, runs=tmp_path).root == tmp_path / "wide"


def test_the_error_for_a_run_with_other_parameters_states_the_options_of_that_run(tmp_path):
    _make_run(tmp_path / "plain", "connect_four", 2020)
    _make_run(tmp_path / "wide", "connect_four", 2021, {"columns": "9", "encoding": "feature"})
    options = "give --set columns=9 --set encoding=feature"
    with pytest.raises(RunDirectoryError, match=f"not of connect_four; {options}, or choose another --run-dir"):
        find_run(make("connect_four"), tmp_path / "wide")
    with pytest.raises(RunDirectoryError, match="not of connect_four rows=5; give no parameters of the game, or choose"):
        find_run(make("connect_four", rows=5), tmp_path / "plain")
    with pytest.raises(
        RunDirectoryError, match=f"wide {options}; start one with `zerofleet run connect_four --set rows=5`, or select one"
    ):
        find_run(make("connect_four", rows=5), None, runs=tmp_path)


def test_a_run_is_found_under_other_scores_of_the_same_game(tmp_path):
    _make_run(tmp_path / "run", "rock_paper_scissors", 2020)
    margin = make("rock_paper_scissors", score="margin")
    assert find_run(margin, None, runs=tmp_path).root == tmp_path / "run"
    assert find_run(margin, tmp_path / "run").root == tmp_path / "run"
    with pytest.raises(RunDirectoryError, match="no run of rock_paper_scissors turns=50"):
        find_run(make("rock_paper_scissors", turns=50), None, runs=tmp_path)


def test_parameters_change_the_game_of_a_run_that_its_directory_names(tmp_path):
    _make_run(tmp_path / "run", "rock_paper_scissors", 2020, {"turns": "50"})
    game, paths = chosen_run(None, ["score=margin"], tmp_path / "run")
    assert game == make("rock_paper_scissors", turns=50, score="margin")
    assert paths.root == tmp_path / "run"
    with pytest.raises(
        RunDirectoryError, match=r"is a run of rock_paper_scissors turns=50, not of rock_paper_scissors turns=9"
    ):
        chosen_run(None, ["turns=9"], tmp_path / "run")


def test_a_run_directory_of_another_game_is_rejected(tmp_path):
    _make_run(tmp_path / "run", "tic_tac_toe", 2020)
    with pytest.raises(RunDirectoryError, match="is a run of tic_tac_toe, not of connect_four"):
        find_run(make("connect_four"), tmp_path / "run")


def test_a_run_directory_is_named_after_game_parameters_and_preset():
    assert str(default_directory(make("connect_four", columns=9), "tiny")) == "runs/connect_four-columns9-tiny"
    assert str(default_directory(make("tic_tac_toe"), "laptop")) == "runs/tic_tac_toe-laptop"


def _make_run(root, game, year, parameters=None):
    RunDirectory.create_or_open(root, game, parameters or {}, preset="tiny", seed=1).close()
    header = RunHeader.model_validate_json((root / "run.json").read_text())
    dated = header.model_copy(update={"created_at": datetime(year, 1, 1, tzinfo=UTC)})
    (root / "run.json").write_text(dated.model_dump_json(by_alias=True))
