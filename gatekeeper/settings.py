"""Settings of the gatekeeper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from zerofleet.errors import ConfigurationError, InvalidRequest
from zerofleet.presets import GateSettings, ModelSettings
from zerofleet.presets.agreement import require_openings
from zerofleet.rpc.security.credentials import require_tokens
from zerofleet.search.settings import SearchSettings
from zerofleet.service.settings import StoreSettings
from zerofleet.storage.run_paths import RunPaths

__all__ = ["GatekeeperSettings"]


class GatekeeperSettings(StoreSettings):
    """Gatekeeper: selects the champion among model versions and maintains the rating ladder."""

    SERVICE: ClassVar[str] = "gatekeeper"
    PRESET_PARTS: ClassVar[tuple[str, ...]] = ("gate", "models")

    gate: GateSettings
    """Promotion of candidates."""
    models: ModelSettings
    """Retention in the model store."""
    address: str
    """Listening address: host:port (port 0 selects a free one) or unix:/path; the run directory's socket by default."""
    inference_address: str
    """Address of the inference server: host:port, unix:/path, or dns:///name:port for several replicas; models are loaded on
    all of them."""
    control_address: str = ""
    """Address for loading models, if different: a name that lists replicas before they are ready, or the unix sockets of
    several servers, unix:/a,unix:/b. The inference address by default."""
    replica_absence_s: float = Field(default=30.0, ge=0.0)
    """Seconds for which an unreachable replica holds up promotions; after that it is passed over."""
    state_dir: Path
    """Directory for match results and ladder; the run directory's `gatekeeper` by default."""
    token: SecretStr | None = None
    """Operator's token that the inference server requires to load and unload models."""
    tokens: Annotated[SecretStr | None, AfterValidator(require_tokens)] = None
    """Lines `role: token` with the roles worker, trainer, evaluator and operator. With them every call but health checks
    requires a token of a role allowed to make it; best given as a file."""

    match_slots: int = Field(default=64, ge=1)
    """Number of concurrent games at the start of a gate match, which decide it when the difference is clear; games in progress
    are lost then. A close match goes on with up to four times as many. They overtake self-play at the inference server."""
    watch_slots: int = Field(default=16, ge=1)
    """Number of concurrent games of a measurement in mode `watch`: few, since its share of evaluations sets the pace, and games
    in progress are lost when the test decides."""
    ladder_slots: int = Field(default=16, ge=1)
    """Number of concurrent games of the ladder."""
    ladder_time_share: float = Field(default=0.2, gt=0.0, le=1.0)
    """Share of the time in which the ladder plays; it pauses otherwise and, after a champion's first games against every rung,
    whenever a gate match is due."""
    ladder_delay_s: float = Field(default=30.0, ge=0.0)
    """Seconds from start until the ladder first plays: at the start of a run other work needs the cores."""
    cache_positions: int = Field(default=1 << 14, ge=0)
    """Capacity of a match's evaluation cache, in positions: games of a pair share many of them."""
    seed: int = Field(default=0, ge=0)
    """Seed of openings and agents."""
    recheck_s: float = Field(default=10.0, gt=0.0)
    """Seconds between checks that the inference server still has the champion; it may have been restarted."""
    max_connections: int = Field(default=4_096, ge=2)
    """Maximum number of network connections for gRPC. One address may hold as many as are free: half, if it is alone. Calls
    over further ones are rejected as overload, and the connections are closed."""
    max_watchers: int = Field(default=4_096, ge=1)
    """Maximum number of watchers of the champion; further ones are rejected as overload. One network address may have as many
    as are free: half, if it is alone."""
    max_concurrent_calls: int = Field(default=1_024, ge=1)
    """Maximum number of calls in progress, except watchers and health checks; shared and rejected as watchers are."""
    reflection: Literal["auto", "on", "off"] = "auto"
    """Description of the services to tools such as grpcurl: auto while `address` is a unix socket or a loopback address, on, or
    off. Where tokens are set it requires one of any role."""
    by_hand_only: bool = False
    """Carry out promotions and rollbacks by hand alone: candidates wait, no ladder is played and no version is deleted."""

    def lease_directory(self, model: str) -> Path:
        """Return the directory of the lease: beside the models, or in `state_dir` when they are in an object store.

        Gatekeepers with an object store and separate volumes do not share the lease; there the pointer's conditional write
        ensures that only one of them promotes.
        """
        return self.model_store / model if isinstance(self.model_store, Path) else self.state_dir / "lease" / model

    @model_validator(mode="after")
    def _search_suits_the_game(self) -> Self:
        spec = self.build_game().spec()
        try:
            self.gate.search_options.applied(SearchSettings.for_match(spec, self.gate.simulations), spec)
        except InvalidRequest as error:
            raise ValueError(f"gate.search: {error}") from error
        return self

    @model_validator(mode="after")
    def _openings_leave_a_game(self) -> Self:
        try:
            require_openings(self.gate, self.build_game())
        except ConfigurationError as error:
            raise ValueError(str(error)) from error
        return self

    @model_validator(mode="before")
    @classmethod
    def _live_in_the_run_directory(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        paths = RunPaths(Path(values.get("run_dir", "run")))
        filled = {"address": paths.gatekeeper_address, "state_dir": paths.gatekeeper}
        return {**filled, **{name: value for name, value in values.items() if value or name not in filled}}
