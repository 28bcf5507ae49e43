"""Completion of command lines in a shell, from a stored table of the commands, their parameters and the names that these take.

A shell asks at every press of Tab, so commands are not imported for it, nor games, compiler and torch: stand-ins with the same
parameters take their places. Runs are the directories below `runs/`; games of other packages are found by their entry points.
`tests/cli/stored_completion.py` writes the table, and a test compares it with the commands.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeAlias

import typer
from typer.main import get_command

from zerofleet.storage.run_paths import RUNS

__all__ = ["GAMES_OF_PACKAGES", "TABLE", "stand_in"]

TABLE = Path(__file__).with_name("completion.json")
"""Names of games and agents; for each target of a command its parameters, or its subcommands with theirs."""
GAMES_OF_PACKAGES = "zerofleet.games"
"""Entry point group of `games.core`, whose import would load the compiler."""

Parameter: TypeAlias = Mapping[str, Any]
"""Parameter: `names` of an option or `argument`; `is_flag`, `is_multiple`; `choices`, or `values`, a key of `_NAMES`."""


def stand_in(name: str, target: str) -> Any:
    """Return a command with the parameters of a target, for completion alone; None where the table has none."""
    entry = _table()["commands"].get(target)
    if entry is None:
        return None
    app = typer.Typer(add_completion=False)
    if "commands" in entry:
        app.callback()(_nothing)  # so that a single subcommand has a name too
        for subcommand, parameters in entry["commands"].items():
            app.command(subcommand)(_function(parameters))
    else:
        app.command(name)(_function(entry["parameters"]))
    made = get_command(app)
    made.name = name
    return made


@functools.cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(TABLE.read_text())
    return found


def _nothing() -> None:
    """Represent a group, which is never called."""


def _function(parameters: Sequence[Parameter]) -> Callable[..., None]:
    """Return a function from whose signature typer makes the parameters."""

    def command(**values: str) -> None:
        """Represent a command, which is never called."""

    command.__signature__ = inspect.Signature([_described(place, one) for place, one in enumerate(parameters)])  # type: ignore[attr-defined]
    return command


def _described(place: int, parameter: Parameter) -> inspect.Parameter:
    names, complete = parameter.get("names"), _completer(parameter)
    kind: Any = bool if parameter.get("is_flag") else list[str] | None if parameter.get("is_multiple") else str | None
    default = False if kind is bool else None
    shown: Any = (
        typer.Argument(default, autocompletion=complete)
        if names is None
        else typer.Option(default, *names, autocompletion=complete)
    )
    name = parameter.get("argument", f"option_{place}")
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=shown, annotation=kind)


def _completer(parameter: Parameter) -> Callable[[], list[str]] | None:
    if "choices" in parameter:
        return lambda: list(parameter["choices"])
    return _NAMES.get(parameter.get("values", ""))


def _games() -> list[str]:
    return sorted({*_table()["games"], *(point.name for point in entry_points(group=GAMES_OF_PACKAGES))})


def _agents() -> list[str]:
    return list(_table()["agents"])


def _runs() -> list[str]:
    return [path.name for path in _run_directories_found()]


def _run_directories() -> list[str]:
    return [str(path) for path in _run_directories_found()]


def _run_directories_found() -> list[Path]:
    return sorted(path.parent for path in RUNS.glob("*/run.json"))


_NAMES = {"games": _games, "agents": _agents, "runs": _runs, "run_directories": _run_directories}
