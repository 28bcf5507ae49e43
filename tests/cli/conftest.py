"""The command line called in this process, as `main` is called by the installed script; modules for these tests."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from games.core import make
from trainer.export import Lineage, export_network
from trainer.network import Network
from zerofleet.cli import main
from zerofleet.contracts.naming import model_name
from zerofleet.presets import preset
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.runs import RunDirectory

sys.path.insert(0, str(Path(__file__).parent))


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def zerofleet(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Call the command line with the given words; returns its exit code and what it printed."""

    def call(*words: str) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        captured = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def run_with_champion(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of tic-tac-toe whose champion is an untrained network."""
    return untrained(tmp_path_factory.mktemp("runs"), "tic_tac_toe")


@pytest.fixture(scope="session")
def run_of_take_six(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of Take 6! whose champion is an untrained network with the head `opponents`."""
    return untrained(tmp_path_factory.mktemp("runs"), "take_six")


def untrained(directory: Path, name: str) -> Path:
    """Make a run whose champion is an untrained network; return its directory."""
    root = directory / f"{name}-tiny"
    game = make(name)
    chosen = preset(game, "tiny")
    with RunDirectory.create_or_open(root, name, {}, preset="tiny", seed=1) as run:
        store = DirectoryStore(run.paths.models)
        torch.manual_seed(0)
        network = Network(game.spec(), chosen.network)
        version = export_network(store, game, network, chosen.network, lineage=Lineage())
        store.write_champion(model_name(game), version, epoch=1, reason="the only one")
    return root
