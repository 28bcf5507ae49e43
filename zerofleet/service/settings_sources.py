"""Textual sources of settings: the environment, secret files and the command line.

All three name a value by its path through the groups: `search.simulations` is `ZEROFLEET_SEARCH__SIMULATIONS` in the
environment and `--search.simulations` (or `--search__simulations`) on the command line. One parser serves all, so lists
(`zerofleet.presets.lists`) and paths have the same syntax everywhere.
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsError

from zerofleet.errors import ConfigurationError
from zerofleet.presets.lists import is_list, parse_list
from zerofleet.rpc.security.credentials import secret_in_file

__all__ = ["from_arguments", "from_environment", "leaf_names", "secret_files", "wants"]

_FILE_SUFFIX = "_FILE"


def from_environment(cls: type[BaseSettings], variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of fields of `cls` from environment variables; those of other services are ignored.

    Raises `ConfigurationError` for a malformed list, or a group that is not JSON.
    """
    try:
        return dict(_TextSource(cls, variables)())
    except SettingsError as error:
        raise ConfigurationError(
            f"{error}: {error.__cause__}; lists are written as JSON or with commas, groups as JSON"
        ) from error


def secret_files(cls: type[BaseSettings], variables: Mapping[str, str]) -> dict[str, str]:
    """Return, as variables, the content of the files named by `<SECRET>_FILE` variables.

    Only fields of type `SecretStr` may come from a file. Raises `ConfigurationError` for an unreadable or empty file.
    """
    found = {}
    for name in leaf_names(cls, secrets_only=True):
        variable = _variable(cls, name)
        path = variables.get(variable + _FILE_SUFFIX)
        if path:
            found[variable] = secret_in_file(variable + _FILE_SUFFIX, path)
    return found


def from_arguments(cls: type[BaseSettings], arguments: Sequence[str]) -> dict[str, Any]:
    """Return the values on a command line of `--name value` and `--name=value`.

    Raises `ConfigurationError` for an unknown name (suggesting the closest), an empty one or a missing value.
    """
    variables = {}
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("--"):
            raise ConfigurationError(f"unexpected argument {argument!r}; settings are given as --name value")
        option, equals, value = argument[2:].partition("=")
        name = option.replace("-", "_").replace("__", ".")
        if not all(name.split(".")):
            raise ConfigurationError(f"--{option}: the name of the setting has an empty part; want --name value")
        _check_known(cls, name, argument)
        if not equals:
            following = next(rest, None)
            if following is None:
                raise ConfigurationError(f"--{option} needs a value")
            value = following
        variables[_variable(cls, name)] = value
    return from_environment(cls, variables)


def wants(arguments: Sequence[str], *flags: str) -> bool:
    """Return whether one of the flags is on the command line."""
    return any(argument in flags for argument in arguments)


def leaf_names(cls: type[BaseModel], prefix: str = "", *, secrets_only: bool = False) -> Iterator[str]:
    """Yield the dotted name of every value of a settings class, groups flattened."""
    for name, field in cls.model_fields.items():
        kinds = _kinds(field.annotation)
        groups = [k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel)]
        for group in groups:
            yield from leaf_names(group, f"{prefix}{name}.", secrets_only=secrets_only)
        if not groups and (not secrets_only or SecretStr in kinds):
            yield prefix + name


def _kinds(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the annotation itself."""
    union = typing.get_origin(annotation) in {typing.Union, types.UnionType}
    return typing.get_args(annotation) if union else (annotation,)


def _check_known(cls: type[BaseSettings], name: str, argument: str) -> None:
    known = list(leaf_names(cls))
    first = name.split(".", maxsplit=1)[0]
    of_a_mapping = first in cls.model_fields and typing.get_origin(cls.model_fields[first].annotation) is dict
    if name in known or of_a_mapping or name in cls.model_fields:
        return
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean --{near[0].replace('_', '-')}?" if near else "--help lists the settings"
    raise ConfigurationError(f"unknown setting {argument.partition('=')[0]}; {hint}")


def _variable(cls: type[BaseSettings], name: str) -> str:
    return str(cls.model_config.get("env_prefix", "")) + name.replace(".", "__").upper()


class _TextSource(EnvSettingsSource):
    """pydantic's environment source over a given mapping."""

    def __init__(self, cls: type[BaseSettings], variables: Mapping[str, str]) -> None:
        self._variables = {name.lower(): value for name, value in variables.items()}
        super().__init__(cls)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return self._variables

    def decode_complex_value(self, field_name: str, field: FieldInfo | None, value: Any) -> Any:
        """Return a list from JSON or from items between commas, anything else from JSON; raises `ValueError`."""
        if field is not None and is_list(field.annotation) and isinstance(value, str):
            return parse_list(value)
        return super().decode_complex_value(field_name, field, value)  # type: ignore[arg-type]  # None is accepted
