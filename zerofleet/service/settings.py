"""Settings: one frozen object per service, with the source of each value.

A value is taken from the first of these sources that sets it:

    command line         --search.simulations 200        (or --search.simulations=200)
    secret file          ZEROFLEET_TOKEN_FILE=/run/secrets/token
    environment          ZEROFLEET_SEARCH__SIMULATIONS=200
    preset               parts listed in the service's `PRESET_PARTS`
    run directory        paths and addresses derived from `run_dir`
    default

`--print-config` shows every effective value with its source; secrets and passwords in addresses are masked. No other code
reads the environment.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

import games
from games.core import Game
from games.errors import GameError
from zerofleet.errors import ConfigurationError, ZerofleetError
from zerofleet.presets import preset
from zerofleet.presets.descriptions import description
from zerofleet.presets.secret_settings import ADDRESS_PASSWORD
from zerofleet.presets.tables import deep_merge
from zerofleet.rpc.security.credentials import require_secret
from zerofleet.rpc.security.tls import Tls
from zerofleet.service.settings_sources import from_arguments, from_environment, leaf_names, secret_files, wants
from zerofleet.storage.model_store import ModelStore, open_model_store
from zerofleet.storage.model_store.cache import DEFAULT_CACHE_BYTES
from zerofleet.storage.model_store.location import StoreSetting
from zerofleet.storage.run_paths import RunPaths

__all__ = [
    "ENVIRONMENT_PREFIX",
    "LogFormat",
    "ServiceSettings",
    "StoreSettings",
    "describe",
    "inherited_environment",
    "load_settings",
    "open_run_store",
    "read_settings",
]

ENVIRONMENT_PREFIX = "ZEROFLEET_"

LogFormat = Literal["auto", "json", "console"]
_MASKED = r"\1********\2"

Settings = TypeVar("Settings", bound="ServiceSettings")
Tree = dict[str, Any]


def _none_if_empty(value: Any) -> Any:
    return None if value == "" else value  # an empty variable counts as unset


class ServiceSettings(BaseSettings):
    """Settings of every service. The constructor does not read the environment; `load_settings` does."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        validate_default=False,
    )

    SERVICE: ClassVar[str] = "service"
    """Name of the service in logs, announce files and metrics."""
    PRESET_PARTS: ClassVar[tuple[str, ...]] = ()
    """Fields with values from the preset's part of the same name."""

    run_dir: Path = Path("run")
    """Directory of the run: models, games, sockets, logs; services on one machine share it."""
    game: str = "connect_four"
    """Name of the game."""
    game_parameters: dict[str, str] = Field(default_factory=dict)
    """Parameters of the game that differ from their defaults, such as `--game-parameters.columns 25`."""
    preset: str = "laptop"
    """Preset: tiny, laptop or gpu."""
    metrics_host: str = "127.0.0.1"
    """Address on which /metrics, /livez and /readyz listen; a container sets 0.0.0.0."""
    metrics_port: int = Field(default=0, ge=0, le=65535)
    """Port of /metrics, /livez and /readyz; 0 selects a free one, published in the announce file."""
    metrics_token: Annotated[SecretStr | None, AfterValidator(require_secret)] = None
    """Secret that /metrics requires as `Authorization: Bearer`, at least 16 characters; without it the page is open to every
    client of the port. The probes are always open."""
    announce: Annotated[Path | None, BeforeValidator(_none_if_empty)] = None
    """File that this service writes when it is ready: JSON with pid, address and metrics_port."""
    tls_ca: Annotated[Path | None, BeforeValidator(_none_if_empty)] = None
    """Certificates (PEM) of the trusted authorities. If set, network connections are encrypted and servers require client
    certificates."""
    tls_identity: Annotated[Path | None, BeforeValidator(_none_if_empty)] = None
    """Certificate of this service: a directory with tls.crt and tls.key, or a certificate (PEM) with its key beside it as
    .key. A server with it uses TLS. Unix sockets are always plain."""
    grace_s: float = Field(default=20.0, gt=0)
    """Seconds from SIGTERM until remaining work is abandoned; the platform's own limit must be longer."""
    parent_pid: int = Field(default=0, ge=0)
    """Process whose exit stops this one, as SIGTERM does; 0 for none. Set by `zerofleet run`."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum level of logged events."""
    log_format: LogFormat = "auto"
    """Log format: json for machines, console for people, auto: console on a terminal and json elsewhere."""
    trace_sample: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of games for which workers start traces; needs the extra `traces`. In the other services any value above 0
    continues those traces, and 0 records nothing. The OTEL_* variables set the collector."""

    @classmethod
    def settings_customise_sources(cls, settings_cls: type[BaseSettings], *_: Any, **sources: Any) -> tuple[Any, ...]:
        """Use only the constructor's arguments: `read_settings` merges the layers and tracks their sources."""
        return (sources["init_settings"],)

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset_and_run_directory(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return deep_merge(_derived(cls, values), _preset_parts(cls, values), values)

    @property
    def tls(self) -> Tls:
        """TLS settings of this service."""
        return Tls(self.tls_ca, self.tls_identity)

    def build_game(self) -> Game:
        """Return the game; raises `GameError` naming the known ones."""
        return games.core.make(self.game, **self.game_parameters)


class StoreSettings(ServiceSettings):
    """Additional settings of services that use the model store."""

    model_store: StoreSetting
    """Directory of the models, or s3://bucket/prefix in an object store configured by the AWS_ variables, with a
    prefix of its own for each run: two runs of a game with one prefix mix. Models are executable code: grant write access only
    to trainer and gatekeeper."""
    model_cache: Path
    """Directory for local copies of models in an object store."""
    model_cache_bytes: int = Field(default=DEFAULT_CACHE_BYTES, ge=1)
    """Total size of local copies above which the least recently used are removed."""

    def open_store(self) -> ModelStore:
        """Return the model store; see `open_model_store`."""
        return open_model_store(self.model_store, cache=self.model_cache, cache_bytes=self.model_cache_bytes)


def load_settings(cls: type[Settings], arguments: Sequence[str]) -> Settings:
    """Return the settings of a service process; like `argparse`, help and errors end the process.

    `--help` and `--print-config` print and exit with 0; an error prints one line and exits with 2.
    """
    try:
        if wants(arguments, "--help", "-h"):
            sys.stdout.write(_help(cls))
            raise SystemExit(0)
        settings, origins = read_settings(cls, [a for a in arguments if a != "--print-config"], os.environ)
    except (ZerofleetError, GameError) as error:
        sys.stderr.write(f"{cls.SERVICE}: {error}\n")
        raise SystemExit(2) from None
    if wants(arguments, "--print-config"):
        sys.stdout.write(describe(settings, origins))
        raise SystemExit(0)
    return settings


def read_settings(
    cls: type[Settings], arguments: Sequence[str], environment: Mapping[str, str]
) -> tuple[Settings, dict[str, str]]:
    """Return the settings and, by dotted name, the source of each value.

    Raises `ConfigurationError` naming setting, value and accepted values; `GameError` for an unknown game.
    """
    layers = {
        "environment": from_environment(cls, environment),
        "secret file": from_environment(cls, secret_files(cls, environment)),
        "command line": from_arguments(cls, arguments),
    }
    given = deep_merge(*layers.values())
    try:
        settings = cls(**given)
    except ValidationError as error:
        raise ConfigurationError(_explain(cls, error, layers)) from error
    origins = {name: "default" for name, _ in _leaves(settings)}
    origins |= dict.fromkeys(_names(_derived(cls, given)), "run directory")
    origins |= dict.fromkeys(_names(_preset_parts(cls, given)), f"preset {settings.preset}")
    for source, values in layers.items():
        origins |= dict.fromkeys(_names(values), source)
    return settings, origins


def open_run_store(paths: RunPaths) -> ModelStore:
    """Return the model store of a run's services, as configured by this environment."""
    return read_settings(StoreSettings, ["--run-dir", str(paths.root)], os.environ)[0].open_store()


def describe(settings: ServiceSettings, origins: Mapping[str, str]) -> str:
    """Return a table of every effective value with its source; secrets are masked."""
    rows = [(name, _text(value), origins.get(name, "default")) for name, value in _leaves(settings)]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    lines = [f"{name:<{widths[0]}}  {value:<{widths[1]}}  {origin}".rstrip() for name, value, origin in rows]
    return "\n".join(lines) + "\n"


def inherited_environment() -> dict[str, str]:
    """Return the environment of this process, for a child process."""
    return dict(os.environ)


def _derived(cls: type[ServiceSettings], values: Tree) -> Tree:
    """Return the fields of `cls` derived from the run directory."""
    paths = RunPaths(Path(values.get("run_dir", "run")))
    own = {"inference_server": paths.inference_address, "gatekeeper": paths.gatekeeper_address}
    known = {
        "model_store": paths.models,
        "model_cache": paths.model_cache,
        "stream_url": paths.stream_url,
        "inference_address": paths.inference_address,
        "gatekeeper_address": paths.gatekeeper_address,
        "address": own.get(cls.SERVICE),
    }
    return {name: value for name, value in known.items() if name in cls.model_fields and value is not None}


def _preset_parts(cls: type[ServiceSettings], values: Tree) -> Tree:
    """Return the preset parts listed by `cls`, as nested plain values."""
    if not cls.PRESET_PARTS:
        return {}
    parameters = values.get("game_parameters") or {}
    game = games.core.make(str(values.get("game", _default(cls, "game"))), **parameters)
    chosen = preset(game, str(values.get("preset", _default(cls, "preset"))))
    return {part: getattr(chosen, part).model_dump() for part in cls.PRESET_PARTS}


def _default(cls: type[ServiceSettings], name: str) -> Any:
    return cls.model_fields[name].get_default(call_default_factory=True)


def _leaves(model: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted names and values of all settings, groups flattened."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _leaves(value, f"{prefix}{name}.")
        elif isinstance(value, dict) and value:
            yield from ((f"{prefix}{name}.{key}", entry) for key, entry in value.items())
        else:
            yield prefix + name, value


def _names(tree: Any, prefix: str = "") -> Iterator[str]:
    """Yield the dotted names of a tree of plain values."""
    if isinstance(tree, BaseModel):
        tree = {name: getattr(tree, name) for name in type(tree).model_fields}
    if isinstance(tree, dict):
        for name, value in tree.items():
            yield from _names(value, f"{prefix}.{name}" if prefix else name)
    else:
        yield prefix


def _text(value: Any) -> str:
    if isinstance(value, SecretStr):
        return "********" if value.get_secret_value() else ""
    if isinstance(value, dict) and not value:
        return ""
    return "" if value is None else ADDRESS_PASSWORD.sub(_MASKED, str(value))


def _explain(cls: type[ServiceSettings], error: ValidationError, layers: Mapping[str, Tree]) -> str:
    """Return a message for each invalid value: name, value, accepted values and source."""
    secrets = set(leaf_names(cls, secrets_only=True))
    lines = []
    for fault in error.errors(include_url=False):
        name = ".".join(str(part) for part in fault["loc"])
        text = fault["msg"].removeprefix("Value error, ")
        if fault["type"] not in {"missing", "value_error"}:
            text += f", got {'a secret' if name in secrets else ADDRESS_PASSWORD.sub(_MASKED, repr(fault['input']))}"
        source = next((s for s in reversed(list(layers)) if name in set(_names(layers[s]))), None)
        lines.append((f"setting {name}: " if name else "") + text + (f" (from the {source})" if source else ""))
    return "; ".join(lines) + "; --help lists the settings"


def _help(cls: type[ServiceSettings]) -> str:
    about = (cls.__doc__ or "").strip().split("\n", maxsplit=1)[0]
    lines = [f"usage: python -m {cls.SERVICE} [--print-config] [--NAME VALUE ...]", "", about, ""]
    for name, field in cls.model_fields.items():
        option = f"--{name.replace('_', '-')}"
        text = " ".join(description(cls, name).split())
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            option += ".NAME"
            text = f"{text} NAME is one of {', '.join(kind.model_fields)}.".strip()
        lines += [f"  {option}", *textwrap.wrap(text, 100, initial_indent=" " * 6, subsequent_indent=" " * 6)]
    lines += [
        "",
        f"Environment variables have the same names: {ENVIRONMENT_PREFIX}GAME, {ENVIRONMENT_PREFIX}SEARCH__SIMULATIONS.",
    ]
    return "\n".join(lines) + "\n"
