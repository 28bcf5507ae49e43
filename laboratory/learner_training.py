"""Training of any learner of play without a tree in one process: blocks of games, records, validation and the learner, in turn.

    agents, or a block of games with the model as it stands ── record ── validation ── learner ── steps ──► next block

A block is played with the weights before its first game; its records take the way of the fleet. Blocks depend on the number
of their first game and the weights alone. A checkpoint is the learner's, with the records that its window needs and the
measures since the last judgement, so a stage that was killed ends with the weights of one that was not.
"""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from games import core
from games.core import Game
from laboratory.measures import Measures
from laboratory.models import MODELS, ModelEvaluator, newest_version, publish_once
from laboratory.sarsa import served_values
from selfplay_worker.openings import Openings
from selfplay_worker.opposition import make_opponents
from selfplay_worker.teaching import Teachers
from trainer.checkpoint_files import load_latest, save
from trainer.learners import learner_class
from trainer.learners.contract import Accounts, Learning
from trainer.settings import TrainerSettings
from zerofleet.contracts.records import ValidatedGame, decode_record, encode_record, validate
from zerofleet.errors import ModelNotFound
from zerofleet.evaluators.base import LeafBatch, ModelVersion
from zerofleet.presets import Preset
from zerofleet.presets.experiment import Experiment
from zerofleet.presets.theses.stages import LearnerStage
from zerofleet.presets.warm_start import numbered_game
from zerofleet.search.afterstates.action_values import ActionValueBlock
from zerofleet.search.afterstates.block import AfterstateBlock
from zerofleet.storage.files import atomic_publish

__all__ = ["CHECKPOINT_GAMES", "LearnerTraining"]

CHECKPOINT_GAMES = 200
_WORKER = "laboratory"
_KEPT = "games-*.json"
_POOL = "pool"  # folder of a model made for the pool
_KEPT_FILES = 2  # as checkpoints
_GAME_STREAM = 20_160_601  # separates the seeds of games from those of weights


class _Kept(NamedTuple):
    """Game whose samples the window holds."""

    first_sample: int
    samples: int
    payload: bytes


class LearnerTraining:
    """Training of one stage in a folder; an interrupted one is continued."""

    def __init__(self, stage: LearnerStage, game: Game, folder: Path) -> None:
        """Make first weights, or read the newest checkpoint of the folder.

        Raises `ConfigurationError` for settings that contradict each other, `ModelNotFound` without the network of the pool,
        `CorruptModel`.
        """
        self._stage, self._game, self._folder = stage, game, folder
        settings = _settings(stage, game, folder)
        self._preset = preset = settings.build_preset()
        self._openings = Openings(game, preset.selfplay)
        self._opponents = make_opponents(game, preset.afterstates)
        self._teachers = (
            Teachers(game, preset.warm_start, opening_plies=preset.selfplay.opening_plies) if preset.warm_start.games else None
        )
        self._numbering = _without_encoding(game)
        self.games = 0
        """Number of games played and handed to the learner."""
        self._measures = Measures()
        self._kept: deque[_Kept] = deque()
        torch.set_num_threads(1)
        kind = learner_class(preset.train.learner)
        found: Any = load_latest(folder, kind.unpack)
        marks = found[0].accounts.marks if found else ((0, 0), (0, 0))
        self._learner: Learning = kind.open(
            game, _trainer_settings(stage, preset, folder), first=marks[0][1], device=torch.device("cpu")
        )
        if found:
            self._restore(found, marks)

    def train_to(self, games: int, *, on_games: Callable[[int], None]) -> None:
        """Play and learn until `games` games were played, with checkpoints; `on_games` is called after each block.

        Raises `Diverged`.
        """
        while self.games < games:
            before = self.games
            taught = self._preset.warm_start.games
            most = min(self._preset.selfplay.slots, CHECKPOINT_GAMES - before % CHECKPOINT_GAMES, games - before)
            records = self._taught(before, min(most, taught - before)) if before < taught else self._played(before, most)
            for payload in records:
                self._take(payload)
                self._learn()
            if self.games % CHECKPOINT_GAMES == 0 or self.games >= games:
                self._save()
            on_games(self.games - before)

    def row(self) -> dict[str, float]:
        """Return the measures since the last call or start: of the games, and the mean losses of the steps."""
        state = self._learner.state
        return self._measures.take() | {"games": self.games, "steps": state.step, "samples_trained": state.samples_trained}

    @property
    def evaluator(self) -> ModelEvaluator:
        """Evaluator of the model as it stands."""
        return ModelEvaluator(self._learner.snapshot().module)

    def publish(self) -> None:
        """Store the model for later stages; once."""
        publish_once(self._learner.snapshot(), self._game, self._folder, steps=self._learner.state.step, games=self.games)

    def weights(self) -> Mapping[str, torch.Tensor]:
        """Return the weights by name."""
        return self._learner.snapshot().weights

    def _taught(self, first: int, count: int) -> Iterator[bytes]:
        """Yield the records of games of agents."""
        assert self._teachers is not None  # noqa: S101 - made where there are such games
        for number in range(first, first + count):
            numbered = numbered_game(self._numbering, self._preset.warm_start, run_seed=self._stage.seed, number=number)
            played = self._teachers.play(numbered)
            assert played is not None  # noqa: S101 - nothing stops it
            yield self._teachers.record(numbered, played, worker_id=_WORKER)

    def _played(self, first: int, count: int) -> Iterable[bytes]:
        """Return the records of games of the model as it stands."""
        kind = ActionValueBlock if self._preset.selfplay.mode == "action_values" else AfterstateBlock
        block = kind(self._game, self._preset.afterstates, slots=count, opponents=self._opponents)
        version = ModelVersion(1 + first // self._stage.version_games)
        for slot in range(count):
            seed = self._game_seed(first + slot)
            block.begin(slot, seed=seed, versions=[version, version], opening=self._openings.draft(seed).opening())
        evaluator = self.evaluator
        while len(block.finished()) < count:
            batch = block.advance().batch
            if len(batch):
                found = evaluator(batch, version)
                block.absorb(found.policy, found.value, found.extra_heads)
            else:
                block.absorb(*_nothing(batch))
        games = [block.take(slot) for slot in range(count)]
        return [encode_record(one, worker_id=_WORKER, uid=f"{first + slot:032x}") for slot, one in enumerate(games)]

    def _take(self, payload: bytes) -> None:
        """Hand a record to the learner, and drop those that its window has used up."""
        window = self._learner.window
        before = window.total
        played = self._add(payload)
        self._measures.game(played)
        self._kept.append(_Kept(before, window.total - before, payload))
        self.games += 1

    def _add(self, payload: bytes) -> ValidatedGame:
        played = validate(decode_record(payload))
        self._learner.window.add(self._learner.window.read(played))
        return played

    def _learn(self) -> None:
        learner = self._learner
        while learner.steps_allowed():
            learner.progress = self.games / self._stage.games
            self._measures.step(learner.step())
        needed = learner.window.total - len(learner.window)
        while self._kept and self._kept[0].first_sample + self._kept[0].samples <= needed:
            self._kept.popleft()

    def _save(self) -> None:
        """Write the records, then the checkpoint that needs them, then remove older ones."""
        first_sample = self._kept[0].first_sample if self._kept else self._learner.window.total
        content = {
            "payloads": [base64.b64encode(one.payload).decode() for one in self._kept],
            "measures": self._measures.as_json(),
        }
        atomic_publish(self._kept_path(self.games), json.dumps(content))
        marks = ((self.games - len(self._kept), first_sample), (self.games, self._learner.window.total))
        save(self._folder, *self._learner.pack(Accounts(marks=marks)))
        for old in sorted(self._folder.glob(_KEPT))[:-_KEPT_FILES]:
            old.unlink()

    def _restore(self, found: tuple[Any, dict[str, torch.Tensor]], marks: tuple[tuple[int, int], ...]) -> None:
        """Fill the window as it was, then load the checkpoint, as a trainer does with its game log."""
        self.games = marks[-1][0]
        content = json.loads(self._kept_path(self.games).read_text("utf-8"))
        self._measures = Measures.read(content["measures"])
        for text in content["payloads"]:
            payload, before = base64.b64decode(text), self._learner.window.total
            self._add(payload)
            self._kept.append(_Kept(before, self._learner.window.total - before, payload))
        self._learner.restore(*found)

    def _kept_path(self, games: int) -> Path:
        return self._folder / _KEPT.replace("*", f"{games:09d}")

    def _game_seed(self, index: int) -> int:
        return int(np.random.SeedSequence([_GAME_STREAM, self._stage.seed, index]).generate_state(1, np.uint64)[0]) >> 2


def _without_encoding(game: Game) -> Game:
    """Return the game in its first encoding: games of agents are then equal for networks that read different ones."""
    return core.make(game.spec().name, **{name: value for name, value in game._asdict().items() if name != "encoding"})


def _settings(stage: LearnerStage, game: Game, folder: Path) -> Experiment:
    """Return the configuration of a stage, with the place of the network of its pool."""
    settings = dict(stage.settings)
    if stage.pool_network:
        home = folder.parent / stage.pool_network
        version = newest_version(game, home)
        if not version and (served := served_values(home)) is not None:  # SARSA(lambda), of which a stage keeps a checkpoint
            home = folder / _POOL
            publish_once(served, game, home, steps=0, games=0)
            version = newest_version(game, home)
        if not version:
            raise ModelNotFound(f"stage {stage.pool_network} has no model in {home}; run it first")
        settings |= {"combined.models": str(home / MODELS), "combined.version": str(version)}
    return Experiment(stage.game, stage.preset, stage.seed, stage.parameters, settings)


def _trainer_settings(stage: LearnerStage, preset: Preset, folder: Path) -> TrainerSettings:
    parts = {name: getattr(preset, name).model_dump() for name in TrainerSettings.PRESET_PARTS}
    return TrainerSettings.model_validate(
        {
            "run_dir": folder,
            "game": stage.game,
            "game_parameters": stage.parameters,
            "preset": stage.preset,
            "seed": stage.seed,
            "device": "cpu",
            **parts,
            "train": parts["train"] | {"threads": 1},
        }
    )


def _nothing(batch: LeafBatch) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
    """Return the evaluation of a batch without positions."""
    heads = tuple(np.zeros((0, batch.legal.shape[1]), np.float32) for _ in range(batch.extra_heads))
    return np.zeros((0, batch.legal.shape[1]), np.float16), np.zeros((0, 2), np.float32), heads
