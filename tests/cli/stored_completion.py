"""Table of the commands for completion in a shell, made from them; `python tests/cli/stored_completion.py` stores it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

from typer.core import TyperArgument, TyperGroup, TyperOption

from zerofleet.agents import AGENTS
from zerofleet.cli.app import BENCHMARKS, COMMANDS
from zerofleet.cli.completion import TABLE
from zerofleet.cli.lazy import load
from zerofleet.strength.behaviour.catalogue import TABLES

BENCH = "zerofleet.cli.app:bench"
"""Group that imports its own commands when they are used."""
OF_METAVAR = {"RUN": "runs", "PLAYER": "agents", "AGENT": "agents", "WHO": "agents"}
OF_OPTION = {"--game": "games", "--run-dir": "run_directories", "--like": "run_directories"}
OF_ARGUMENT = {"GAME": "games", "RUN_DIR": "run_directories"}
SPECIAL: dict[tuple[str, str], dict[str, Any]] = {
    ("match", "A"): {"values": "agents"},
    ("match", "B"): {"values": "agents"},
    ("behaviour", "TABLE"): {"choices": list(TABLES)},
    ("doctor", "--run-dir"): {},  # a folder of runs
    ("restore", "RUN_DIR"): {},  # an empty directory
}


def table() -> dict[str, Any]:
    """Return the table."""
    commands = {**COMMANDS, **BENCHMARKS}
    return {
        "games": _games(),
        "agents": ["champion", "model:", *(re.sub(r"[A-Z\[].*", "", kind.form) for kind in AGENTS.values())],
        "commands": {one.target: _entry(load(name, one)) for name, one in commands.items() if one.target != BENCH},
    }


def _games() -> list[str]:
    """Return the games of the product: a process of its own has registered no other."""
    asked = "from games.core import available; print(*available())"
    return subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True).stdout.split()


def text(found: dict[str, Any]) -> str:
    """Return the table as it is stored, with a line for each command."""
    rows = ",\n".join(f"  {json.dumps(target)}: {json.dumps(entry)}" for target, entry in found["commands"].items())
    names = "".join(f"{json.dumps(kind)}: {json.dumps(found[kind])},\n" for kind in ("games", "agents"))
    return f'{{\n{names}"commands": {{\n{rows}\n}}\n}}\n'


def _entry(command: Any) -> dict[str, Any]:
    if isinstance(command, TyperGroup):
        return {"commands": {name: _parameters(one) for name, one in command.commands.items()}}
    return {"parameters": _parameters(command)}


def _parameters(command: Any) -> list[dict[str, Any]]:
    return [_parameter(command.name, one) for one in command.params]


def _parameter(command: str, one: TyperOption | TyperArgument) -> dict[str, Any]:
    if isinstance(one, TyperArgument):
        about: dict[str, Any] = {"argument": one.name}
        is_multiple = one.nargs == -1
    else:
        about = {"names": [*one.opts, *one.secondary_opts]}
        is_multiple = one.multiple
        if one.is_flag:
            return about | {"is_flag": True}
    return about | ({"is_multiple": True} if is_multiple else {}) | _values(command, one)


def _values(command: str, one: TyperOption | TyperArgument) -> dict[str, Any]:
    """Return what is offered for a parameter: choices, a kind of names, or nothing."""
    metavar = re.sub(r"[\[\].]", "", one.metavar or "")
    is_argument = isinstance(one, TyperArgument)
    special = SPECIAL.get((command, metavar if is_argument else one.opts[0]))
    if special is not None:
        return special
    if one.type_descriptor.is_choice and one.type_descriptor.choices is not None:
        return {"choices": [str(getattr(choice, "value", choice)) for choice in one.type_descriptor.choices]}
    if re.fullmatch(r"[a-z_]+(\|[a-z_]+)+", metavar):
        return {"choices": metavar.split("|")}
    of_kind = OF_ARGUMENT.get(metavar) if is_argument else next(filter(None, map(OF_OPTION.get, one.opts)), None)
    kind = of_kind or OF_METAVAR.get(metavar)
    return {"values": kind} if kind else {}


if __name__ == "__main__":
    TABLE.write_text(text(table()))
