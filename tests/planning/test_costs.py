from __future__ import annotations

import json
import re
from importlib import resources

import pytest

from games.connect_four import ConnectFour
from zerofleet.errors import ConfigurationError
from zerofleet.library.cluster import plan_for
from zerofleet.library.planning import costs
from zerofleet.library.planning.costs import read_costs, save_figures


def test_the_shipped_example_can_be_read():
    found = read_costs(None, game="connect_four")
    assert found.game == "connect_four"
    assert found.evaluations_per_device > 0


def test_figures_of_other_benchmarks_stay_when_one_is_saved(tmp_path):
    path = tmp_path / "new" / "costs.json"
    save_figures(path, "search", {"game": "othello"})
    save_figures(path, "train", {"game": "othello"})
    save_figures(path, "search", {"game": "abalone"})
    measured = json.loads(path.read_text())["measured"]
    assert {kind: entry["figures"]["game"] for kind, entry in measured.items()} == {"search": "abalone", "train": "othello"}
    assert all(entry["date"] and entry["machine"] for entry in measured.values())


def test_a_missing_measurement_is_named_with_its_command(tmp_path):
    path = tmp_path / "costs.json"
    save_figures(path, "search", {"game": "connect_four"})
    with pytest.raises(ConfigurationError, match=r"bench serve .* and zerofleet bench train"):
        read_costs(path, game="connect_four")


def test_costs_of_another_game_are_refused():
    with pytest.raises(ConfigurationError, match=r"search of connect_four, .* wanted othello"):
        read_costs(None, game="othello")


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"format": 2, "measured": {}}', '{"format": 1, "measured": {"search": 1, "serve": 2, "train": 3}}'],
)
def test_a_file_of_something_else_is_refused_by_name(tmp_path, content):
    path = tmp_path / "costs.json"
    path.write_text(content)
    with pytest.raises(ConfigurationError, match=r"costs\.json"):
        read_costs(path, game="connect_four")


@pytest.fixture
def example(tmp_path):
    """The shipped example, in a file of its own."""
    path = tmp_path / "costs.json"
    path.write_bytes(resources.files("zerofleet.library.planning").joinpath("example_costs.json").read_bytes())
    return path


def test_costs_that_are_not_above_0_are_refused_by_name_and_with_them_the_plan_of_a_fleet(example):
    measured = json.loads(example.read_text())
    measured["measured"]["train"]["figures"].update(samples_per_second=0, plies_per_game=float("nan"))
    measured["measured"]["serve"]["figures"]["worker_cores"] = -1.5
    example.write_text(json.dumps(measured))
    wrong = r"costs\.json has serve\.worker_cores = -1\.5, train\.samples_per_second = 0, train\.plies_per_game = nan, wanted"
    with pytest.raises(ConfigurationError, match=wrong):
        read_costs(example, game="connect_four")
    with pytest.raises(ConfigurationError, match=wrong):
        plan_for(ConnectFour(), example, gpus=1, workers=1)


@pytest.mark.parametrize("name", ["positions_per_game", "positions_per_move"])
@pytest.mark.parametrize("figure", [-93.7, float("nan"), float("inf")])
def test_evaluations_of_a_game_or_move_that_are_no_number_from_0_up_are_refused(example, figure, name):
    measured = json.loads(example.read_text())
    measured["measured"]["serve"]["figures"][name] = figure
    example.write_text(json.dumps(measured))
    with pytest.raises(ConfigurationError, match=rf"costs\.json has serve\.{name} = {figure!r}, wanted"):
        read_costs(example, game="connect_four")


@pytest.mark.parametrize("figures", [{}, {"positions_per_game": 0.0}])
def test_evaluations_of_a_game_may_be_missing_or_not_counted(example, figures):
    measured = json.loads(example.read_text())
    measured["measured"]["serve"]["figures"].pop("positions_per_game", None)
    measured["measured"]["serve"]["figures"].update(figures)
    example.write_text(json.dumps(measured))
    found = read_costs(example, game="connect_four")
    assert (found.evaluations_per_game, found.evaluations_per_move) == (0.0, 0.0)


def test_a_file_is_parsed_again_only_when_it_changed(example, monkeypatch):
    parsed, from_json = [], costs.from_json

    def noted(content):
        parsed.append(content)
        return from_json(content)

    monkeypatch.setattr(costs, "from_json", noted)
    before = [read_costs(example, game="connect_four") for _ in range(3)]
    assert (len(parsed), before) == (1, before[:1] * 3)
    figures = json.loads(example.read_text())["measured"]["train"]["figures"]
    save_figures(example, "train", {**figures, "samples_per_second": 1.25})
    assert read_costs(example, game="connect_four").samples_per_second == 1.25


def test_a_file_that_is_not_costs_is_not_overwritten(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(ConfigurationError):
        save_figures(path, "search", {})
    assert path.read_text() == "mine"


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_costs(tmp_path / "absent.json", game="connect_four")


def test_a_number_too_large_for_a_float_is_refused_by_its_file(example):
    example.write_text(re.sub(r'"bytes_per_game": [0-9.]+', '"bytes_per_game": 1' + "0" * 400, example.read_text()))
    with pytest.raises(ConfigurationError, match=r"costs\.json cannot be used"):
        read_costs(example, game="connect_four")
