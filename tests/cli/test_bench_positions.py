"""The input file for `perf_analyzer` holds positions that a server accepts."""

from __future__ import annotations

import json

import numpy as np
import pytest

import games
from inference_server.tensors import Contract
from zerofleet.cli.bench.positions import distinct_positions


@pytest.mark.parametrize("game", ["tic_tac_toe", "connect_four"])
def test_the_file_holds_different_positions_that_a_server_accepts(zerofleet, tmp_path, game):
    file = tmp_path / "positions.json"
    said = zerofleet("bench", "positions", game, "--positions", "50", "--out", str(file), "--json").json()
    assert said == {"model": game, "positions": 50, "seed": 1, "file": str(file)}
    entries = json.loads(file.read_text())["data"]
    states = np.array([entry["state__0"] for entry in entries], np.uint8)
    legal = np.array([entry["legal__1"] for entry in entries], np.int16)
    assert len(np.unique(states, axis=0)) == len(entries) == 50
    spec = games.make(game).spec()
    contract = Contract(spec.planes, spec.packed_bytes, spec.max_legal, spec.num_actions, ())
    assert [list(states.shape[1:]), list(legal.shape[1:])] == [[length] for _, _, length in contract.inputs]
    contract.check(states, legal)


def test_the_seed_selects_the_positions(tmp_path):
    game = games.make("tic_tac_toe")
    first, again, other = (distinct_positions(game, 20, seed=seed)[0] for seed in (1, 1, 2))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


def test_a_small_game_gives_all_the_positions_that_it_has(zerofleet, tmp_path):
    words = ("rock_paper_scissors", "--set", "turns=1", "--positions", "50", "--out", str(tmp_path / "positions.json"))
    outcome = zerofleet("bench", "positions", *words)
    assert outcome.code == 0
    assert "1 positions for the model rock_paper_scissors_turns1" in outcome.out
    assert "50 were wanted" in outcome.err


def test_a_file_in_a_missing_folder_is_refused_by_its_own_name(zerofleet, tmp_path):
    file = tmp_path / "missing" / "positions.json"
    refused = zerofleet("bench", "positions", "tic_tac_toe", "--out", str(file))
    assert refused.code != 0
    assert f"{file} cannot be written" in " ".join(refused.err.split())
