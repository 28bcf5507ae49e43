"""Settings of a self-play worker."""

from __future__ import annotations

import os
import socket
from typing import ClassVar, Literal

from pydantic import Field, SecretStr

from zerofleet.presets import SelfPlaySettings
from zerofleet.presets.warm_start import WarmStartSettings
from zerofleet.search import SearchSettings
from zerofleet.service.settings import ServiceSettings

__all__ = ["WorkerSettings"]


class WorkerSettings(ServiceSettings):
    """A process that plays games of the champion against itself and publishes them."""

    SERVICE: ClassVar[str] = "selfplay_worker"
    PRESET_PARTS: ClassVar[tuple[str, ...]] = ("search", "selfplay", "warm_start")

    search: SearchSettings
    """How moves are searched. `resign_threshold` above -1 lets players resign: the threshold is then calibrated, and is
    the given one at the highest."""
    selfplay: SelfPlaySettings
    """Lanes, games and what happens to a running game when the champion changes."""
    warm_start: WarmStartSettings
    """Games of agents that are played while there is no champion yet."""

    inference_address: str
    """Where networks are evaluated: host:port, dns:///name:port or unix:/path."""
    gatekeeper_address: str
    """Who says which version is champion: host:port or unix:/path."""
    token: SecretStr | None = None
    """Secret with which this service shows its role to the others, where they ask for one."""
    stream_url: str
    """Where finished games go: sqlite:///path, redis://host or rediss://host."""
    stream_name: str = "games"
    """Name of the stream, so that several runs can share a server."""

    worker_id: str = Field(default="", pattern=r"^[A-Za-z0-9._:/@-]{0,128}$")
    """Name of this worker in its records; empty takes host name and process id."""
    run_seed: int = Field(default=0, ge=0)
    """From it, the worker's name, its incarnation and a counter follows the seed of each game."""
    incarnation: int = Field(default=0, ge=0)
    """Distinguishes this process from earlier ones of the same worker; 0 draws one at random."""

    publish_queue_games: int = Field(default=64, ge=1)
    """Finished games that may wait for the stream; when there are more, lanes pause."""
    drain: Literal["abandon", "finish"] = "abandon"
    """What SIGTERM does to running games: `finish` plays them out for at most half the grace time first."""
    evaluation_timeout_s: float = Field(default=15.0, gt=0)
    """Seconds one evaluation request may take before it is sent again."""
    resign_window_games: int = Field(default=1_000, ge=1)
    """Control games from which the resignation threshold is calibrated, the latest by start."""
    resign_min_games: int = Field(default=40, ge=1)
    """Control games in which somebody would have resigned, before anybody may."""

    @property
    def name(self) -> str:
        """Name of this worker in its records."""
        return self.worker_id or f"{socket.gethostname()}-{os.getpid()}"
