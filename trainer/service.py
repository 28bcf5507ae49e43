"""Trainer process: concurrent intake, learner, submissions and reports, with start and shutdown.

Two threads run the blocking work: `learner` (torch, checkpoints, export) and `intake` (validation, the log on disk).
Shutdown: delivered games are stored and acknowledged; meanwhile the current step is finished and a checkpoint is written.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import aclosing, closing, suppress
from functools import partial
from typing import TypeVar

import structlog
import torch

from trainer.candidates import Submitter
from trainer.fleet import Fleet
from trainer.history import History, open_history
from trainer.intake import Intake
from trainer.process_group import open_ranks
from trainer.ranks import ALONE, Place, Ranks, choose_device
from trainer.readers.base import Reader, RecordReader
from trainer.readers.messages import ReaderSettings
from trainer.readers.processes import ReaderProcesses
from trainer.record_check import RecordCheck
from trainer.settings import TrainerSettings
from trainer.start import open_training
from trainer.training import Training
from trainer.window import SampleWindow
from zerofleet.contracts.naming import model_name
from zerofleet.errors import ConfigurationError, CorruptModel, Unavailable, UnfitModel, ZerofleetError
from zerofleet.presets.warm_start import game_of
from zerofleet.rpc.gatekeeper_client import GatekeeperClient
from zerofleet.rpc.security.credentials import plain
from zerofleet.service.lifecycle import Service
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.run_paths import RunPaths
from zerofleet.storage.runs import require_run
from zerofleet.storage.streams import GameStream, open_stream
from zerofleet.telemetry import metrics

__all__ = ["Conductor", "make_intake", "open_reader", "serve"]

GPU_READERS = 2  # a step on a GPU is hundreds of short calls, and each waits for a thread that reads games
CHUNK_S = 0.5  # maximum delay before the learner notices a stop signal
RETRY_S = 2.0  # pause before another attempt at a publication that failed on disk

log = structlog.get_logger()

Result = TypeVar("Result")


async def serve(service: Service, settings: TrainerSettings, place: Place = ALONE) -> None:
    """Train until shutdown, together with the other ranks if `place` is one of several.

    Raises as `open_training` does; `ConfigurationError` for an extra that is not installed; `Unavailable` when another rank
    is lost.
    Cancellation: the current step is lost; nothing stored is.
    """
    await asyncio.to_thread(require_run, settings.run_dir, settings.game, settings.game_parameters, preset=settings.preset)
    device = choose_device(settings.device, place)
    if settings.train.batch_size < place.size:
        raise ConfigurationError(
            f"a batch of {settings.train.batch_size} cannot be divided among {place.size} ranks; raise train.batch_size"
        )
    async with open_ranks(place, device, timeout_s=settings.rank_timeout_s, on_asked_to_end=service.stopping.set) as ranks:
        await _serve(service, settings, device, ranks)


async def _serve(service: Service, settings: TrainerSettings, device: torch.device, ranks: Ranks) -> None:
    game = settings.build_game()
    model = model_name(game)
    loop = asyncio.get_running_loop()
    rng = random.Random()  # noqa: S311 - jitter, not a secret
    with (
        ThreadPoolExecutor(1, thread_name_prefix="learner") as learner_thread,
        ThreadPoolExecutor(1, thread_name_prefix="intake") as intake_thread,
    ):
        training = await loop.run_in_executor(learner_thread, lambda: open_training(settings, game, device=device, ranks=ranks))
        with closing(training.replay), closing(_open_history(settings)) as history:  # only once no other trainer runs
            if ranks.size > 1:
                await loop.run_in_executor(learner_thread, ranks.invite, training.learner.invited(training.accounts))
            async with (
                GatekeeperClient(settings.gatekeeper_address, token=plain(settings.token), tls=settings.tls) as gatekeeper,
                aclosing(open_stream(settings.stream_url, name=settings.stream_name)) as stream,
            ):
                submitter = Submitter(gatekeeper, training.store, model, rng=rng)
                conductor = Conductor(training, submitter, history, stream, learner_thread)
                reader = open_reader(training, device)
                try:
                    intake = make_intake(
                        training, stream, executor=intake_thread, rng=rng, on_samples=conductor.wake, reader=reader
                    )
                    await conductor.run(service, intake)
                finally:
                    await asyncio.to_thread(reader.close)


def _open_history(settings: TrainerSettings) -> History:
    return open_history(
        RunPaths(settings.run_dir).metrics,
        tensorboard=settings.tensorboard,
        wandb_project=settings.wandb_project,
        run_name=settings.run_dir.name,
        settings=_shown_settings(settings),
    )


def _shown_settings(settings: TrainerSettings) -> dict[str, object]:
    """Return the settings that describe the experiment: neither addresses nor secrets."""
    parts = {name: getattr(settings, name).model_dump(mode="json") for name in settings.PRESET_PARTS}
    return {"game": settings.game, "parameters": dict(settings.game_parameters), "preset": settings.preset, **parts}


def open_reader(training: Training, device: torch.device) -> Reader:
    """Return the reader of records that the settings select; `device` trains.

    Raises `ConfigurationError` for a number of processes with a learner that reads in a thread.
    """
    settings, window = training.settings, training.replay.window
    count = settings.intake_processes
    if not isinstance(window, SampleWindow):
        if count not in ("auto", 0):
            raise ConfigurationError(
                f"intake_processes={count}: the learner {settings.train.learner} reads games in a thread; leave it at auto or 0"
            )
        count = 0
    elif count == "auto":
        count = GPU_READERS if device.type == "cuda" else 0
    log.info("intake.readers", processes=count)
    if count:
        given = ReaderSettings.of(training.game, settings.train, settings.warm_start)
        return ReaderProcesses(given, count, spec=training.game.spec())
    return RecordReader(training.game, window.read, warm_start_game=game_of(training.game, settings.warm_start))


def make_intake(
    training: Training,
    stream: GameStream,
    *,
    executor: Executor,
    rng: random.Random,
    on_samples: Callable[[], None],
    reader: Reader,
) -> Intake:
    """Return the intake that feeds `training` from `stream`."""
    settings, replay = training.settings, training.replay
    return Intake(
        stream,
        replay,
        RecordCheck(
            reader,
            replay,
            lambda: training.newest_version,
            published_version=lambda: training.accounts.candidate_version,
            champion_version=lambda: training.champion_version,
            fleet=Fleet(
                max_plies=training.game.spec().max_plies,
                share_max=settings.worker_share_max,
                quarantines=settings.suspect_workers == "quarantine",
            ),
            max_staleness=settings.train.max_staleness,
        ),
        executor=executor,
        consumer=settings.consumer_name,
        limit=settings.intake_games,
        wait_s=settings.intake_wait_s,
        rng=rng,
        on_samples=on_samples,
        is_behind=training.is_behind,
    )


class Conductor:
    """Concurrent execution of the parts of a trainer."""

    def __init__(
        self, training: Training, submitter: Submitter, history: History, stream: GameStream, thread: Executor
    ) -> None:
        self._training = training
        self._submitter = submitter
        self._history = history
        self._stream = stream
        self._thread = thread
        self._awake = asyncio.Event()
        self._stopping = False
        self._ended = asyncio.Event()

    def wake(self) -> None:
        """Have the learner check again whether steps are allowed."""
        self._awake.set()

    async def run(self, service: Service, intake: Intake) -> None:
        """Train until `service` stops; then store the delivered games and write a checkpoint.

        Cancellation: the current step is finished in its thread; no checkpoint is written.
        """
        service.on_drain("training", partial(self._stop, intake))
        _watch(self._training)
        if version := self._training.newest_version:
            self._submitter.offer(version)
        service.ready()
        try:
            async with asyncio.TaskGroup() as group:
                helpers = [group.create_task(self._submitter.run()), group.create_task(self._report())]
                taking = group.create_task(intake.run())
                await self._learn()
                await taking
                for helper in helpers:
                    helper.cancel()
            await self._write_row()
        finally:
            self._stopping = True
            self._ended.set()

    async def _stop(self, intake: Intake) -> None:
        """Stop learner and intake, and wait for both. Cancellation: they stop nevertheless.

        The learner does not wait for the intake, which may wait for disk or stream: a start reads the games stored after the
        checkpoint from the log.
        """
        self._stopping = True
        self.wake()
        await intake.stop()
        await self._ended.wait()

    async def _learn(self) -> None:
        """Take steps as samples arrive, publish due candidates, and write a last checkpoint. Cancellation: as `run`."""
        training = self._training
        while not self._stopping:
            self._awake.clear()
            if training.candidate_due:
                await self._publish()
            elif training.learner.steps_allowed():
                await self._in_thread(training.train, CHUNK_S, lambda: self._stopping)
            else:
                await self._wait_for_samples()
            if training.checkpoint_due:
                await self._in_thread(training.save)
        await self._in_thread(training.save)

    async def _publish(self) -> None:
        try:
            version = await self._in_thread(self._training.publish_candidate)
        except UnfitModel:  # of a warm start: no step follows that would mend the model
            raise
        except (Unavailable, CorruptModel) as error:  # the disk is full, or a file of the store is not what it should be
            log.error("candidate.not_published", error=str(error), advice="the trainer retries")
            await self._pause(RETRY_S)
            return
        crash_point("trainer_after_checkpoint_before_submit")
        if version:
            self._submitter.offer(version, self._training.traces.traceparent)

    async def _wait_for_samples(self) -> None:
        """Wait for new samples, shutdown, or the time of the next report or checkpoint."""
        settings, began = self._training.settings, time.monotonic()
        await self._pause(min(settings.report_every_s, settings.checkpoint_every_s))
        self._training.count_wait(time.monotonic() - began)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._awake.wait()

    async def _report(self) -> None:
        """Write a row of history and the stream's metrics every `report_every_s`. Cancellation: nothing is lost."""
        while True:
            await asyncio.sleep(self._training.settings.report_every_s)
            await self._write_row()
            try:
                stats = await self._stream.stats()
            except ZerofleetError:
                continue  # the intake has logged it, or ends with it
            metrics.STREAM_LAG.set(stats.lag)
            metrics.STREAM_PENDING.set(stats.pending)
            metrics.STREAM_DEAD.set(stats.dead)
            metrics.STREAM_OLDEST.set(stats.oldest_pending_s)

    async def _write_row(self) -> None:
        await self._in_thread(self._write_row_now)

    def _write_row_now(self) -> None:
        row, step = self._training.take_row(), self._training.learner.state.step
        self._history.write(step, row)
        log.info("train.progress", step=step, **{name.partition("/")[2]: round(value, 4) for name, value in row.items()})

    async def _in_thread(self, work: Callable[..., Result], *given: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)


def _watch(training: Training) -> None:
    """Register gauges that are read at each request of /metrics."""
    window, learner = training.replay.window, training.learner
    metrics.REPLAY_SAMPLES.set_function(lambda: len(window))
    metrics.REPLAY_SAMPLES_TOTAL.set_function(lambda: window.total)
    metrics.REPLAY_GAMES.set_function(lambda: len(training.replay.log))
    metrics.SAMPLES_REUSED.set_function(lambda: learner.reuse)
    metrics.TRAIN_STEP.set_function(lambda: learner.state.step)
    metrics.CANDIDATE_VERSION.set_function(lambda: training.accounts.candidate_version)
