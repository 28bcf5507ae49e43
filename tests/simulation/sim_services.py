"""Services of the simulated fleet: the product's own, composed as their processes compose them, on the simulated network.

Fakes stand in for the network's arithmetic alone: an inference server whose policies follow from the version, a learner that
counts games, an exporter without TorchScript.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import torch
from safetensors.numpy import save
from sim_network import RemoteInference, SimGatekeeperClient

from gatekeeper.composition import compose
from gatekeeper.servicer import GatekeeperServicer
from gatekeeper.settings import GatekeeperSettings
from selfplay_worker.settings import WorkerSettings
from selfplay_worker.worker import SelfPlay
from trainer.candidates import Submitter
from trainer.history import History
from trainer.learners.in_order import LearnerInOrder, Outcome
from trainer.service import Conductor, make_intake, open_reader
from trainer.settings import TrainerSettings
from trainer.start import open_training
from zerofleet.errors import CorruptModel, ModelNotFound
from zerofleet.evaluators.base import Evaluation
from zerofleet.evaluators.uniform import uniform_policy
from zerofleet.service.lifecycle import Service
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.streams.memory import MemoryStream

if TYPE_CHECKING:
    from sim_world import World

MODEL = "tic_tac_toe"
LEARNER = "counting"
LOG_FILE_BYTES = 4 << 10


class CountingLearner(LearnerInOrder):
    """Learner that counts the games it has learned from; `seen` is told the uid of each."""

    seen: Any = None
    publish_after = 12

    def __init__(self, game: Any, settings: Any, *, first: int = 0) -> None:
        super().__init__(game, settings, first=first)
        self.counts = np.zeros(2)

    @property
    def publish_every_games(self) -> int:
        return self.publish_after

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {"counts": self.counts}

    @property
    def network(self) -> dict[str, Any]:
        return {"kind": LEARNER}

    def read(self, played: Any) -> list[str]:
        return [played.record.uid] * len(played.record.moves)

    def learn(self, samples: list[str]) -> Outcome:
        self.counts += (1, len(samples))
        type(self).seen(samples[0])
        return Outcome(0.0, 0.0, 0.1)

    def module(self) -> torch.nn.Module:
        return torch.nn.Identity().eval()


class Exporter:
    """Publishes a model with the weights of the learner and the golden positions of a uniform policy."""

    def __init__(self, template: Any, archive: bytes) -> None:
        self._template, self._archive = template, archive

    def __call__(self, store: Any, game: Any, served: Any, *, lineage: Any, backend: str, max_batch: int) -> int:
        weights = save({name: tensor.numpy() for name, tensor in served.weights.items()})
        files = {"model.pt": self._archive, "weights.safetensors": weights, "model.py": b"import torch\n"}
        changes = {
            "parent_version": lineage.parent_version,
            "train_steps": lineage.train_steps,
            "games_seen": lineage.games_seen,
            "network": served.network,
        }
        version: int = store.publish(MODEL, files, dataclasses.replace(self._template, **changes))
        return version


class SimInference:
    """Inference server: versions loaded from the store, forgotten by a restart. Versions differ in strength."""

    def __init__(self, models: Path, seed: int, loaded: Any) -> None:
        self._store, self._seed, self._loaded = DirectoryStore(models), seed, loaded
        self.served: tuple[int, ...] = ()
        self._fleet = 0  # evaluations of others, from which the share of a measurement is reckoned

    async def serve(self, versions: Sequence[int]) -> None:
        for version in versions:
            if version not in self.served:
                self._store.verify(MODEL, version)
                if self.is_broken(version):
                    raise CorruptModel(f"version {version} fails its self-test (simulated)")
                self._loaded(version, self._store.manifest_sha256(MODEL, version))
        self.served = tuple(versions)

    def is_broken(self, version: int) -> bool:
        """Return whether a version cannot be loaded; the first two always can."""
        return version > 2 and random.Random(f"{self._seed}/broken/{version}").random() < 0.15

    async def ready(self, version: int) -> bool:
        return version in self.served

    async def evaluations(self) -> dict[tuple[str, int], int]:
        self._fleet += 100_000
        return {("inference", 1): self._fleet}

    async def evaluate(self, batch: Any, version: int) -> Evaluation:
        if version not in self.served:
            raise ModelNotFound(f"version {version} is not served")
        policy = uniform_policy(batch.legal)
        if random.Random(f"{self._seed}/strength/{version}").random() < 0.5:
            policy = np.zeros_like(policy)
            policy[np.arange(len(batch)), (batch.legal >= 0).sum(axis=1) - 1] = 1
        return Evaluation(policy, np.zeros((len(batch), 2), dtype=np.float32), version)


def _shared(root: Path) -> dict[str, Any]:
    return {"run_dir": root, "game": MODEL, "preset": "tiny"}


@functools.lru_cache(maxsize=2)
def _gatekeeper_settings(root: Path, gate_mode: str) -> GatekeeperSettings:
    rules = {"mode": gate_mode, "simulations": 2, "leaves_per_game": 1, "opening_plies": 2, "max_pairs": 8}
    rules |= {"elo0": 0.0, "elo1": 200.0, "ladder_games": 0, "share": 0.55}
    return GatekeeperSettings(
        **_shared(root),
        gate=rules,
        models={"keep": 4, "keep_every": 0},
        match_slots=4,
        watch_slots=4,
        cache_positions=64,
        recheck_s=2.0,
        ladder_delay_s=0.0,
    )


@functools.lru_cache(maxsize=2)
def _trainer_settings(root: Path, seed: int) -> TrainerSettings:
    return TrainerSettings(
        **_shared(root),
        train={"learner": LEARNER},
        seed=seed,
        device="cpu",
        consumer="trainer",
        intake_games=8,
        intake_wait_s=0.5,
        checkpoint_every_s=3.0,
        report_every_s=5.0,
        max_waiting=200,
    )


@functools.lru_cache(maxsize=4)
def _worker_settings(root: Path, seed: int, name: str) -> WorkerSettings:
    return WorkerSettings(
        **_shared(root),
        worker_id=name,
        run_seed=seed,
        search={"simulations": 2, "fast_simulations": 1},
        selfplay={"lanes": 2, "slots": 4, "adoption_delay_s": 0.5},
        publish_queue_games=6,
        warm_start={"games": 0},
    )


def small_files() -> Any:
    """Return a context in which a file of the game log is full after some ten games."""
    defaults = GameLog.open.__func__.__kwdefaults__  # type: ignore[attr-defined]
    return mock.patch.dict(defaults, {"segment_bytes": LOG_FILE_BYTES})


async def inference_main(world: World) -> None:
    """Be an inference server until killed."""
    server = SimInference(world.root / "models", world.seed, world.checks.note_loaded)
    world.network.serve("inference", world.loop.current, server)
    await world.forever()


async def gatekeeper_main(world: World) -> None:
    """Be a gatekeeper until it is killed or replaced."""
    settings = _gatekeeper_settings(world.root, world.gate_mode)
    process = world.loop.current
    remote = RemoteInference(world.network, attempts=3)
    async with compose(settings, evaluator=remote, control=RemoteInference(world.network)) as parts:
        servicer = GatekeeperServicer(ledger=parts.ledger, pointer=parts.pointer, arbiter=parts.arbiter, ladder=parts.ladder)
        world.checks.note_gatekeeper(process, parts)
        world.network.serve("gatekeeper", process, servicer)
        await parts.run()


async def trainer_main(world: World) -> None:
    """Be a trainer until it is killed or told to stop."""
    settings = _trainer_settings(world.root, world.seed)
    game, service = settings.build_game(), Service(settings)
    rng = random.Random()
    learner_thread, intake_thread = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
    training = await world.loop.run_in_executor(
        learner_thread, lambda: open_training(settings, game, device=torch.device("cpu"), export=world.export)
    )
    try:
        client = SimGatekeeperClient(world.network, rng=rng)
        stream = world.open_stream()
        submitter = Submitter(client, training.store, MODEL, rng=rng)
        conductor = Conductor(training, submitter, History([]), stream, learner_thread)
        intake = make_intake(
            training,
            stream,
            executor=intake_thread,
            rng=rng,
            on_samples=conductor.wake,
            reader=open_reader(training, torch.device("cpu")),
        )
        world.checks.note_trainer(world.loop.current, training)
        world.services[world.loop.current] = service
        await conductor.run(service, intake)
    finally:
        training.replay.close()


async def worker_main(world: World, name: str) -> None:
    """Be a worker until it is killed or told to stop."""
    settings = _worker_settings(world.root, world.seed, name)
    service = Service(settings)
    client = SimGatekeeperClient(world.network, rng=random.Random())
    play = SelfPlay(settings.build_game(), settings, evaluator=RemoteInference(world.network), stream=world.open_stream())
    world.services[world.loop.current] = service
    handed_over, hand_over = set(), play._publisher.hand_over

    def note(game: Any) -> None:
        handed_over.add(game.uid)
        hand_over(game)

    play._publisher.hand_over = note
    await play.run(service, world.checks.watched(client.watch(MODEL)))
    if lost := sorted(handed_over - world.checks.published):
        world.fail(f"P8: a worker stopped in order without {len(lost)} of its finished games, such as {lost[0]}")


class Acknowledged:
    """Handle of the stream that tells the world which games the trainer has acknowledged."""

    def __init__(self, handle: MemoryStream, world: World) -> None:
        self._handle, self._world = handle, world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)

    async def acknowledge(self, entry_ids: Any) -> None:
        entries = self._handle._store.entries
        self._world.checks.acknowledged |= {entries[one].uid for one in entry_ids if one in entries}
        await self._handle.acknowledge(entry_ids)
        self._world.note_acknowledgement()
