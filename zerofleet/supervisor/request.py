"""Request of `zerofleet run`, validated before anything starts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from games.core import Game
from zerofleet.contracts.set_options import set_options
from zerofleet.errors import ConfigurationError
from zerofleet.presets import Preset
from zerofleet.presets.devices import check_devices
from zerofleet.presets.experiment import SERVICES, Experiment, settings_in_environment
from zerofleet.presets.secret_settings import is_secret, require_secrets, secrets_in_environment
from zerofleet.service.settings import ENVIRONMENT_PREFIX
from zerofleet.storage.run_paths import RunPaths
from zerofleet.storage.runs import check_seed

__all__ = ["RunRequest", "parse_duration", "split_settings"]

_DEVICE = "inference_server.device"
_NEVER_SHARED = ("inference_server.announce",)
_BY_RUN_DIRECTORY = ("inference_server.address", "gatekeeper.address")
_METRICS_HOSTS = ("127.0.0.1", "0.0.0.0")  # noqa: S104 - the latter has the former too
_OF_ONE_SERVER = (*_NEVER_SHARED, "inference_server.http_address", "inference_server.metrics_port")  # unless a free port
_UNITS_S = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
_DURATION = re.compile(
    r"(?:(?P<d>\d+(?:\.\d+)?)d)?(?:(?P<h>\d+(?:\.\d+)?)h)?(?:(?P<m>\d+(?:\.\d+)?)m)?(?:(?P<s>\d+(?:\.\d+)?)s)?"
)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Arguments of `zerofleet run`."""

    game: str
    run_dir: Path
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Game parameters, including those of the experiment file."""
    preset: str = "laptop"
    duration_s: float | None = None
    """None: until Ctrl-C."""
    workers: int = 1
    seed: int | None = None
    """Seed of a new run; an existing run keeps its own."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Settings by dotted name: a part of the preset (`search.simulations`) or a service (`trainer.log_level`)."""
    config: Path | None = None
    """Experiment file."""
    configured: Mapping[str, str] = field(default_factory=dict)
    """Settings of the experiment file or of the run to resume, by dotted name; `overrides` take precedence."""
    secrets: tuple[str, ...] = ()
    """Names of the secret settings of the experiment file or of the run to resume."""
    devices: tuple[str, ...] = ()
    """Devices of inference, with one server each; empty: one server, with the device of its settings."""
    has_pages: bool = False
    """Whether the web application runs beside the services."""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ConfigurationError(f"--workers {self.workers}: a run needs at least 1")
        if self.seed is not None:
            check_seed(self.seed)
        if self.devices:
            self._check_devices()
        self._check_addresses()

    def _check_devices(self) -> None:
        check_devices(self.devices)
        spelled = ",".join(self.devices)
        if (device := self.overrides.get(_DEVICE)) is not None:
            raise ConfigurationError(f"--set {_DEVICE}={device}: the devices of this run are {spelled}; use --devices")
        if len(self.devices) == 1:
            return
        if self.workers < len(self.devices):
            raise ConfigurationError(
                f"--workers {self.workers}: devices {spelled} are {len(self.devices)} servers, and each worker uses one; "
                f"want at least {len(self.devices)}"
            )
        for name in _OF_ONE_SERVER:
            value = self._settings.get(name, "")
            is_free_port = name not in _NEVER_SHARED and f":{value}".endswith(":0")
            if value and not is_free_port:
                raise ConfigurationError(
                    f"{name}={value}: devices {spelled} are {len(self.devices)} servers, which cannot share it; omit it, or "
                    "give one device"
                )

    def _check_addresses(self) -> None:
        for name in _BY_RUN_DIRECTORY:
            if value := self._settings.get(name):
                raise ConfigurationError(
                    f"{name}={value}: the other services of a run look for this one at its socket in the run directory; omit it"
                )
        for name, value in self._settings.items():
            service, _, own = name.partition(".")
            if service in SERVICES and own.replace("-", "_") == "metrics_host" and value not in _METRICS_HOSTS:
                raise ConfigurationError(
                    f"{name}={value}: a run reads the metrics of its services at 127.0.0.1; want {' or '.join(_METRICS_HOSTS)}"
                )

    @property
    def _settings(self) -> dict[str, str]:
        return {**self.configured, **self.overrides}

    @property
    def experiment(self) -> Experiment:
        """Configuration of the run."""
        settings = self._settings
        if self.devices:
            settings.pop(_DEVICE, None)  # of the file; the devices replace it
        return Experiment(self.game, self.preset, self.seed, self.parameters, settings, self.secrets, self.devices)

    def with_environment(self, variables: Mapping[str, str]) -> Self:
        """Return the request with the settings of the preset's parts in the environment, which the experiment file overrides.

        So the experiment of a new run has them, and a resumed run too. It has the names of secret settings as well. Raises
        `ConfigurationError` if a secret setting of the experiment is missing.
        """
        source = self.config or RunPaths(self.run_dir).experiment
        require_secrets(self.secrets, self.experiment.settings, variables, prefix=ENVIRONMENT_PREFIX, source=source)
        return replace(
            self,
            configured={**settings_in_environment(variables, ENVIRONMENT_PREFIX), **self.configured},
            secrets=tuple(sorted({*self.secrets, *secrets_in_environment(variables, ENVIRONMENT_PREFIX)})),
        )

    def build_game(self) -> Game:
        """Return the game; raises `GameError`."""
        return self.experiment.build_game()

    def build_preset(self) -> Preset:
        """Return the preset with the settings of its parts; raises `ConfigurationError` naming the wrong one."""
        chosen = self.experiment.build_preset()
        if chosen.selfplay.sync and self.workers != 1:
            raise ConfigurationError(f"--workers {self.workers}: selfplay.sync=true is for one worker; want 1")
        return chosen

    def settings_of(self, service: str) -> dict[str, str]:
        """Return the settings of one service as text, by name without the service."""
        found = ((name.partition("."), value) for name, value in self.experiment.settings.items())
        return {name: value for (owner, _, name), value in found if owner == service}

    def command(self, *, with_duration: bool = True) -> str:
        """Return the equivalent command line, apart from secret settings."""
        words = ["zerofleet", "run", self.game, "--preset", self.preset]
        if self.config is not None:
            words += ["--config", str(self.config)]
        shown = {name: value for name, value in self.overrides.items() if not is_secret(name, value)}
        words += [*set_options({**self.parameters, **shown}), "--run-dir", str(self.run_dir)]
        if self.workers != 1:
            words += ["--workers", str(self.workers)]
        if self.devices:
            words += ["--devices", ",".join(self.devices)]
        if with_duration and self.duration_s is not None:
            words += ["--for", f"{self.duration_s:g}s"]
        if self.has_pages:
            words.append("--ui")
        return shlex.join(words)

    def look_command(self) -> str:
        """Return the command line that shows the run in a browser, while it goes on and after it has ended."""
        return shlex.join(["zerofleet", "ui", "--run-dir", str(self.run_dir)])


def parse_duration(text: str) -> float:
    """Return the seconds of `90s`, `30m`, `1h30m` or `2d`; raises `ConfigurationError` for anything else."""
    found = _DURATION.fullmatch(text.strip())
    parts = {unit: float(amount) for unit, amount in found.groupdict().items() if amount} if found else {}
    seconds = sum(amount * _UNITS_S[unit] for unit, amount in parts.items())
    if not parts:
        raise ConfigurationError(f"--for {text!r} is not a duration; write it as 90s, 30m, 1h30m or 2d")
    if seconds <= 0:
        raise ConfigurationError(f"--for {text!r} is out of range; want more than 0")
    return seconds


def split_settings(items: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split `NAME=VALUE` items into game parameters (`rows=4`) and settings (`search.simulations=50`).

    Raises `ConfigurationError` for an item without name or value, an empty part of a name, and a duplicate.
    """
    parameters: dict[str, str] = {}
    overrides: dict[str, str] = {}
    for item in items:
        name, equals, value = (part.strip() for part in item.partition("="))
        if not (name and equals and value):
            raise ConfigurationError(f"--set {item!r} is not NAME=VALUE, such as rows=4 or search.simulations=50")
        if not all(part.strip() for part in name.split(".")):
            raise ConfigurationError(f"--set: the name {name!r} has an empty part; want GROUP.KEY, such as trainer.log_level")
        group = overrides if "." in name else parameters
        if name in group:
            raise ConfigurationError(f"--set {name} is given twice")
        group[name] = value
    return parameters, overrides
