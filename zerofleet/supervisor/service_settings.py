"""Check of the settings of services before a run is created.

Only a service has its settings class, and the library imports no service. So each service of which the request sets something
reads its settings in a process of its own (`--print-config`), which imports no torch and writes nothing.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping

from zerofleet.errors import ConfigurationError
from zerofleet.presets.experiment import SERVICES
from zerofleet.storage.run_paths import RunPaths
from zerofleet.supervisor.fleet import service_environment
from zerofleet.supervisor.request import RunRequest

__all__ = ["require_service_settings"]

_OPTION = re.compile(r"--([a-z][a-z0-9_.-]*)")


def require_service_settings(request: RunRequest, inherited: Mapping[str, str]) -> None:
    """Raise `ConfigurationError` if a service rejects its settings; those of services without any are not read.

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
