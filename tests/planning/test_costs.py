from __future__ import annotations

import json
import re
from importlib import resources

import pytest

from games import make
from games.connect_four import ConnectFour
from zerofleet.errors import ConfigurationError
from zerofleet.library.cluster import cluster_of, plan_for
from zerofleet.library.planning import costs
from zerofleet.library.planning.costs import read_costs, save_figures
from zerofleet.library.planning.plan import Limits, make_plan
from zerofleet.presets import preset
from zerofleet.search import SearchBlock
from zerofleet.supervisor.readings import Readings

FOUR = ConnectFour()


def test_the_shipped_example_can_be_read():
    found, _ = read_costs(None, game=FOUR)
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
        read_costs(path, game=FOUR)


def test_costs_of_another_game_are_refused():
    with pytest.raises(ConfigurationError, match=r"search of connect_four, .* wanted othello"):
        read_costs(None, game=make("othello"))


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"format": 2, "measured": {}}', '{"format": 1, "measured": {"search": 1, "serve": 2, "train": 3}}'],
)
def test_a_file_of_something_else_is_refused_by_name(tmp_path, content):
    path = tmp_path / "costs.json"
    path.write_text(content)
    with pytest.raises(ConfigurationError, match=r"costs\.json"):
        read_costs(path, game=FOUR)


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
        read_costs(example, game=FOUR)
    with pytest.raises(ConfigurationError, match=wrong):
        plan_for(ConnectFour(), example, gpus=1, workers=1)


@pytest.mark.parametrize("name", ["positions_per_game", "positions_per_move"])
@pytest.mark.parametrize("figure", [-93.7, float("nan"), float("inf")])
def test_evaluations_of_a_game_or_move_that_are_no_number_from_0_up_are_refused(example, figure, name):
    measured = json.loads(example.read_text())
    measured["measured"]["serve"]["figures"][name] = figure
    example.write_text(json.dumps(measured))
    with pytest.raises(ConfigurationError, match=rf"costs\.json has serve\.{name} = {figure!r}, wanted"):
        read_costs(example, game=FOUR)


@pytest.mark.parametrize("figures", [{}, {"positions_per_game": 0.0}])
def test_evaluations_of_a_game_may_be_missing_or_not_counted(example, figures):
    measured = json.loads(example.read_text())
    measured["measured"]["serve"]["figures"].pop("positions_per_game", None)
    measured["measured"]["serve"]["figures"].update(figures)
    example.write_text(json.dumps(measured))
    found, _ = read_costs(example, game=FOUR)
    assert (found.evaluations_per_game, found.evaluations_per_move) == (0.0, 0.0)


def test_a_file_is_parsed_again_only_when_it_changed(example, monkeypatch):
    parsed, from_json = [], costs.from_json

    def noted(content):
        parsed.append(content)
        return from_json(content)

    monkeypatch.setattr(costs, "from_json", noted)
    before = [read_costs(example, game=FOUR) for _ in range(3)]
    assert (len(parsed), before) == (1, before[:1] * 3)
    example.write_text(example.read_text().replace('"samples_per_second": 10782.5', '"samples_per_second": 1.25'))
    assert read_costs(example, game=FOUR)[0].samples_per_second == 1.25


def test_a_file_that_is_not_costs_is_not_overwritten(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(ConfigurationError):
        save_figures(path, "search", {})
    assert path.read_text() == "mine"


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_costs(tmp_path / "absent.json", game=FOUR)


def test_a_number_too_large_for_a_float_is_refused_by_its_file(example):
    example.write_text(re.sub(r'"bytes_per_record": [0-9.]+', '"bytes_per_record": 1' + "0" * 400, example.read_text()))
    with pytest.raises(ConfigurationError, match=r"costs\.json cannot be used"):
        read_costs(example, game=FOUR)


def measured(path, preset_name, *, serve=(), train=()):
    """Write a cost file as benchmarks do today with a preset, apart from the settings given."""
    chosen = preset(FOUR, preset_name)
    shipped = json.loads(resources.files("zerofleet.library.planning").joinpath("example_costs.json").read_text())["measured"]
    network = f"{chosen.network.blocks}x{chosen.network.channels}"
    played = {"preset": preset_name, "network": network, "simulations": chosen.search.simulations}
    played |= {"lanes": chosen.selfplay.lanes, "slots": chosen.selfplay.slots}
    learnt = {"preset": preset_name, "blocks": chosen.network.blocks, "channels": chosen.network.channels}
    learnt |= {"batch_size": chosen.train.batch_size}
    save_figures(path, "search", shipped["search"]["figures"])
    save_figures(path, "serve", shipped["serve"]["figures"] | played | dict(serve))
    save_figures(path, "train", shipped["train"]["figures"] | learnt | dict(train))
    return path


@pytest.mark.parametrize(
    ("serve", "train", "told"),
    [
        (
            {"network": "2x32"},
            {},
            r"serve\.network = 2x32, the preset laptop has 3x48; measure again with zerofleet bench serve",
        ),
        ({"simulations": 100}, {}, r"serve\.simulations = 100, the preset laptop has 16"),
        ({"lanes": 2, "slots": 512}, {}, r"serve\.lanes = 2, serve\.slots = 512, the preset laptop has 3, 128"),
        ({}, {"blocks": 2, "channels": 32}, r"train\.blocks = 2, train\.channels = 32, .* has 3, 48; .* zerofleet bench train"),
        ({}, {"batch_size": 64}, r"train\.batch_size = 64, the preset laptop has 256"),
    ],
)
def test_costs_of_other_settings_than_the_presets_are_refused_with_the_command_that_measures_again(
    tmp_path, serve, train, told
):
    path = measured(tmp_path / "costs.json", "laptop", serve=serve, train=train)
    with pytest.raises(ConfigurationError, match=f"{told}.* --game connect_four --preset laptop --save {path}"):
        read_costs(path, game=FOUR)
    shown = cluster_of(Readings(), FOUR, path, preset_name="laptop", at=None, is_live=False)
    assert (shown.plan, "the preset laptop has" in shown.fault) == (None, True)


def test_costs_of_the_presets_settings_belong_to_it_also_where_an_earlier_version_did_not_state_one(tmp_path):
    path = measured(tmp_path / "costs.json", "laptop")
    found, chosen = read_costs(path, game=FOUR)
    assert (chosen, "settings" in found.source) == (preset(FOUR, "laptop"), False)
    content = json.loads(path.read_text())
    del content["measured"]["serve"]["figures"]["simulations"]
    path.write_text(json.dumps(content))
    assert read_costs(path, game=FOUR) == (found, chosen)


def test_the_shipped_example_is_planned_with_the_settings_it_was_measured_with_and_states_them():
    found, chosen = read_costs(None, game=FOUR)
    assert (chosen.network.blocks, chosen.network.channels, chosen.selfplay.slots) == (2, 32, 512)
    assert (chosen.search.simulations, chosen.search.full_search_share) == (100, 0.3)
    assert "settings in place of the preset's: network.blocks=2, network.channels=32, search" in found.source


@pytest.mark.parametrize("preset_name", ["tiny", "laptop"])
def test_memory_of_a_worker_is_that_of_its_blocks_with_their_caches(tmp_path, preset_name):
    """However many simulations `zerofleet bench search` was asked for."""
    found, chosen = read_costs(measured(tmp_path / "costs.json", preset_name), game=FOUR)
    block = SearchBlock(FOUR, chosen.search, slots=chosen.selfplay.slots)
    plan = make_plan(found, chosen, gpus=1, workers=4, limits=Limits())
    assert plan.worker_memory_bytes == chosen.selfplay.lanes * block.nbytes
