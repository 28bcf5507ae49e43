"""Presets: for every game and size there are numbers that fit together."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import games
from games.core import Game
from zerofleet.errors import ConfigurationError
from zerofleet.presets import PRESETS, Preset, preset, tables
from zerofleet.presets.tables import deep_merge
from zerofleet.search.arena import allocate
from zerofleet.search.settings import SearchSettings
from zerofleet.search.tree import edge_dtype
from zerofleet.testing import built_in_games

GAMES = built_in_games()
# Of a worker's blocks; interpreter, compiled code and buffers come on top. Hosts of accelerators have more memory.
MOST_BYTES = {"tiny": 100 << 20, "laptop": 350 << 20, "gpu": 640 << 20}


def worker_bytes(game: Game, chosen: Preset) -> int:
    """Return what a worker's blocks hold when every game is at its last ply, positions having half the most legal moves."""
    search = chosen.search.model_copy(update={"cache_positions": 0})
    legal = game.spec().max_legal
    groups = allocate(game, search, 1, np.zeros((2, 1, 1), dtype=np.int32))
    slot = sum(array.nbytes for group in groups for array in group)
    slot -= search.node_capacity * legal * edge_dtype(game.spec().num_players).itemsize // 2
    cached = chosen.search.cache_positions * (legal * 4 + game.spec().num_players * 4 + 20)
    return chosen.selfplay.lanes * (chosen.selfplay.slots * slot + cached)


@pytest.mark.parametrize("size", PRESETS)
@pytest.mark.parametrize("name", GAMES)
def test_the_blocks_of_a_worker_stay_small(name, size):
    assert worker_bytes(games.make(name), preset(games.make(name), size)) < MOST_BYTES[size]


@pytest.mark.parametrize("size", PRESETS)
@pytest.mark.parametrize("name", GAMES)
def test_every_game_has_a_preset_of_every_size_that_suits_it(name, size):
    game = games.make(name)
    spec, chosen = game.spec(), preset(game, size)
    assert chosen.name == size
    assert chosen.search.repetition == ("history" if spec.repeats else "off")
    assert chosen.selfplay.opening_plies < spec.max_plies
    assert chosen.train.policy_target == "search" or spec.counters is not None
    assert chosen.inference.max_batch >= chosen.selfplay.slots or size != "laptop"
    assert chosen.train.min_samples <= chosen.train.samples_per_candidate


@pytest.mark.parametrize(("max_plies", "opening_plies"), [(1, 0), (4, 1), (5, 4)])
def test_the_openings_of_the_gate_end_before_the_shortest_game(max_plies, opening_plies):
    spec = replace(games.make("tic_tac_toe").spec(), name="short", max_plies=max_plies)
    assert preset(SimpleNamespace(spec=lambda: spec), "tiny").gate.opening_plies == opening_plies


@pytest.mark.parametrize("name", GAMES)
def test_on_a_laptop_a_version_that_searches_is_promoted_at_once_and_measured_later(name):
    chosen = preset(games.make(name), "laptop")
    assert chosen.gate.mode == ("watch" if chosen.search.simulations else "off")


@pytest.mark.parametrize("name", GAMES)
def test_a_larger_machine_searches_more_and_trains_more(name):
    tiny, laptop, gpu = (preset(games.make(name), size) for size in PRESETS)
    assert tiny.search.simulations <= laptop.search.simulations <= gpu.search.simulations
    assert tiny.train.samples_per_candidate <= laptop.train.samples_per_candidate <= gpu.train.samples_per_candidate


def test_a_size_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(ConfigurationError, match="unknown preset 'huge'; want one of tiny, laptop, gpu"):
        preset(games.make("tic_tac_toe"), "huge")


def test_every_table_is_of_a_game_that_exists():
    assert tables.games_with_tables() == set(GAMES)


def test_the_files_of_the_presets_are_found_as_resources_of_the_package():
    data = files("zerofleet.presets") / "data"
    assert {entry.name for entry in (data / "sizes").iterdir()} == {f"{size}.toml" for size in PRESETS}
    assert tomllib.loads((data / "games" / "othello.toml").read_text("utf-8"))["gpu"]["selfplay"] == {"slots": 256}


def test_the_numbers_of_every_game_and_size_are_the_golden_ones():
    golden = json.loads(Path(__file__).with_name("golden_presets.json").read_text())
    defaults = golden.pop("defaults")
    assert Preset(name="", search=SearchSettings()).model_dump(mode="json") == defaults
    assert set(golden) == {f"{name} {size}" for name in GAMES for size in PRESETS}
    for title, differences in golden.items():
        name, size = title.split()
        assert preset(games.make(name), size).model_dump(mode="json") == deep_merge(defaults, differences), title


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[huge.search]\nsimulations = 3", "othello.toml has tables of huge; sizes are tiny, laptop, gpu"),
        ("[tiny.search]\nsimulation = 3", "search.simulation\n  Extra inputs are not permitted"),
        ("[tiny.serch]\nsimulations = 3", "serch\n  Extra inputs are not permitted"),
    ],
)
def test_an_unknown_key_in_the_file_of_a_game_is_refused(tmp_path, monkeypatch, text, message):
    folder = tmp_path / "games"
    folder.mkdir()
    (folder / "othello.toml").write_text(text)
    data = files("zerofleet.presets") / "data"
    monkeypatch.setattr(tables, "tables_of_size", lambda size: tomllib.loads((data / "sizes" / f"{size}.toml").read_text()))
    monkeypatch.setattr(tables, "_DATA", tmp_path)
    monkeypatch.setattr("zerofleet.presets.tables_of_game", tables.tables_of_game.__wrapped__)
    with pytest.raises((ConfigurationError, ValueError), match=message):
        preset(games.make("othello"), "tiny")


def test_a_game_without_a_table_gets_the_kind_of_search_that_its_facts_call_for(monkeypatch):
    monkeypatch.setattr("zerofleet.presets.tables_of_game", lambda _name: {})
    assert preset(games.make("take_six"), "tiny").search.information == "determinise"
    assert preset(games.make("abalone"), "tiny").search.repetition == "history"
    assert preset(games.make("connect_four"), "tiny").search.repetition == "off"
