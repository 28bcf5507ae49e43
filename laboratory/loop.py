"""The loop in one process: one lane of self-play, and between its steps the turns of the trainer.

    lane step ──► room: enough finished games? ── intake ── steps ── candidate ── adoption ──► next lane step
                        judgement due?  (not counted)

The lane, the intake and the trainer are those of the services; executors run their work in this thread, so the order of all
work, and with it every game, sample and weight, depends on seed and settings alone.
"""

from __future__ import annotations

import hashlib
import math
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

from laboratory.clock import NOT_COUNTED, InlineExecutor, ProcessorClock
from laboratory.diagnosis import since
from laboratory.networks import CountedEvaluator, Networks
from selfplay_worker.game_register import FinishedGame
from selfplay_worker.lane import Lane
from selfplay_worker.settings import WorkerSettings
from selfplay_worker.warm_start import WarmStart
from selfplay_worker.warmup import warm_up
from selfplay_worker.worker import make_block, make_crew
from trainer.batches import BatchMaker
from trainer.learner import Learner
from trainer.loss import ILLEGAL_MASS
from trainer.readers.base import RecordReader
from trainer.samples import Samples
from trainer.service import make_intake
from trainer.settings import TrainerSettings
from trainer.start import open_training
from trainer.training import Training
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.records import encode_record
from zerofleet.contracts.records.samples import random_game
from zerofleet.errors import ConfigurationError, first_error
from zerofleet.presets.trial import PARTS_OF_TRIAL, Trial
from zerofleet.presets.warm_start import game_of
from zerofleet.storage.streams import MemoryStream, Publication
from zerofleet.strength.learning.judges import Judge

__all__ = ["Loop"]

WORKER = "laboratory"
TURN_GAMES = 32  # finished games per turn of the trainer: its fixed costs, such as a sync of the disk, are shared
REPORT_EVERY_S = 1.0
_LOSSES = ("losses/", f"charts/{ILLEGAL_MASS}")  # the latter with a policy over all actions

Event = dict[str, Any]


class Loop:
    """A trial, from random weights to its budget."""

    def __init__(
        self,
        trial: Trial,
        directory: Path,
        *,
        judge: Judge,
        emit: Callable[[Event], None],
        clock: ProcessorClock | None = None,
        start: int = 1,
        judged: float = 0.0,
    ) -> None:
        """Open a run.

        Args:
            trial: The trial.
            directory: Run directory, empty or of an earlier start of the same trial.
            judge: Judge of versions.
            emit: Called with each event: progress, judgement, end.
            clock: Clock of processor time; by default that of this process.
            start: Number of this start of the trial. A later one continues from the last version with all finished games; games
                in progress were lost, so that its figures differ from those of a trial that was not interrupted.
            judged: Planned place of the last judgement of earlier starts.
        """
        self._trial = trial
        self._judge = judge
        self._emit = emit
        self._clock = clock or ProcessorClock()
        game, preset = trial.build_game(), trial.build_preset()
        common = {"run_dir": directory, "game": trial.game, "game_parameters": trial.parameters, "preset": trial.preset}
        parts = {name: getattr(preset, name).model_dump() for name in PARTS_OF_TRIAL}
        parts["warm_start"] |= {"parallel": 1}
        parts["train"] |= {"threads": 1}
        worker = WorkerSettings.model_validate(
            {
                **common,
                **{name: part for name, part in parts.items() if name in WorkerSettings.PRESET_PARTS},
                "worker_id": WORKER,
                "run_seed": trial.seed,
                "incarnation": start,
            }
        )
        trainer = TrainerSettings.model_validate(
            {
                **common,
                **{name: part for name, part in parts.items() if name in TrainerSettings.PRESET_PARTS},
                "seed": trial.seed,
                "device": "cpu",
            }
        )
        rng = random.Random(trial.seed)  # noqa: S311 - jitter of retries, which do not happen here
        self._training = open_training(trainer, game, progress=self._progress)
        self._learner = _alphazero(self._training)
        self._networks = Networks(self._training.store, model_name(game), max_batch=worker.selfplay.slots)
        self._evaluator = CountedEvaluator(self._networks, self._clock)
        self._crew = make_crew(
            game, worker, evaluator=self._evaluator, outlet=self, thread=InlineExecutor(self._clock, "search"), rng=rng
        )
        self._worker = worker
        self._block = make_block(game, worker)
        self._stream = MemoryStream()
        self._intake = make_intake(
            self._training,
            self._stream,
            executor=InlineExecutor(self._clock, "intake"),
            rng=rng,
            on_samples=lambda: None,
            reader=RecordReader(game, self._training.replay.window.read, warm_start_game=game_of(game, trainer.warm_start)),
        )
        self._judged = self._crew.register.figures  # at the last judgement
        self._finished: list[FinishedGame] = []
        self._games = len(self._training.replay.log)
        self._adopted_at_samples = 0
        self._start = start
        self._last_judgement = judged
        self._began_s = self._reported_s = time.monotonic()
        self._judging_s = 0.0
        self._warm_up(game, worker)

    def hand_over(self, game: FinishedGame) -> None:
        """See `Outlet.hand_over`."""
        self._finished.append(game)

    async def room(self) -> None:
        """See `Outlet.room`: give the trainer its turn, and judge if a judgement is due. Cancellation: see `run`."""
        wanted = TURN_GAMES if self._crew.adopted.version else 1  # a warm start ends with the turn of its last game
        if len(self._finished) >= wanted:
            await self._take_turn()
        with self._clock.part(NOT_COUNTED):
            done, every = self._done, self._trial.judge_every
            if done >= self._trial.budget:
                await self._judge_at(self._trial.budget)
                self._crew.stop.stop_now()
            else:
                await self._judge_at(math.floor(done / every) * every)
            self._report()

    async def run(self) -> None:
        """Learn until the budget is spent. Raises `Diverged`. Cancellation: another start continues it."""
        try:
            self._adopt(self._training.newest_version)
            self._clock.restart()
            self._began_s = time.monotonic()
            self._train()  # on games of an earlier start, if there was one
            if not self._crew.adopted.version:
                await self._play_warm_start()
            await Lane(self._block, self._crew).run()
            self._emit({"event": "end", **self._figures(), "weights": self._weights_hash()})
        except ExceptionGroup as failures:  # of the tasks of a warm start
            raise first_error(failures) from None
        finally:
            self._training.replay.close()

    async def _play_warm_start(self) -> None:
        """Play the games of agents until the first version is trained, or the budget is spent."""
        crew = self._crew
        warm_start = WarmStart(self._block.game, self._worker, adopted=crew.adopted, publisher=self, stop=crew.stop)
        try:
            await warm_start.run()
        finally:
            warm_start.close()

    @property
    def _done(self) -> float:
        """Part of the budget spent, in its unit."""
        return self._clock.used_s if self._trial.samples is None else float(self._training.replay.window.total)

    def _progress(self) -> float:
        """Return the share of the budget spent: the plan of a trial, for a learning rate that falls over the plan."""
        return self._done / self._trial.budget

    async def _take_turn(self) -> None:
        """Take the finished games in, then train and adopt candidates until new samples are needed."""
        with self._clock.part("intake"):
            await self._stream.publish_all([Publication(game.uid, game.payload) for game in self._finished])
            deliveries = await self._stream.consume(consumer=WORKER, limit=len(self._finished), block_s=0.0)
            checked = await self._intake.take(deliveries)
            for game in self._finished:
                if game.when_settled is not None:
                    game.when_settled()
        if checked.refused or (checked.duplicates and self._start == 1):  # a later start may repeat games of agents
            raise AssertionError(f"the intake refused games of its own worker: {checked.refused[:1]}")
        self._games += len(checked.accepted)
        self._finished.clear()
        self._train()

    def _train(self) -> None:
        """Train and adopt candidates until new samples are needed."""
        training = self._training
        while True:
            if training.candidate_due:
                with self._clock.part("adoption"):
                    self._adopt(training.publish_candidate())
            elif training.learner.steps_allowed():
                with self._clock.part("learning"):
                    training.train(math.inf, lambda: False)
            else:
                return

    def _adopt(self, version: int) -> None:
        """Load a version and play it from now on; 0 means that the candidate was unfit and the last one stays."""
        if version:
            self._networks.load(version)
            self._crew.adopted.adopt(version)
            self._adopted_at_samples = self._training.replay.window.total

    async def _judge_at(self, planned: float) -> None:
        """Judge the version in play, if there is one and it is due; `planned` is the place of the judgement on the curve."""
        if not self._crew.adopted.version or planned <= self._last_judgement:
            return
        began_s = time.monotonic()
        version = self._crew.adopted.version
        measures = await self._judge.judge(self._networks, version)
        self._judging_s += time.monotonic() - began_s
        row, figures = self._training.take_row(), self._crew.register.figures
        self._last_judgement = planned
        self._emit(
            {
                "event": "judgement",
                "planned": planned,
                **self._figures(),
                "measures": [measure.as_json() for measure in measures],
                "losses": {name.partition("/")[2]: value for name, value in row.items() if name.startswith(_LOSSES)},
                "learning_rate": row.get("charts/learning_rate"),
                "since_last": since(self._judged, figures),
            }
        )
        self._judged = figures

    def _report(self) -> None:
        """Emit the progress at most once a second."""
        now_s = time.monotonic()
        if now_s - self._reported_s >= REPORT_EVERY_S:
            self._reported_s = now_s
            self._emit(
                {
                    "event": "progress",
                    "done": self._done,
                    "games": self._games,
                    "samples": self._training.replay.window.total,
                    "steps": self._training.learner.state.step,
                    "evaluations": self._evaluator.positions,
                    "cpu_seconds_used": round(self._clock.used_s, 3),
                }
            )

    def _figures(self) -> Event:
        """Return the totals since the start."""
        learner, window, counters = self._training.learner, self._training.replay.window, self._block.counters
        evaluations = self._evaluator.positions
        return {
            "done": self._done,
            "cpu_seconds": {part: round(seconds, 3) for part, seconds in self._clock.parts().items()},
            "cpu_seconds_used": round(self._clock.used_s, 3),
            "start_cpu_seconds": round(self._clock.before_s, 3),
            "wall_seconds": round(time.monotonic() - self._began_s - self._judging_s, 3),
            "games": self._games,
            "samples": window.total,
            "window_samples": len(window),
            "steps": learner.state.step,
            "samples_trained": learner.state.samples_trained,
            "reuse": learner.reuse,
            "evaluations": evaluations,
            "batches": self._evaluator.batches,
            "cache_hits": counters.cache_hits,
            "simulations": counters.simulations,
            "moves": counters.moves,
            "evaluations_per_sample": evaluations / window.total if window.total else None,
            "version": self._crew.adopted.version,
            "version_samples": self._adopted_at_samples,
        }

    def _weights_hash(self) -> str:
        """Return a hash of the weights in training and of their average."""
        learner = self._learner
        digest = hashlib.sha256()
        for tensor in (*learner.network.state_dict().values(), *learner.average.weights):
            digest.update(tensor.detach().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def _warm_up(self, game: Any, worker: WorkerSettings) -> None:
        """Load or compile all code of the loop, which is not part of the budget."""
        warm_up(game, worker, self._crew.openings)
        record = encode_record(random_game(game, 0), worker_id=WORKER, uid=f"{0:032x}")
        samples = self._training.replay.read(record)
        BatchMaker(game.spec()).make(cast("Samples", samples), np.random.default_rng(0))


def _alphazero(training: Training) -> Learner:
    """Return the learner of a trial. Raises `ConfigurationError` for one that does not learn from searched positions."""
    if not isinstance(training.learner, Learner):
        raise ConfigurationError(
            f"train.learner={training.settings.train.learner}: a trial measures the learner alphazero; omit the setting"
        )
    return training.learner
