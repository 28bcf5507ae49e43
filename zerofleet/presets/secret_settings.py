"""Secret settings: those that a command gives, by name, and those of an earlier command that it lacks.

An experiment file stores their names and no value, so that a run that reaches its servers with a token is not resumed without
one. A setting of a service has its dotted name (`trainer.token`), a variable of the environment its own (`ZEROFLEET_TOKEN`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from zerofleet.errors import ConfigurationError

__all__ = ["ADDRESS_PASSWORD", "is_secret", "require_secrets", "secrets_in_environment"]

ADDRESS_PASSWORD = re.compile(r"(://[^/\s:@]*:)[^/\s]*(@)")
"""Password in an address, `://user:password@`, between two groups."""
_WORD = re.compile(r"token|password|secret", re.IGNORECASE)
_FILE_SUFFIX = "_FILE"
_OF_PAGES = "PAGE_"


def is_secret(name: str, text: str) -> bool:
    """Return whether a setting of a service, given as text, is or may contain a secret."""
    return bool(_WORD.search(f"{name}={text}") or ADDRESS_PASSWORD.search(text))


def secrets_in_environment(variables: Mapping[str, str], prefix: str) -> tuple[str, ...]:
    """Return the names of the secret settings of services in the environment, sorted; those in a file without `_FILE`.

    Those of the web application are left out: it belongs to one invocation, and its settings are checked where it starts.
    """
    own = {name.upper().removeprefix(prefix): text for name, text in variables.items() if name.upper().startswith(prefix)}
    secret = {
        name.removesuffix(_FILE_SUFFIX)
        for name, text in own.items()
        if text and not name.startswith(_OF_PAGES) and (_WORD.search(name) or ADDRESS_PASSWORD.search(text))
    }
    return tuple(sorted(prefix + name for name in secret))


def require_secrets(
    needed: Iterable[str], settings: Iterable[str], variables: Mapping[str, str], *, prefix: str, source: Path
) -> None:
    """Raise `ConfigurationError` if a command lacks secret settings that an experiment had.

    `settings`: dotted names that the command gives; `source`: file of the experiment. A variable of the environment, or a file
    that it names, replaces the setting of every service.
    """
    given = set(settings) | {name.upper().removesuffix(_FILE_SUFFIX) for name, text in variables.items() if text}
    missing = sorted(name for name in needed if not {name, _variable(name, prefix)} & given)
    if missing:
        advice = ", ".join(_advice(name) for name in missing)
        raise ConfigurationError(
            f"{source}: this command lacks secret settings of the experiment, whose values are not stored; give them again "
            f"({advice}), or remove them from `secrets` in the file to go on without"
        )


def _variable(name: str, prefix: str) -> str:
    """Return the variable that gives a setting to every service; a variable is its own."""
    return prefix + name.partition(".")[2].replace(".", "__").upper() if "." in name else name


def _advice(name: str) -> str:
    return f"--set {name}=VALUE" if "." in name else f"{name}=VALUE in the environment"
