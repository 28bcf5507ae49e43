"""`zerofleet models compare`: its tables, its object and its refusals, without a service."""

from __future__ import annotations

import shutil

import pytest

from zerofleet.testing.compared_runs import make_compared_run


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs") / "pair"
    make_compared_run(root)
    return root


def call(zerofleet, root, *words):
    return zerofleet("models", "compare", "tic_tac_toe", *words, "--run-dir", str(root))


def test_the_tables_show_what_differs(zerofleet, pair):
    printed = call(zerofleet, pair, "1", "champion")
    assert printed.code == 0, printed.err
    for text in ("train steps", "no match between them", "9 stored games", "total variation", "most different by policy"):
        assert text in printed.out
    assert "network: kind" not in printed.out


def test_the_object_has_the_positions_asked_for(zerofleet, pair):
    found = call(zerofleet, pair, "1", "2", "--positions", "10", "--seed", "5", "--rows", "3", "--json").json()
    assert (found["versions"]["first"]["version"], found["versions"]["second"]["version"]) == (1, 2)
    opinions = found["opinions"]
    assert (opinions["positions"], opinions["seed"], len(opinions["rows"])) == (10, 5, 3)
    assert opinions["total_variation"]["low"] < opinions["total_variation"]["mean"]


def test_a_line_of_moves_takes_the_place_of_stored_games(zerofleet, pair):
    found = call(zerofleet, pair, "1", "2", "--moves", "b2 a1", "--json").json()["opinions"]
    assert (found["source"], found["positions"], found["seed"]) == ("moves", 3, None)
    assert "b2 a1" in call(zerofleet, pair, "1", "2", "--moves", "b2 a1").out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("1", "7"), "7"),
        (("1", "1"), "with itself"),
        (("1", "newest"), "not a version"),
        (("1", "2", "--positions", "2001"), "2000 or less"),
        (("1", "2", "--moves", "a1 a1"), "move 2"),
    ],
)
def test_a_comparison_that_cannot_be_made_ends_with_its_reason(zerofleet, pair, words, reason):
    refused = call(zerofleet, pair, *words)
    assert refused.code != 0
    assert reason in refused.err


def test_a_damaged_version_is_refused_by_name(zerofleet, pair, tmp_path):
    root = shutil.copytree(pair, tmp_path / "pair")
    (root / "models" / "tic_tac_toe" / "2" / "weights.safetensors").write_bytes(b"nothing")
    refused = call(zerofleet, root, "1", "2")
    assert refused.code != 0
    assert "weights.safetensors" in refused.err
