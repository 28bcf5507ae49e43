from __future__ import annotations

import json

import pytest

from zerofleet.errors import ConfigurationError
from zerofleet.library.planning.costs import read_costs, save_figures


def test_the_shipped_example_can_be_read():
    costs = read_costs(None, game="connect_four")
    assert costs.game == "connect_four"
    assert costs.evaluations_per_device > 0


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


def test_a_file_that_is_not_costs_is_not_overwritten(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(ConfigurationError):
        save_figures(path, "search", {})
    assert path.read_text() == "mine"


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_costs(tmp_path / "absent.json", game="connect_four")
