"""Training on behalf of the service: chunks of steps, candidates, checkpoints, figures. Synchronous, for one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from games.core import Game
from trainer.checkpoint_files import save
from trainer.export import Exporter, Lineage, Served, export_served
from trainer.history import HELD_OUT_MEASURES
from trainer.learners.contract import Accounts, Learning, TakingStep
from trainer.loss import ILLEGAL_MASS, POLICY_ENTROPY
from trainer.plan import Plan
from trainer.replay import MOST_TRACED, Replay, TracedGame
from trainer.settings import TrainerSettings
from trainer.traces import CandidateTraces
from zerofleet.contracts.heads import AUXILIARY_HEADS, EXTRA_HEADS
from zerofleet.contracts.naming import model_name
from zerofleet.errors import CorruptModel, Unavailable, UnfitModel
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.model_store import ModelStore
from zerofleet.telemetry import metrics

__all__ = ["Figures", "Training"]

log = structlog.get_logger()


@dataclass(slots=True)
class Figures:
    """Sums over the steps since the last row of history."""

    steps: int = 0
    skipped: int = 0
    samples: int = 0
    busy_s: float = 0.0
    wait_s: float = 0.0
    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    """Steps in each sum: measures are not part of every report."""

    def add(self, report: TakingStep) -> None:
        """Count a step; losses of a skipped one are left out."""
        if report.skipped:
            self.skipped += 1
            return
        self.steps += 1
        self.samples += report.samples
        figures = {**report.losses, "gradient_norm": report.gradient_norm, "learning_rate": report.learning_rate}
        for name, figure in figures.items():
            self.sums[name] = self.sums.get(name, 0.0) + figure
            self.counts[name] = self.counts.get(name, 0) + 1

    def row(self) -> dict[str, float]:
        """Return means and rates under the names of `trainer.history.FIGURES`."""
        elapsed_s = self.busy_s + self.wait_s
        row = {
            "charts/skipped_steps": float(self.skipped),
            "charts/samples_per_second": self.samples / elapsed_s if elapsed_s else 0.0,
            "charts/wait_share": self.wait_s / elapsed_s if elapsed_s else 0.0,
        }
        if self.steps:
            mean = {name: total / self.counts[name] for name, total in self.sums.items()}
            losses = ("total", "policy", "value", *EXTRA_HEADS, *AUXILIARY_HEADS)
            row |= {f"losses/{name}": mean[name] for name in losses if name in mean}
            charts = ("learning_rate", "gradient_norm", POLICY_ENTROPY, ILLEGAL_MASS, *HELD_OUT_MEASURES)
            row |= {f"charts/{name}": mean[name] for name in charts if name in mean}
        return row


class Training:
    """Learner with its replay store, model store and accounts."""

    def __init__(
        self,
        game: Game,
        settings: TrainerSettings,
        *,
        store: ModelStore,
        replay: Replay,
        learner: Learning,
        accounts: Accounts,
        checkpoints: Path,
        progress: Callable[[], float] | None = None,
        export: Exporter = export_served,
    ) -> None:
        """`progress`: share of the planned training that has passed; by default that of the planned time of the settings.

        `export` publishes the models.
        """
        self.settings = settings
        self.store = store
        self.replay = replay
        self.learner = learner
        self.accounts = accounts
        self.figures = Figures()
        self.traces = CandidateTraces()
        self.game = game
        self._traced: list[TracedGame] = []  # games that no candidate is linked to yet
        self._model = model_name(game)
        self._checkpoints = checkpoints
        self._saved_at = time.monotonic()
        self._plan = Plan(accounts.active_s, settings.planned_end_s)
        self._progress = progress or self._plan.progress
        self._behind = False
        self._export = export

    def train(self, seconds: float, stopping: Callable[[], bool]) -> None:
        """Take steps for about `seconds`, or until a candidate is due, the reuse bound is reached, or `stopping`."""
        began = time.monotonic()
        while time.monotonic() - began < seconds and not stopping():
            if self.learner.steps_allowed() == 0 or self.candidate_due:
                break
            self.traces.stepping(self.learner.state.step)
            if (progress := self._progress()) is not None:  # else it stays at that of the checkpoint
                self.learner.progress = progress
            report = self.learner.step()
            self.figures.add(report)
            metrics.TRAIN_STEPS.inc()
            if report.skipped:
                metrics.TRAIN_SKIPPED.inc()
                log.warning("train.step_skipped", step=self.learner.state.step, gradient_norm=report.gradient_norm)
            else:
                metrics.TRAIN_SAMPLES.inc(report.samples)
                for head, loss in report.losses.items():
                    if head == ILLEGAL_MASS:
                        metrics.TRAIN_ILLEGAL_MASS.set(loss)
                    elif head in HELD_OUT_MEASURES:
                        metrics.TRAIN_HELD_OUT.labels(measure=head).set(loss)
                    elif head == POLICY_ENTROPY:
                        metrics.TRAIN_POLICY_ENTROPY.set(loss)
                    else:
                        metrics.TRAIN_LOSS.labels(head=head).set(loss)
                metrics.TRAIN_RATE.set(report.learning_rate)
        self._count_busy(time.monotonic() - began)

    @property
    def warm_starting(self) -> bool:
        """Whether the first version has yet to be trained from games of agents."""
        return self.settings.warm_start.games > 0 and not self.accounts.candidate_version

    @property
    def newest_version(self) -> int:
        """Highest version of this model in the store, 0 in a warm start.

        While the store is unreachable, the newest version published by this run. Raises `Unavailable` when no version is
        left.
        """
        try:
            versions = self.store.versions(self._model)
        except Unavailable:
            if not self.accounts.candidate_version:
                raise
            return self.accounts.candidate_version
        if not versions:
            if self.warm_starting:
                return 0
            raise self._lost()
        return versions[-1]

    def _lost(self) -> Unavailable:
        return Unavailable(f"no version of {self._model} is left in {self.store.location}; was the store removed?")

    @property
    def champion_version(self) -> int:
        """Version of the champion; 0 while there is none or its pointer is unreadable."""
        try:
            champion = self.store.champion(self._model)
        except (CorruptModel, Unavailable, OSError):
            return 0
        return champion.version if champion else 0

    @property
    def candidate_due(self) -> bool:
        """Whether the learner has learned enough since the last candidate.

        In a warm start: whether all its games have arrived, and were trained on as often as the learner allows.
        """
        if self.warm_starting:
            return self.replay.games_added >= self.settings.warm_start.games and not self.learner.steps_allowed()
        return self.learner.is_candidate_due(self.accounts)

    def is_behind(self) -> bool:
        """Return whether too many samples wait for the learner: more than `max_waiting`, and then until half of them do.

        Never while the learner itself waits for more samples.
        """
        most = self.settings.max_waiting // 2 if self._behind else self.settings.max_waiting
        self._behind = self.replay.window.waiting > most and self.learner.steps_allowed() > 0
        return self._behind

    @property
    def checkpoint_due(self) -> bool:
        """Whether the last checkpoint is old enough."""
        return time.monotonic() - self._saved_at >= self.settings.checkpoint_every_s

    def publish_candidate(self) -> int:
        """Export what was learned, write a checkpoint, and return the version; 0 when the model was unfit for export.

        Raises `Unavailable` for a failed write and where no version is left in the store, and `CorruptModel` for a damaged file
        of the store: the candidate stays due. Raises `UnfitModel` when the first version is unfit.
        """
        began = time.monotonic()
        if self.accounts.candidate_version and not self.store.versions(self._model):
            raise self._lost()  # a candidate would be the first version of another store
        try:
            self._traced = [*self._traced, *self.replay.take_traced()][-MOST_TRACED:]
            with self.traces.export(self._traced, self.learner.state.step) as export:
                version = self.publish(self.learner.export() if self.learner.state.samples_trained else self._untrained())
                export.published(version)
            self._traced = []
        except UnfitModel as error:
            if self.warm_starting:
                raise  # no other version can be served
            log.error("candidate.unfit", step=self.learner.state.step, error=str(error))
            version = 0
            self.note_candidate(self.accounts.candidate_version)
        crash_point("trainer_after_publish_before_checkpoint")
        self.save()
        self._count_busy(time.monotonic() - began)
        return version

    def _untrained(self) -> Served:
        games, samples, wanted = len(self.replay.log), self.replay.window.total, self.settings.train.min_samples
        log.warning("warm_start.taught_nothing", games=games, samples=samples, min_samples=wanted)
        return self.learner.snapshot()

    def publish(self, served: Served) -> int:
        """Export a model and return its version. Raises as `export_served` does."""
        parent = self.accounts.candidate_version
        version = self._export(
            self.store,
            self.game,
            served,
            lineage=Lineage(parent, self.learner.state.step, len(self.replay.log)),
            backend=self.settings.triton_backend,
            max_batch=self.settings.max_batch,
        )
        self.note_candidate(version)
        metrics.CANDIDATES.inc()
        metrics.CANDIDATE_VERSION.set(version)
        log.info("candidate.published", version=version, parent=parent, step=self.learner.state.step)
        return version

    def save(self) -> None:
        """Write a checkpoint. A failed write is logged: the last checkpoint stays until the next attempt."""
        self._saved_at = time.monotonic()
        self.accounts.marks = self.replay.marks
        self.accounts.active_s = self._plan.active_s
        try:
            save(self._checkpoints, *self.learner.pack(self.accounts))
        except OSError as error:
            log.error("checkpoint.not_written", error=str(error), advice="free space; a restart would repeat steps")
            return
        self.replay.note_checkpoint(self.accounts.marks)

    def take_row(self) -> Mapping[str, float]:
        """Return the figures since the last call, and reset them."""
        window = self.replay.window
        row = {
            **self.figures.row(),
            "charts/window_samples": float(len(window)),
            "charts/samples_ever": float(window.total),
            "charts/games_ever": float(len(self.replay.log)),
            "charts/reuse": self.learner.reuse,
            "charts/candidate_version": float(self.accounts.candidate_version),
        }
        self.figures = Figures()
        return row

    def count_wait(self, seconds: float) -> None:
        """Count time without an allowed step."""
        self.figures.wait_s += seconds
        metrics.TRAIN_WAIT.inc(seconds)

    def _count_busy(self, seconds: float) -> None:
        self.figures.busy_s += seconds
        metrics.TRAIN_BUSY.inc(seconds)

    def note_candidate(self, version: int) -> None:
        """Restart the counts towards the next candidate."""
        self.accounts.candidate_version = version
        self.accounts.candidate_samples = self.replay.window.total
        self.accounts.candidate_trained = self.learner.state.samples_trained
        self.accounts.candidate_step = self.learner.state.step
