"""Small games and networks, modules for the tests of this folder; one torch thread, so that tests can run side by side."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import games
from games.core import Game, make
from trainer.network import Network, new_network
from trainer.ranks import Place, Ranks
from zerofleet.contracts.records import encode_record
from zerofleet.contracts.records.samples import random_game
from zerofleet.presets import NetworkSettings
from zerofleet.storage.model_store import DirectoryStore

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
assert games
torch.set_num_threads(1)

SMALL = NetworkSettings(blocks=1, channels=8, policy_channels=2, value_channels=2, value_hidden=8)


@pytest.fixture(scope="session")
def game() -> Game:
    return make("tic_tac_toe")


@pytest.fixture(scope="session")
def connect_four() -> Game:
    return make("connect_four")


@pytest.fixture(scope="session")
def small() -> NetworkSettings:
    return SMALL


@pytest.fixture
def two_ranks() -> Ranks:
    """This process as the first of two of a torchrun, without the other."""

    class OneOfTwo(Ranks):
        place = Place(0, 2, 0)

    return OneOfTwo()


@pytest.fixture
def network(game, small) -> Network:
    return new_network(game.spec(), small, seed=1)


@pytest.fixture
def store(tmp_path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "models")


@pytest.fixture(scope="session")
def record(game) -> Callable[..., tuple[str, bytes]]:
    """Make the record of a random game: uid and payload."""

    def make_record(
        number: int, *, of: Game | None = None, version: int = 1, uid: str = "", agents: tuple[str, ...] = (), **changes
    ) -> tuple[str, bytes]:
        played = replace(random_game(of or game, number, version=version), **changes)
        uid = uid or f"{number:032x}"
        return uid, encode_record(played, worker_id="worker", uid=uid, finished_at_ms=1_700_000_000_000, agents=agents)

    return make_record
