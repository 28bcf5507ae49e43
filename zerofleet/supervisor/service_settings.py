"""Check of the settings of services before a run is created.

Only a service has its settings class, and the library imports no service. So each service of which the request sets something
reads its settings in a process of its own (`--print-config`), which imports no torch and writes nothing. Settings that two
services have to share are compared here: each of them alone is valid.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from typing import NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit

from zerofleet.errors import ConfigurationError
from zerofleet.presets.experiment import SERVICES
from zerofleet.presets.secret_settings import ADDRESS_PASSWORD
from zerofleet.service.settings import ServiceSettings, read_settings
from zerofleet.storage.run_paths import RunPaths
from zerofleet.storage.sqlite_address import addressed_file
from zerofleet.supervisor.fleet import service_environment
from zerofleet.supervisor.request import RunRequest

__all__ = ["StreamPlace", "require_one_stream", "require_service_settings"]

_OPTION = re.compile(r"--([a-z][a-z0-9_.-]*)")
_REDIS_PORT, _DATABASE = 6379, "0"  # where an address of Redis names none
_THIS_MACHINE, _NAMES_OF_THIS_MACHINE = "localhost", {"localhost", "127.0.0.1", "::1"}
_ENDS_OF_STREAM = ("selfplay_worker", "trainer")


class StreamPlace(ServiceSettings):
    """Settings by which worker and trainer meet, with the names and defaults that both have."""

    stream_url: str
    """Address of the stream of games."""
    stream_name: str = "games"
    """Name of the stream in its store."""


def require_service_settings(request: RunRequest, inherited: Mapping[str, str]) -> None:
    """Raise `ConfigurationError` if a service rejects its settings, or as `require_one_stream`.

    The settings of services of which the request sets nothing are not read.

    `inherited`: environment of this process. Blocks about a second for each service with settings.
    """
    for service in SERVICES:
        own = request.settings_of(service)
        if not own:
            continue
        options = {
            "run-dir": str(request.run_dir.absolute()),
            "game": request.game,
            "preset": request.preset,
            **{f"game-parameters.{name}": value for name, value in request.parameters.items()},
            **own,
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        done = subprocess.run(
            (sys.executable, "-m", service, "--print-config", *words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=service_environment(request, inherited, threads=1),
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            said = done.stderr.strip().rpartition("\n")[2] or f"{service} exited with code {done.returncode}"
            raise ConfigurationError(_in_words_of_the_run(request, service, said))
    require_one_stream(request, inherited)


def require_one_stream(request: RunRequest, inherited: Mapping[str, str]) -> None:
    """Raise `ConfigurationError` unless workers and trainer have one stream: the games of others would never be trained on.

    Users, passwords and options of the address may differ, TLS, and names of this machine; other names of one host may not.
    `inherited`: environment of this process.
    """
    worker, trainer = (_stream_of(request, service, inherited) for service in _ENDS_OF_STREAM)
    for name, is_one in (
        ("stream_url", _is_one_store(worker.stream_url, trainer.stream_url)),
        ("stream_name", worker.stream_name == trainer.stream_name),
    ):
        if not is_one:
            had = (ADDRESS_PASSWORD.sub(r"\1********\2", getattr(each, name)) for each in (worker, trainer))
            got = " and ".join(f"{service}.{name} is {value}" for service, value in zip(_ENDS_OF_STREAM, had, strict=True))
            both = " ".join(f"--set {service}.{name}=VALUE" for service in _ENDS_OF_STREAM)
            raise ConfigurationError(
                f"{got}: the games of the workers would not reach the trainer; want one stream, so set both ({both}) or neither"
            )


def _stream_of(request: RunRequest, service: str, inherited: Mapping[str, str]) -> StreamPlace:
    """Return the stream of a service: of its settings, the environment or the run directory."""
    own = {_name(name): value for name, value in request.settings_of(service).items()}
    options = {"run_dir": str(request.run_dir.absolute())}
    options |= {
        name: own[name] for name in StreamPlace.model_fields.keys() - ServiceSettings.model_fields.keys() if name in own
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return read_settings(StreamPlace, words, service_environment(request, inherited, threads=1))[0]


def _is_one_store(url: str, other: str) -> bool:
    first, second = _Store.of(url), _Store.of(other)
    if {first.scheme, second.scheme} == {"redis", "rediss"}:  # one Redis listens on a port for each
        first, second = (store._replace(scheme="redis", port=0) for store in (first, second))
    return first == second


class _Store(NamedTuple):
    """Parts of a stream's address that name its store."""

    scheme: str
    host: str
    port: int
    place: str
    """File of SQLite, database of Redis."""

    @classmethod
    def of(cls, url: str) -> Self:
        """Return the store of an address; an invalid one is a store of its own."""
        if (path := addressed_file(url)) is not None:
            return cls("sqlite", "", 0, str(path.resolve()))
        try:
            parts = urlsplit(url)
            database = dict(parse_qsl(parts.query)).get("db")
            if parts.scheme == "unix":
                return cls("unix", parts.path, 0, database or _DATABASE)
            host = _THIS_MACHINE if parts.hostname in _NAMES_OF_THIS_MACHINE else parts.hostname or ""
            return cls(parts.scheme, host, parts.port or _REDIS_PORT, database or parts.path.strip("/") or _DATABASE)
        except ValueError:
            return cls(url, "", 0, "")


def _in_words_of_the_run(request: RunRequest, service: str, message: str) -> str:
    """Return a service's message with its options in the form of `--set`, or in that of the file that has the wrong one."""
    named = {f"{service}.{_name(option)}" for option in _OPTION.findall(message)}
    source = request.config or RunPaths(request.run_dir).experiment
    is_filed = not named & request.overrides.keys() and bool(named & request.configured.keys())
    prefix = "" if is_filed else "--set "

    def spelled(found: re.Match[str]) -> str:
        return f"`python -m {service} --help`" if found[1] == "help" else f"{prefix}{service}.{_name(found[1])}"

    text = _OPTION.sub(spelled, message)
    return f"{source}: {text}" if is_filed else text


def _name(option: str) -> str:
    return option.replace("-", "_")
