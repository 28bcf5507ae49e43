"""Settings of the trainer."""

from __future__ import annotations

import os
import socket
from typing import Any, ClassVar, Literal, Self, TypeVar

import structlog
from pydantic import BaseModel, Field, NonNegativeInt, SecretStr, create_model, model_validator

from zerofleet.errors import ConfigurationError
from zerofleet.presets import NetworkSettings, TrainSettings
from zerofleet.presets.combined import CombinedSettings
from zerofleet.presets.deep_q import DeepQSettings
from zerofleet.presets.learners import LEARNERS, declared, offered
from zerofleet.presets.outcome import OutcomeSettings
from zerofleet.presets.sarsa_lambda import SarsaLambdaSettings
from zerofleet.presets.td_lambda import TdLambdaSettings
from zerofleet.presets.warm_start import WarmStartSettings
from zerofleet.service.settings import StoreSettings

__all__ = ["TrainerSettings", "TritonBackend", "settings_class"]

TritonBackend = Literal["python", "pytorch_libtorch"]

Own = TypeVar("Own", bound=BaseModel)

log = structlog.get_logger()


class TrainerSettings(StoreSettings):
    """Settings of the process that stores finished games, trains on them and publishes candidates."""

    SERVICE: ClassVar[str] = "trainer"
    PRESET_PARTS: ClassVar[tuple[str, ...]] = (
        "network",
        "train",
        "td_lambda",
        "sarsa_lambda",
        "deep_q",
        "outcome",
        "combined",
        "warm_start",
    )

    network: NetworkSettings
    """Architecture of the network; fixed for a run."""
    train: TrainSettings
    """Learner: steps, window, reuse, candidates."""
    td_lambda: TdLambdaSettings
    """Learner `td_lambda`, where `train.learner` names it."""
    sarsa_lambda: SarsaLambdaSettings
    """Learner `sarsa_lambda`, where `train.learner` names it."""
    deep_q: DeepQSettings
    """Learners `dqn` and `deep_sarsa`, where `train.learner` names one of them."""
    outcome: OutcomeSettings
    """Learner `outcome`, where `train.learner` names it."""
    combined: CombinedSettings
    """Pool of the learner `combined`, where `train.learner` names it."""
    warm_start: WarmStartSettings
    """Games of agents from which the first version is trained; must equal the workers', or training never begins."""

    gatekeeper_address: str
    """Address of the gatekeeper, which decides on candidates: host:port or unix:/path."""
    token: SecretStr | None = None
    """Secret that proves this service's role to servers that require tokens."""
    stream_url: str
    """Stream of finished games: sqlite:///path, redis://host or rediss://host."""
    stream_name: str = "games"
    """Name of the stream, so that several runs can share a server."""
    consumer: str = Field(default="", pattern=r"^[A-Za-z0-9._:/@-]{0,128}$")
    """Name of this consumer in the stream, stable across restarts; by default made from the host name."""

    seed: int = Field(default=0, ge=0)
    """Seed of the first network's weights and of every batch."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of training: auto (a GPU if there is one), cpu, or cuda."""
    planned_end_s: float = Field(default=0.0, ge=0)
    """Planned end of the run, seconds since 1970, for `train.schedule_over=plan`; 0: none. `zerofleet run --for` sets it."""
    rank_timeout_s: float = Field(default=120.0, gt=0)
    """With torchrun: seconds after which an unresponsive rank is given up and all ranks end. Includes the start and the
    compilation of the first step."""
    intake_games: int = Field(default=64, ge=1)
    """Games taken from the stream, stored and acknowledged together."""
    intake_processes: Literal["auto"] | NonNegativeInt = "auto"
    """Processes that read the games taken from the stream; 0: a thread of the trainer does, which then competes with the
    learner for the interpreter. auto: 2 where a GPU trains, 0 on a CPU. Learners other than `alphazero` read in a thread."""
    intake_wait_s: float = Field(default=1.0, gt=0, le=2.0)
    """Longest wait for games in one request to the stream."""
    max_waiting: int = Field(default=200_000, ge=1)
    """Samples that may wait for a learner that takes each game in order. Beyond it no games are taken from the stream until
    half of them wait; the stream then fills and workers pause, so a slow learner loses no games and its memory is bounded. A
    batch of the intake may exceed it."""
    worker_share_max: float = Field(default=1.0, gt=0, le=1)
    """Largest share of the last 1,000 games for one worker of several; its further games are refused while another worker has
    sent a game within ten minutes. 1 sets no bound."""
    suspect_workers: Literal["report", "quarantine"] = "report"
    """Treatment of a worker whose games differ grossly from the other workers' in length, outcome or opening: it is logged and
    counted, or its games are also refused until they no longer differ."""
    keep_games: int = Field(default=0, ge=0)
    """Newest games that stay on disk, for the browser, replay and export; older ones are deleted, in files of 64 MiB, once
    neither the window nor a checkpoint needs them. 0 keeps every game."""
    checkpoint_every_s: float = Field(default=60.0, gt=0)
    """Seconds between checkpoints; one is also written with each candidate and at shutdown."""
    report_every_s: float = Field(default=5.0, gt=0)
    """Seconds between two rows of history."""
    triton_backend: TritonBackend = "python"
    """Backend in `config.pbtxt`: Triton's Python backend with the generated model.py, or its libtorch backend."""
    max_batch: int = Field(default=1024, ge=1)
    """Largest batch allowed by `config.pbtxt`."""
    tensorboard: bool = False
    """Also write TensorBoard events, with the run's figures of self-play, gate and ratings; needs the extra `tensorboard`."""
    wandb_project: str = ""
    """Also log to this project of Weights & Biases, with the same figures and the settings; needs the extra `wandb`. A resumed
    run goes on as the same run, by the id in `metrics/wandb_id`."""

    @property
    def consumer_name(self) -> str:
        """Name of this consumer in the stream."""
        return self.consumer or f"trainer-{socket.gethostname()}-{os.getuid()}"

    @model_validator(mode="after")
    def _has_its_learner(self) -> Self:
        """Raise `ConfigurationError` for an unknown learner, and for one of another package without its settings."""
        learner = self.train.learner
        own = declared(learner).settings
        if learner not in LEARNERS and own is not None and not isinstance(getattr(self, learner, None), own):
            raise ConfigurationError(
                f"train.learner={learner} has settings of its own, {own.__name__}, and these settings of the trainer lack that "
                "group; make them with trainer.settings.settings_class, under a name that is no setting of the trainer"
            )
        return self

    def of_learner(self, kind: type[Own]) -> Own:
        """Return the settings of the run's learner, of class `kind`. Raises `ConfigurationError` if it has others."""
        found = getattr(self, self.train.learner, None)
        if not isinstance(found, kind):
            raise ConfigurationError(f"train.learner={self.train.learner} has no settings of class {kind.__name__}")
        return found


def settings_class() -> type[TrainerSettings]:
    """Return `TrainerSettings` with a group for each learner that an installed package offers with settings of its own.

    A broken package is logged and left out; `train.learner` cannot name it.
    """
    groups: dict[str, Any] = {}
    for name in sorted(offered().keys() - TrainerSettings.model_fields.keys()):
        try:
            own = declared(name).settings
        except ConfigurationError as error:
            log.warning("learner.broken", learner=name, error=str(error))
            continue
        if own is not None:
            groups[name] = (own, Field(default_factory=own, description=f"Settings of the learner `{name}`."))
    if not groups:
        return TrainerSettings
    return create_model("TrainerSettings", __base__=TrainerSettings, __module__=__name__, **groups)
