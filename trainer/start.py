"""Start of training: from the last checkpoint, else from the newest stored model, else from random weights.

Random weights are published as the first version, so that self-play can begin; in a warm start the first version is the
network trained on the games of the agents.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog
import torch

from games.core import Game
from trainer.checkpoint_files import load_latest
from trainer.export import Exporter, export_served, stored_weights
from trainer.learners import learner_class
from trainer.learners.contract import Accounts
from trainer.ranks import Ranks, choose_device
from trainer.replay import Mark, Replay
from trainer.settings import TrainerSettings
from trainer.training import Training
from zerofleet.contracts.naming import model_name
from zerofleet.presets.learners import declared
from zerofleet.service.allocator import keep_freed_memory
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.run_paths import RunPaths

__all__ = ["open_training"]

log = structlog.get_logger()


def open_training(
    settings: TrainerSettings,
    game: Game,
    *,
    device: torch.device | None = None,
    ranks: Ranks | None = None,
    progress: Callable[[], float] | None = None,
    export: Exporter = export_served,
) -> Training:
    """Open every store of a run and return its training, with at least one version published unless a warm start comes first.

    `device`: by default that of the settings. `ranks`: by default this process alone. `progress`: share of the planned
    training that has passed, for a caller whose plan is not a time; by default that of `planned_end_s`. `export` publishes the
    models.
    Raises `CorruptModel` for a damaged checkpoint or model, `VersionSkew` for one of another game or network,
    `RunDirectoryError` when another trainer is running, `Unavailable` for a failed write.
    """
    paths = RunPaths(settings.run_dir)
    torch.set_num_threads(settings.train.threads)
    keep_freed_memory()
    checkpoints = paths.replay / "checkpoints"
    kind = learner_class(settings.train.learner)
    games = GameLog.open(paths.replay, writer=True)  # its lock comes before the checkpoint, which another trainer may yet write
    try:
        loaded = load_latest(checkpoints, kind.unpack)
        accounts: Accounts = loaded[0].accounts if loaded else Accounts()
        marks = [Mark(*mark) for mark in accounts.marks]
        store = settings.open_store()
        learner = kind.open(
            game,
            settings,
            first=marks[0].samples if marks else 0,
            device=device or choose_device(settings.device),
            ranks=ranks,
        )
        training = Training(
            game,
            settings,
            store=store,
            replay=Replay.open(games, learner.window, marks, kept_games=settings.keep_games),
            learner=learner,
            accounts=accounts,
            checkpoints=checkpoints,
            progress=progress,
            export=export,
        )
        if _needs_plan(settings) and progress is None and not settings.planned_end_s:
            log.warning(
                "schedule.without_plan", advice="the learning rate stays; start with zerofleet run --for, or set planned_end_s"
            )
        if loaded:
            learner.restore(*loaded)
            # games that were lost, and samples that other settings leave out, must not count against the next candidate
            accounts.candidate_samples = min(accounts.candidate_samples, learner.window.total)
            versions = store.versions(model_name(game))
            if versions and not accounts.candidate_version:  # killed between the first version and its checkpoint
                training.note_candidate(versions[-1])
            elif not versions and not training.warm_starting:
                training.publish(learner.snapshot())
        else:
            _begin(training, game)
    except BaseException:
        games.close()
        raise
    return training


def _needs_plan(settings: TrainerSettings) -> bool:
    """Return whether the learning rate falls over the planned time; `train.schedule` is that of `alphazero` alone."""
    train = settings.train
    if declared(train.learner).of_actions:
        return settings.deep_q.rate_floor < 1.0
    return train.learner == "alphazero" and train.schedule != "constant" and train.schedule_over == "plan"


def _begin(training: Training, game: Game) -> None:
    """Start without a checkpoint: load the newest stored weights, or publish random ones."""
    store, model = training.store, model_name(game)
    versions = store.versions(model)
    if not versions and not training.warm_starting:
        training.publish(training.learner.snapshot())
    elif versions:
        manifest = store.verify(model, versions[-1], game=game)
        weights = stored_weights(store, model, versions[-1])
        training.learner.adopt(manifest.network, weights, name=f"version {versions[-1]} of {model}")
        training.learner.state.step = manifest.train_steps  # of a schedule over steps
        log.warning(
            "training.without_checkpoint",
            version=versions[-1],
            step=manifest.train_steps,
            advice="the optimiser begins anew, and so does a rate that falls over the planned time",
        )
        training.note_candidate(versions[-1])  # it holds all that was learned, so the next one needs new samples
    training.save()
