"""A gatekeeper in one event loop with a fake inference server; also what the processes that get killed are made of."""

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from safetensors.numpy import save

import games
from games.core import make
from gatekeeper import referee
from gatekeeper.service import open_gatekeeper
from gatekeeper.settings import GatekeeperSettings
from zerofleet.errors import CorruptModel, ModelNotFound, Unavailable
from zerofleet.evaluators.base import Evaluation
from zerofleet.evaluators.uniform import uniform_policy
from zerofleet.rpc.gatekeeper_client import GatekeeperClient
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.strength.matches import MatchSettings
from zerofleet.testing.models import manifest_of, sample_archive, uniform_golden

assert games
sys.path.insert(0, str(Path(__file__).parent))

MODEL = "tic_tac_toe"
RUNGS = ("random", "alpha_beta:1")


class FakeInference:
    """Both faces of an inference server. Versions in `stubborn` play badly, `nonsense` answer NaN, `broken` do not load.

    `fault` returns the error, or None, that a load of these versions meets. Other clients evaluate `fleet` positions between
    any two looks at the counters.
    """

    def __init__(self, *, stubborn=(), nonsense=(), broken=(), fleet=100_000):
        self.fleet, self.fleet_rows, self.counters = fleet, 0, {("inference", 1): 0}
        self.stubborn, self.nonsense, self.broken = set(stubborn), set(nonsense), set(broken)
        self.served = []
        self.changes = []
        self.away = False
        self.on_evaluate = None
        self.fault = lambda versions: None
        self.asked_in_vain = asyncio.Queue()
        self.refusals = asyncio.Queue()  # requests with a version that cannot be loaded

    async def serve(self, model, versions):
        if self.away:
            self.asked_in_vain.put_nowait(versions)
        self._require_here()
        assert model == MODEL
        if (error := self.fault(versions)) is not None:
            raise error
        if bad := self.broken & set(versions):
            self.refusals.put_nowait(versions)
            raise CorruptModel(f"version {bad.pop()} cannot be loaded")
        self.served = list(versions)
        self.changes.append(tuple(versions))

    async def ready(self, model, version):
        self._require_here()
        return version in self.served

    async def evaluations(self, model):
        self._require_here()
        self.fleet_rows += self.fleet
        self.counters["inference", 1] += self.fleet
        return dict(self.counters)

    async def evaluate(self, batch, *, version):
        self._require_here()
        self.counters["inference", version] = self.counters.get(("inference", version), 0) + len(batch)
        if self.on_evaluate is not None:
            await self.on_evaluate(version)
        if version not in self.served:
            raise ModelNotFound(f"version {version} is not served")
        if version in self.nonsense:
            raise CorruptModel(f"version {version} answers NaN")
        policy = uniform_policy(batch.legal)
        if version in self.stubborn:
            policy = np.zeros_like(policy)
            policy[np.arange(len(batch)), (batch.legal >= 0).sum(axis=1) - 1] = 1
        return Evaluation(policy, np.zeros((len(batch), 2), dtype=np.float32), version)

    def _require_here(self):
        if self.away:
            raise Unavailable("the inference server is away")


def template():
    """Return the manifest of a tic-tac-toe model; the store fills in version and files."""
    game = make(MODEL)
    return manifest_of(game, uniform_golden(game), network={"blocks": 1})


class Models:
    """A store that is easily filled."""

    def __init__(self, root):
        self.store = DirectoryStore(root)
        self._template = None

    def publish(self, **changes):
        """Store another version; returns its number and the hash of its manifest."""
        self._template = self._template or template()
        number = self.store.versions(MODEL)[-1] + 1 if self.store.versions(MODEL) else 1
        weights = save({"stem.weight": np.full((2, 3), number, np.float32)})
        files = {"model.pt": sample_archive(), "weights.safetensors": weights, "model.py": b"import torch\n"}
        version = self.store.publish(MODEL, files, dataclasses.replace(self._template, **changes))
        return version, self.store.manifest_sha256(MODEL, version)

    def edit(self, version, **changes):
        """Change fields of a stored manifest; returns its new hash."""
        path = self.store.directory(MODEL, version) / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def damage(self, version):
        """Flip a bit of a version's weights."""
        path = self.store.directory(MODEL, version) / "weights.safetensors"
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)


def make_settings(run_dir, *, ladder_games=0, by_hand_only=False, **gate):
    """Return settings of a small gatekeeper."""
    rules = {
        "mode": "sprt",
        "simulations": 40,
        "search": "root=puct",  # the stubborn model has no prior for a defence; a Gumbel root looks at it all the same
        "leaves_per_game": 1,
        "opening_plies": 2,
        "max_pairs": 12,
        "elo0": 0.0,
        "elo1": 200.0,
    }
    return GatekeeperSettings(
        run_dir=run_dir,
        game=MODEL,
        preset="tiny",
        address="127.0.0.1:0",
        gate={**rules, "ladder_games": ladder_games, "rungs": RUNGS, **gate},
        match_slots=8,
        ladder_slots=4,
        ladder_delay_s=0.0,
        ladder_time_share=1.0,
        cache_positions=256,
        recheck_s=30.0,
        by_hand_only=by_hand_only,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class WithoutProofs(MatchSettings):
    """Settings of matches that prove no values: proofs would show a stubborn version every danger."""

    prove_values: bool = False


class Gate:
    """A running gatekeeper and a client of it."""

    def __init__(self, gatekeeper, client, models, inference):
        self.gatekeeper, self.client, self.models, self.inference = gatekeeper, client, models, inference
        self.arbiter, self.pointer, self.ledger = gatekeeper.arbiter, gatekeeper.pointer, gatekeeper.ledger
        self._noted = asyncio.Event()
        self._fold, self.ledger._fold = self.ledger._fold, self._fold_and_tell

    def _fold_and_tell(self, event):
        self._fold(event)
        self._noted.set()

    async def until(self, holds):
        """Return when `holds()` is true; looked at whenever the ledger changes."""
        while not holds():
            self._noted.clear()
            await self._noted.wait()

    async def offer(self, **changes):
        """Publish and submit a version, and wait until every candidate is settled; returns how it ended."""
        version, sha256 = self.models.publish(**changes)
        await self.client.submit(MODEL, version, sha256)
        return await self.settled(version)

    async def settled(self, version):
        await self.arbiter.idle.wait()
        return self.ledger.candidate(version)


@contextlib.asynccontextmanager
async def running(settings, models, inference):
    """Run a gatekeeper until the block ends."""
    async with (
        open_gatekeeper(settings, evaluator=inference, control=inference) as gatekeeper,
        asyncio.TaskGroup() as group,
        GatekeeperClient(gatekeeper.address) as client,
    ):
        with mock.patch.object(referee, "MatchSettings", WithoutProofs):
            work = group.create_task(gatekeeper.run(by_hand_only=settings.by_hand_only))
            try:
                yield Gate(gatekeeper, client, models, inference)
            finally:
                work.cancel()


@pytest.fixture
def models(tmp_path):
    return Models(tmp_path / "models")


@pytest.fixture
def inference():
    return FakeInference()


@pytest.fixture
def open_gate(tmp_path, models, inference):
    """Return a function that runs a gatekeeper: `async with open_gate(max_pairs=5) as gate`."""

    def start(inference=inference, **gate):
        return running(make_settings(tmp_path, **gate), models, inference)

    return start


@pytest.fixture
def settings_of(tmp_path):
    """Return a function that makes the settings of a small gatekeeper with these changes."""
    return lambda **changes: GatekeeperSettings(**{**make_settings(tmp_path).model_dump(), **changes})


@pytest.fixture
def run_gate(models, inference):
    """Return a function that runs a gatekeeper in a directory of its own, which holds its own copy of the models."""
    return lambda directory, **gate: running(make_settings(directory, **gate), models, inference)


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch):
    monkeypatch.setattr("gatekeeper.crew.FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr("gatekeeper.crew.MAX_PAUSE_S", 0.005)
    monkeypatch.setattr("gatekeeper.pacing.POLL_S", 0.001)
    monkeypatch.setattr("gatekeeper.ladder.PAUSE_S", 0.001)
    monkeypatch.setattr("gatekeeper.ratings.PERIOD_S", 0.0)


@pytest.fixture(scope="session")
def fakes():
    """Return the classes of the fakes, for tests that make their own."""
    return Models, FakeInference
