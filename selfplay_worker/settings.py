"""Settings of a self-play worker."""

from __future__ import annotations

import os
import socket
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, SecretStr

from zerofleet.evaluators.transports import Transport
from zerofleet.presets import SelfPlaySettings
from zerofleet.presets.warm_start import WarmStartSettings
from zerofleet.rpc.security.credentials import require_secret
from zerofleet.search import SearchSettings
from zerofleet.search.afterstates.settings import AfterstateSettings
from zerofleet.service.settings import StoreSettings

__all__ = ["WorkerSettings"]


class WorkerSettings(StoreSettings):
    """Self-play worker: plays the champion against itself and publishes the games."""

    SERVICE: ClassVar[str] = "selfplay_worker"
    PRESET_PARTS: ClassVar[tuple[str, ...]] = ("search", "selfplay", "afterstates", "warm_start")

    search: SearchSettings
    """Search of moves. A `resign_threshold` above -1 enables resignation: the threshold is then calibrated, and the given
    one is its upper bound."""
    selfplay: SelfPlaySettings
    """Lanes, games and the treatment of running games when the champion changes."""
    afterstates: AfterstateSettings
    """Choice of moves where `selfplay.mode` is `afterstates` or `action_values`. With `afterstates.evaluation=process` the
    worker reads the champion's weights from the model store."""
    warm_start: WarmStartSettings
    """Games of agents played before the first champion."""

    inference_address: str
    """Address of the inference server: host:port, dns:///name:port or unix:/path."""
    transport: Transport = "auto"
    """Transport of positions: auto, which is shared memory where Zerofleet's inference server offers it to this host, at a unix
    socket, and gRPC otherwise; grpc; or shared_memory. The log names the one in use."""
    gatekeeper_address: str
    """Address of the gatekeeper, which decides on candidates: host:port or unix:/path."""
    token: SecretStr | None = None
    """Token of this service's role, for services that require one."""
    games_token: Annotated[SecretStr | None, AfterValidator(require_secret)] = None
    """Secret that a request for games in progress shows as `Authorization: Bearer`, at least 16 characters; the web application
    has the same setting. Without it such requests are answered only where `metrics_host` is loopback."""
    stream_url: str
    """Stream of finished games: sqlite:///path, redis://host or rediss://host."""
    stream_name: str = "games"
    """Name of the stream, so that several runs can share a server."""

    worker_id: str = Field(default="", pattern=r"^[A-Za-z0-9._:/@-]{0,128}$")
    """Name of this worker in its records; host name and process id when empty."""
    run_seed: int = Field(default=0, ge=0)
    """Seed of the run; with the worker's name, its incarnation and a counter it determines the seed of each game."""
    incarnation: int = Field(default=0, ge=0)
    """Distinguishes this process from earlier ones of the same worker; 0 draws one at random."""

    publish_queue_games: int = Field(default=64, ge=1)
    """Number of finished games waiting for the stream at which lanes pause."""
    drain: Literal["abandon", "finish"] = "abandon"
    """Treatment of running games on SIGTERM: `finish` first plays them on for at most half the grace time."""
    evaluation_timeout_s: float = Field(default=15.0, gt=0)
    """Seconds after which an unanswered evaluation request is sent again."""
    resign_window_games: int = Field(default=1_000, ge=1)
    """Number of control games, the latest by start, on which the resignation threshold is calibrated."""
    resign_min_games: int = Field(default=40, ge=1)
    """Number of control games with a would-be resignation required before players may resign."""

    @property
    def name(self) -> str:
        """Name of this worker in its records."""
        return self.worker_id or f"{socket.gethostname()}-{os.getpid()}"
