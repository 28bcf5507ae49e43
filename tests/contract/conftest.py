"""The same tests against our inference server and a real Triton, each as a process on a store of exported networks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import games
from games.core import Game, make
from trainer.export import Lineage, export_network
from trainer.exported_module import serving_module
from trainer.network import new_network
from zerofleet.contracts.encodings import sample_positions
from zerofleet.contracts.naming import model_name
from zerofleet.evaluators.base import Evaluation, LeafBatch
from zerofleet.evaluators.control import ModelControl
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.presets import NetworkSettings
from zerofleet.storage.model_store import DirectoryStore, ModelStore

assert games
sys.path.insert(0, str(Path(__file__).parent))

import triton_server  # noqa: E402 - it stands beside this file

collect_ignore = [] if triton_server.CAN_RUN else ["test_object_store.py"]
SMALL = NetworkSettings(blocks=1, channels=8, policy_channels=2, value_channels=2, value_hidden=8)
TOKEN = "s3cret"
OURS = {"zerofleet": (), "front_ends": ("--inference.front-ends", "2")}
"""Our server with the arguments of each of its kinds."""


@dataclass(frozen=True)
class Model:
    """A game whose versions are stored; version v is the network of seed v. `extra_heads` are those of new versions."""

    game: Game
    store: ModelStore
    extra_heads: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return model_name(self.game)

    def publish(self) -> int:
        seed = 1 + max(self.store.versions(self.name), default=0)
        settings = SMALL.model_copy(update={"heads": self.extra_heads})
        network = new_network(self.game.spec(), settings, seed=seed)
        return export_network(self.store, self.game, network, settings, lineage=Lineage())

    def positions(self, *, games: int = 12, seed: int = 0) -> LeafBatch:
        return LeafBatch(*sample_positions(self.game, games=games, seed=seed))

    def expected(self, batch: LeafBatch, version: int) -> tuple[np.ndarray, ...]:
        """What the network itself says in this process: policy, value and extra heads."""
        settings = SMALL.model_copy(update={"heads": self.extra_heads})
        module = serving_module(new_network(self.game.spec(), settings, seed=version), self.game.spec())
        with torch.inference_mode():
            return tuple(head.numpy() for head in module(torch.from_numpy(batch.states), torch.from_numpy(batch.legal)))

    def check(self, answer: Evaluation, batch: LeafBatch, version: int) -> None:
        """The answer is that version's; two servers that pass differ by 1e-3 at most."""
        policy, value, *extra_heads = self.expected(batch, version)
        assert answer.version == version
        np.testing.assert_allclose(answer.policy, policy, atol=5e-4)
        np.testing.assert_allclose(answer.value, value, atol=5e-4)
        assert len(answer.extra_heads) == batch.extra_heads
        for got, want in zip(answer.extra_heads, extra_heads, strict=False):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, atol=5e-4)


@dataclass(frozen=True)
class Target:
    """A running server."""

    kind: str
    address: str
    store: DirectoryStore

    def model(self, name: str, **parameters: int) -> Model:
        return Model(make(name, **parameters), self.store)

    def evaluator(self, model: Model, **settings: float) -> KServeEvaluator:
        return KServeEvaluator(self.address, model.name, **{"timeout_s": 60.0, "retry_s": 5.0, **settings})

    def control(self, token: str | None = TOKEN) -> ModelControl:
        return ModelControl(self.address, token=token, store=self.store)


@contextmanager
def zerofleet_running(store: Path, log: Path, *arguments: str) -> Iterator[str]:
    """Our server as a process; yields its address."""
    command = [sys.executable, "-m", "inference_server", "--model-store", str(store), "--address", "127.0.0.1:0"]
    with log.open("wb") as out:
        process = subprocess.Popen([*command, *arguments], stdout=out, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith(b"{") and (event := json.loads(line))["event"] == "service.ready":
                break
        else:
            raise AssertionError("the server did not start")
        yield event["address"]
    finally:
        process.terminate()
        process.communicate(timeout=120)
        assert process.returncode == 0


@contextmanager
def _target_running(kind: str, folder: Path) -> Iterator[Target]:
    """A server of either kind over an empty store, which asks for the token where models are changed."""
    store = DirectoryStore(folder / "models")
    store.root.mkdir()
    if kind in OURS:
        started = zerofleet_running(store.root, folder / "log", "--token", TOKEN, *OURS[kind])
    else:
        protocols = "model-repository,model-config,shared-memory,trace,logging"  # as deploy/triton/triton.sh has it
        restricted = f"--grpc-restricted-protocol={protocols}:x-zerofleet-token={TOKEN}"
        started = triton_server.running(store.root, folder / "log", restricted)
    with started as address:
        yield Target(kind, address, store)


@pytest.fixture(scope="module", params=[*triton_server.KINDS, "front_ends"])
def target(request, tmp_path_factory) -> Iterator[Target]:
    """A server that the tests of a process share; each test takes a game of its own."""
    with _target_running(request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture
def model_in():
    """Return a model of a store that lies elsewhere."""
    return lambda store: Model(make("tic_tac_toe"), store)


@pytest.fixture
def triton_running():
    """The context manager that starts a Triton over any repository."""
    return triton_server.running
