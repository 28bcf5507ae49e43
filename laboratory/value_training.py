"""Training of a learner of values in one process: blocks of games, records, validation and the learner, in turn.

A block is played with the weights before its first game; its records take the way of the fleet, encoded, decoded and validated,
and are learned from in order. Checkpoints are written every `CHECKPOINT_GAMES` games and at judgements. Every block depends on
the number of its first game and the weights alone, so a stage that was killed ends with the weights and figures of one that
was not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from games.core import Game
from laboratory.divergence import require_finite
from laboratory.evaluation import MemoryEvaluator, Network
from selfplay_worker.openings import Openings
from selfplay_worker.opposition import make_opponents
from trainer.checkpoint_files import load_latest, save
from trainer.learners.contract import Accounts
from trainer.learners.game_by_game import GameByGameLearner
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.presets import SelfPlaySettings
from zerofleet.presets.theses.stages import LearnerStage, SarsaStage, TdStage
from zerofleet.search.afterstates.block import AfterstateBlock
from zerofleet.search.afterstates.settings import AfterstateSettings

__all__ = ["CHECKPOINT_GAMES", "ValueTraining", "judgements"]

CHECKPOINT_GAMES = 5_000
_WORKER = "laboratory"
_GAME_STREAM = 20_160_601  # separates the seeds of games from those of weights


class ValueTraining(ABC):
    """Training of one stage in a folder; an interrupted one is continued."""

    kind: ClassVar[type[GameByGameLearner[Any]]]
    """Class of the learner."""

    def __init__(self, stage: TdStage | SarsaStage, game: Game, folder: Path) -> None:
        """Make first weights, or read the newest checkpoint of the folder. Raises `ConfigurationError`, `CorruptModel`."""
        self._stage = stage
        self._folder = folder
        self._game = game
        self._openings = Openings(game, SelfPlaySettings(opening_plies=stage.opening_plies, decided_openings="redraw"))
        self._opponents = make_opponents(game, stage.play)
        found = load_latest(folder, self.kind.unpack)
        self._learner = self.new_learner(game, 0 if found is None else found[0].learner.samples_trained)
        if found is not None:
            self._learner.restore(*found)

    @abstractmethod
    def new_learner(self, game: Game, first: int) -> GameByGameLearner[Any]:
        """Return the learner with its first weights; samples before `first` were learned from."""

    @property
    @abstractmethod
    def network(self) -> Network:
        """Network with the weights at present."""

    @abstractmethod
    def play(self, games: int) -> AfterstateSettings:
        """Return the choice of moves after a number of games."""

    def most_games(self, before: int) -> int:
        """Return the most games of a block that begins after `before` games."""
        return min(self._stage.block, CHECKPOINT_GAMES - before % CHECKPOINT_GAMES)

    @property
    def games(self) -> int:
        """Number of games learned from."""
        return int(self._learner.state.step)

    def train_to(self, games: int, *, on_games: Callable[[int], None]) -> None:
        """Play and learn until `games` games were learned from, with checkpoints; `on_games` is called after each block.

        Raises `Diverged`.
        """
        while self.games < games:
            before = self.games
            self._play_and_learn(before, min(self.most_games(before), games - before))
            if self.games % CHECKPOINT_GAMES == 0 or self.games >= games:
                save(self._folder, *self._learner.pack(Accounts()))
            on_games(self.games - before)

    @property
    def evaluator(self) -> MemoryEvaluator:
        """Evaluator of the network with the weights at present."""
        return MemoryEvaluator(self.network)

    def row(self) -> dict[str, float]:
        """Return the measures of the training since the last judgement: none."""
        return {}

    def _play_and_learn(self, first: int, count: int) -> None:
        learner = self._learner
        block = AfterstateBlock(self._game, self.play(first), slots=count, opponents=self._opponents)
        for slot in range(count):
            seed = self._game_seed(first + slot)
            block.begin(slot, seed=seed, versions=[1, 1], opening=self._openings.draft(seed).opening())
        network, window = self.network, learner.window
        while len(block.finished()) < count:
            values = network(block.advance().batch.states)
            require_finite(f"values of game {first}", values)
            block.absorb(np.empty(0), values)
        for slot in range(count):
            record = encode_record(block.take(slot), worker_id=_WORKER, uid=f"{first + slot:032x}")
            window.add(window.read(validate(decode_record(record))))
        while learner.steps_allowed():
            learner.step()
        if self.games != first + count:
            raise AssertionError(f"{self.games - first} of {count} games were steps; the others would be repeated")

    def _game_seed(self, index: int) -> int:
        return int(np.random.SeedSequence([_GAME_STREAM, self._stage.seed, index]).generate_state(1, np.uint64)[0]) >> 2


def judgements(stage: TdStage | SarsaStage | LearnerStage) -> Iterator[int]:
    """Yield the numbers of games after which the network is judged."""
    if stage.judge_every:
        yield from range(stage.judge_every, stage.games, stage.judge_every)
    yield stage.games
