"""`zerofleet models compare`: its tables, its object and its refusals, without a service."""

from __future__ import annotations

import asyncio
import shutil

import httpx
import pytest
import torch

from games.core import make
from trainer.export import Lineage, export_network
from trainer.network import Network
from ui.app import create_app
from ui.catalogue import Catalogue
from zerofleet.presets import preset
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.testing.compared_runs import make_compared_run


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs") / "pair"
    make_compared_run(root)
    return root


def call(zerofleet, root, *words):
    return zerofleet("models", "compare", "tic_tac_toe", *words, "--run-dir", str(root))


@pytest.mark.slow
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
        (("1", "2", "--positions", "2001"), "want 2000 or less"),
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


@pytest.fixture(scope="module")
def towers(run_with_champion, tmp_path_factory):
    """Return a run of two residual networks, which an inference server alone evaluates."""
    root = shutil.copytree(run_with_champion, tmp_path_factory.mktemp("towers") / "run")
    game = make("tic_tac_toe")
    chosen = preset(game, "tiny").network
    torch.manual_seed(1)
    network = Network(game.spec(), chosen)
    assert export_network(DirectoryStore(root / "models"), game, network, chosen, lineage=Lineage(parent_version=1)) == 2
    return root


LINE = ("--moves", "b2 a1 c3", "--json")


@pytest.mark.slow
def test_networks_of_another_kind_are_evaluated_in_an_inference_server(zerofleet, towers):
    found = call(zerofleet, towers, "champion", "2", *LINE).json()["opinions"]
    assert (found["evaluated_in"], found["positions"]) == ("an inference server", 4)
    assert found["total_variation"]["mean"] > 0


@pytest.mark.slow
async def test_the_pages_evaluate_them_in_the_server_of_their_games_with_the_same_figures(zerofleet, towers):
    app = create_app(Catalogue(None, towers))
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        asked = {"first": "1", "second": "2", "moves": "b2 a1 c3"}
        answer = await client.get("/api/v1/runs/run/compare/positions", params=asked)
    printed = await asyncio.to_thread(call, zerofleet, towers, "1", "2", *LINE)
    assert answer.json() == printed.json()["opinions"]
