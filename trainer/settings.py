"""Settings of the trainer."""

from __future__ import annotations

import os
import socket
from typing import ClassVar, Literal

from pydantic import Field, SecretStr

from trainer.export import TritonBackend
from zerofleet.presets import NetworkSettings, TrainSettings
from zerofleet.presets.warm_start import WarmStartSettings
from zerofleet.service.settings import StoreSettings

__all__ = ["TrainerSettings"]


class TrainerSettings(StoreSettings):
    """The process that stores finished games, trains on them and publishes candidates."""

    SERVICE: ClassVar[str] = "trainer"
    PRESET_PARTS: ClassVar[tuple[str, ...]] = ("network", "train", "warm_start")

    network: NetworkSettings
    """Size of the network; a run keeps the one it began with."""
    train: TrainSettings
    """The learner: steps, window, reuse, candidates."""
    warm_start: WarmStartSettings
    """Games of agents from which the first version is trained; the same as the workers', or it waits for ever."""

    gatekeeper_address: str
    """Who decides on candidates: host:port or unix:/path."""
    token: SecretStr | None = None
    """Secret with which this service shows its role to the others, where they ask for one."""
    stream_url: str
    """Where finished games come from: sqlite:///path, redis://host or rediss://host."""
    stream_name: str = "games"
    """Name of the stream, so that several runs can share a server."""
    consumer: str = Field(default="", pattern=r"^[A-Za-z0-9._:/@-]{0,128}$")
    """Name of this consumer in the stream; stable across restarts where host names are. Empty takes the host name."""

    seed: int = Field(default=0, ge=0)
    """Of the first network's weights and of every batch."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the network is trained; auto takes a GPU where there is one."""
    rank_timeout_s: float = Field(default=120.0, gt=0)
    """With torchrun: seconds after which a process of the trainer that neither answers nor ends is given up, and all end. It
    covers the start as well, and the compilation of the first step."""
    intake_games: int = Field(default=64, ge=1)
    """Games taken from the stream, stored and acknowledged at once."""
    intake_wait_s: float = Field(default=1.0, gt=0, le=2.0)
    """Longest wait for games in one request to the stream."""
    worker_share_max: float = Field(default=1.0, gt=0, le=1)
    """Largest share of the last 1,000 games that one worker may have where there are several; further ones are refused. 1 sets
    no bound."""
    suspect_workers: Literal["report", "quarantine"] = "report"
    """What becomes of a worker whose games differ grossly from the other workers' in length, outcome or opening: it is named in
    the log and counted, or its games are refused as well until they no longer do."""
    checkpoint_every_s: float = Field(default=60.0, gt=0)
    """Seconds between checkpoints; one is written with each candidate and at the end in any case."""
    report_every_s: float = Field(default=5.0, gt=0)
    """Seconds between two lines of history."""
    triton_backend: TritonBackend = "python"
    """What `config.pbtxt` names: Triton's Python backend with the generated model.py, or its libtorch backend."""
    max_batch: int = Field(default=1024, ge=1)
    """Largest batch that `config.pbtxt` allows."""
    tensorboard: bool = False
    """Also write TensorBoard events; needs the extra `tensorboard`."""
    wandb_project: str = ""
    """Also log to this project of Weights & Biases; needs the extra `wandb`."""

    @property
    def consumer_name(self) -> str:
        """Name of this consumer in the stream."""
        return self.consumer or f"trainer-{socket.gethostname()}-{os.getuid()}"
