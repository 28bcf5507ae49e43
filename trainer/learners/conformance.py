"""Conformance of learners to `trainer.learners.contract.Learning`: the laws that hold whatever a learner learns.

    from trainer.learners.conformance import check_learner
    print(check_learner(lambda run_dir: TrainerSettings(run_dir=run_dir, game="tic_tac_toe", train={"learner": "td_lambda"})))

The built-in learners and one of your own are checked by this same function. It trains for a few steps in a temporary directory,
kills the trainer, resumes it, and begins once more without its checkpoint. Whether a learner learns well it cannot know.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import torch

from trainer.export import stored_weights
from trainer.learners.contract import Accounts, Learning
from trainer.replay import AcceptedGame
from trainer.settings import TrainerSettings
from trainer.start import open_training
from trainer.training import Training
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.contracts.records.samples import random_game
from zerofleet.errors import LearnerContractError
from zerofleet.storage.run_paths import RunPaths

__all__ = ["LAWS", "CheckedLearner", "check_learner"]

LAWS = {
    1: "the same settings give the same fresh learner",
    2: "reading a game changes nothing but the window it is added to",
    3: "games allow steps; a step counts once and changes the arrays",
    4: "a killed trainer resumes with the step that the stopped one would have taken",
    5: "what was learned is published as a version",
    6: "a run without its checkpoint goes on from the stored weights, and learns from no game again",
}

GAMES = 40
STEPS = 5
_TOLERANCE = 1e-6  # stored weights are in single precision


@dataclass(frozen=True, slots=True)
class CheckedLearner:
    """Extent of a check."""

    learner: str
    game: str
    games: int
    samples: int
    steps: int

    def __str__(self) -> str:
        counts = f"{self.games} games, {self.samples} samples, {self.steps} steps"
        return f"{self.learner} on {self.game}: {len(LAWS)} laws hold; {counts}"


def check_learner(
    settings_in: Callable[[Path], TrainerSettings], records: Sequence[bytes] = (), *, steps: int = STEPS
) -> CheckedLearner:
    """Check a learner against `LAWS`.

    Args:
        settings_in: Returns the settings of a trainer whose `run_dir` is the given directory.
        records: Records of games as workers publish them. By default those of `GAMES` random games, which suit a learner that
            needs neither values nor pools from them.
        steps: Steps to take before the checkpoint, and so many after it; fewer where the games allow fewer.

    Raises:
        LearnerContractError: A law is broken; the message states the law and what was found.
        RecordRejected: The learner cannot use one of the games.
        Diverged: A step left weights that are not finite.
        ConfigurationError: The learner does not support the game or the settings.
    """
    with tempfile.TemporaryDirectory() as folder:
        return _Check(settings_in, Path(folder)).run(records, steps)


class _Check:
    def __init__(self, settings_in: Callable[[Path], TrainerSettings], folder: Path) -> None:
        self._settings_in = settings_in
        self._folder = folder
        settings = settings_in(folder / "run")
        self._learner = settings.train.learner
        self._game = settings.build_game()

    def run(self, records: Sequence[bytes], steps: int) -> CheckedLearner:
        records = records or [
            encode_record(random_game(self._game, seed), worker_id="check", uid=f"{seed:032x}") for seed in range(GAMES)
        ]
        with ExitStack() as stack:
            stopped, other = self._open(stack, "run"), self._open(stack, "other")
            if _packed(stopped.learner) != _packed(other.learner):
                self._broken(1, "two fresh learners differ")
            self._read(stopped, records)
            first = self._steps(stopped, steps)
            stopped.save()
            saved = _packed(stopped.learner)
            second = self._steps(stopped, steps)  # lost with the process
            reached = _packed(stopped.learner)
        if saved[1] == reached[1]:
            self._broken(3, f"{second} steps changed no array")
        with ExitStack() as stack:
            resumed = self._open(stack, "run")
            if _packed(resumed.learner) != saved:
                self._broken(4, "its state after the resumption is not that of the checkpoint")
            self._steps(resumed, second)
            if _packed(resumed.learner) != reached:
                self._broken(4, f"after {second} more steps it has another state")
            version = resumed.publish_candidate()
            if not version:
                self._broken(5, "the model is unfit for export; the log has the reason")
            samples = resumed.replay.window.total
        self._begin_anew(version)
        return CheckedLearner(self._learner, model_name(self._game), games=len(records), samples=samples, steps=first + second)

    def _open(self, stack: ExitStack, name: str) -> Training:
        training = open_training(self._settings_in(self._folder / name), self._game)
        stack.callback(training.replay.close)
        return training

    def _read(self, training: Training, records: Sequence[bytes]) -> None:
        """Store the games and add them to the window."""
        before, window = _packed(training.learner), training.replay.window
        decoded = [decode_record(record) for record in records]
        taken, again = ([window.read(validate(one)) for one in decoded] for _ in range(2))
        if list(map(len, taken)) != list(map(len, again)):
            self._broken(2, "a game that is read twice has two numbers of samples")
        if _packed(training.learner) != before:
            self._broken(2, "its state has changed")
        uids = [one.uid for one in decoded]
        training.replay.keep([AcceptedGame(*one) for one in zip(uids, records, taken, strict=True)])

    def _steps(self, training: Training, most: int) -> int:
        """Take steps, `most` at most; return their number."""
        learner, taken = training.learner, 0
        while taken < most and learner.steps_allowed():
            count = learner.state.step
            learner.step()
            if learner.state.step != count + 1:
                self._broken(3, f"step {count + 1} left the count at {learner.state.step}")
            taken += 1
        if not taken:
            window = training.replay.window
            self._broken(
                3, f"after {learner.state.step} steps and {window.total} samples none is allowed; check with more games"
            )
        return taken

    def _begin_anew(self, version: int) -> None:
        """Remove the checkpoints, begin once more, and compare with a stored version."""
        shutil.rmtree(RunPaths(self._folder / "run").replay / "checkpoints")
        with ExitStack() as stack:
            anew = self._open(stack, "run")
            stored = stored_weights(anew.store, model_name(self._game), version)
            held = anew.learner.snapshot().weights
            if stored.keys() != held.keys():
                self._broken(6, f"it has the weights {sorted(held)}, and version {version} has {sorted(stored)}")
            for name, weights in stored.items():
                if not torch.allclose(weights.double(), held[name].double(), rtol=0.0, atol=_TOLERANCE):
                    self._broken(6, f"its weights {name} are not those of version {version}")
            if allowed := anew.learner.steps_allowed():
                self._broken(6, f"it allows {allowed} steps before a new game")

    def _broken(self, law: int, found: str) -> NoReturn:
        raise LearnerContractError(f"{self._learner} breaks law {law} ({LAWS[law]}): {found}")


def _packed(learner: Learning) -> tuple[bytes, bytes]:
    """Return the two files of a checkpoint, which determine the next step: counts, and arrays."""
    return learner.pack(Accounts())
