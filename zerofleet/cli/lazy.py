"""Command groups that import the module of a command only when it is called.

`zerofleet --help` lists every command without importing numba, gRPC or the games, and completion in a shell imports none.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption
from typer.main import get_command

from zerofleet.cli.completion import stand_in
from zerofleet.service.imports import importing

__all__ = ["Command", "lazy_group", "load"]


class _Quiet:
    """Descriptor for the type shown in help: none for a flag, which takes no value, or a named argument."""

    def __init__(self, owner: type[TyperOption] | type[TyperArgument]) -> None:
        self._shown = owner.display_type_rich

    def __get__(self, parameter: Any, owner: type) -> Any:
        if parameter is not None and (getattr(parameter, "is_flag", False) or isinstance(parameter, TyperArgument)):
            return lambda ctx: None
        shown = self._shown.__get__(parameter, owner)
        return shown if parameter is None else lambda ctx: _plain_type(shown(ctx))


def _plain_type(text: str | None) -> str | None:
    """Return `N` for `<int range>` and the like; help shows the bounds separately."""
    plain = (text or "").strip("<>").removesuffix(" range")
    return {"int": "N", "float": "X", "str": "TEXT", "path": "PATH"}.get(plain, plain)


# typer 0.29 writes <bool> beside every flag and <str> beside GAME, and has no setting to disable it.
for _class in (TyperOption, TyperArgument):
    _class.display_type_rich = _Quiet(_class)  # type: ignore[method-assign, assignment]


@dataclass(frozen=True, slots=True)
class Command:
    """Location of a command, and its entry in the list of commands."""

    target: str
    """`module:attribute`; the attribute is a function with typer annotations, or a `typer.Typer`."""
    summary: str
    """One line without a full stop."""
    panel: str = "Commands"
    examples: tuple[str, ...] = ()
    """Whole command lines, shown below the help; tests parse each."""


def lazy_group(commands: Mapping[str, Command], *, summary: str, add_completion: bool = False) -> typer.Typer:
    """Return an app of the given commands, in that order, each imported on first use.

    `add_completion`: options that install and print the completion of the user's shell.
    """

    class Group(TyperGroup):
        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            if args and (command := commands.get(args[0])):
                shown = stand_in(args[0], command.target) if ctx.resilient_parsing else None
                self.commands[args[0]] = shown or load(args[0], command)
            return super().resolve_command(ctx, args)

    app = typer.Typer(
        cls=Group,
        help=summary,
        add_completion=add_completion,
        context_settings={"help_option_names": ["-h", "--help"]},  # subcommands inherit them
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
    )
    for name, command in commands.items():
        app.command(name, help=command.summary, rich_help_panel=command.panel)(_placeholder)
    return app


def load(name: str, command: Command) -> Any:
    """Import a command and return it as a click command."""
    module_name, _, attribute = command.target.partition(":")
    with contextlib.nullcontext() if module_name in sys.modules else importing():
        found = getattr(importlib.import_module(module_name), attribute)
    _log_to_standard_error()
    if not isinstance(found, typer.Typer):
        single = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
        single.command(name, epilog=_examples(command.examples))(found)
        found = single
    loaded = get_command(found)
    loaded.name = name
    if loaded.epilog is None:
        loaded.epilog = _examples(command.examples)
    return loaded


def _log_to_standard_error() -> None:
    """Send the log to standard error: standard output is for results. Tracebacks are without the values of local variables."""
    structlog = sys.modules.get("structlog")  # not imported by commands that log nothing
    if structlog is not None and not structlog.is_configured():
        *before, _ = structlog.get_config()["processors"]
        rendering = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        structlog.configure([*before, rendering], logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))


def _placeholder() -> None:
    """Represent a command in lists; `resolve_command` replaces it before anything runs."""


def _examples(lines: Sequence[str]) -> str | None:
    return "\n".join(["[dim]Examples[/dim]", *(f"  [cyan]{line}[/cyan]" for line in lines)]) if lines else None
