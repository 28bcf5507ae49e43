"""Settings of the gatekeeper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, SecretStr, model_validator

from zerofleet.presets import GateSettings, ModelSettings
from zerofleet.rpc.security.credentials import require_tokens
from zerofleet.service.settings import StoreSettings
from zerofleet.storage.run_paths import RunPaths

__all__ = ["GatekeeperSettings"]


class GatekeeperSettings(StoreSettings):
    """Decides which model version is the champion, and keeps the rating ladder."""

    SERVICE: ClassVar[str] = "gatekeeper"
    PRESET_PARTS: ClassVar[tuple[str, ...]] = ("gate", "models")

    gate: GateSettings
    """How a candidate becomes champion."""
    models: ModelSettings
    """Which versions stay in the model store."""
    address: str
    """Where to listen: host:port (port 0 takes a free one) or unix:/path; the run directory's socket by default."""
    inference_address: str
    """Where networks are evaluated and loaded: host:port, unix:/path, or a name that several replicas share,
    dns:///name:port; models are loaded at every one of them."""
    control_address: str = ""
    """Where models are loaded, when that is another name: one that lists replicas also before they are ready. The inference
    address by default."""
    replica_absence_s: float = Field(default=30.0, ge=0.0)
    """Seconds for which a replica that does not answer holds promotions up; after that it is passed over."""
    state_dir: Path
    """Directory for match results and ladder; the run directory's `gatekeeper` by default."""
    token: SecretStr | None = None
    """Secret the inference server asks for before it loads or unloads models: an operator's."""
    tokens: Annotated[SecretStr | None, AfterValidator(require_tokens)] = None
    """Lines `role: token` with the roles worker, trainer, evaluator and operator. With them every call but health checks asks
    for a token whose role may make it; best given as a file."""

    match_slots: int = Field(default=64, ge=1)
    """Games of a gate match at once. More fill larger requests, but are lost when the test decides early. The inference
    server shares its time by open positions, so this over the games of all
    workers is about the share of it that a match takes."""
    ladder_slots: int = Field(default=16, ge=1)
    """Games of the ladder at once."""
    ladder_time_share: float = Field(default=0.2, gt=0.0, le=1.0)
    """Share of the time in which the ladder plays; it rests otherwise, and whenever a gate match is due."""
    ladder_delay_s: float = Field(default=30.0, ge=0.0)
    """Seconds from start until the ladder first plays: at the start of a run the cores have better things to do."""
    cache_positions: int = Field(default=1 << 14, ge=0)
    """Evaluations a match remembers: games of a pair share many positions."""
    seed: int = Field(default=0, ge=0)
    """Decides openings and the agents' luck."""
    recheck_s: float = Field(default=10.0, gt=0.0)
    """Seconds between looks whether the inference server still has the champion; it may have been restarted."""
    max_watchers: int = Field(default=4_096, ge=1)
    """Calls in progress at most, watchers of the champion included; further ones are refused as overload."""
    reflection: bool = False
    """Describe the service to tools such as grpcurl."""
    by_hand_only: bool = False
    """Carry out promotions and rollbacks by hand alone: candidates wait, no ladder is played and no version is deleted."""

    def lease_directory(self, model: str) -> Path:
        """Return where the lease lies: beside the models, or with this service's own files when those are far away.

        Gatekeepers with an object store and a volume each do not share the lease; the pointer's conditional write is what
        lets one of them promote.
        """
        return self.model_store / model if isinstance(self.model_store, Path) else self.state_dir / "lease" / model

    @model_validator(mode="before")
    @classmethod
    def _live_in_the_run_directory(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        paths = RunPaths(Path(values.get("run_dir", "run")))
        filled = {"address": paths.gatekeeper_address, "state_dir": paths.gatekeeper}
        return {**filled, **{name: value for name, value in values.items() if value or name not in filled}}
