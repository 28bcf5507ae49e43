"""Options shared by several commands, and their conversion to games and settings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from games.core import Game
    from zerofleet.agents.model.search_options import SearchOptions
    from zerofleet.storage.runs import RunPaths
    from zerofleet.strength.matches import Player

__all__ = [
    "LAST_SEED",
    "PRESETS",
    "GameName",
    "GameOrRun",
    "InProcess",
    "Json",
    "OpeningFile",
    "Parameters",
    "Preset",
    "RunDir",
    "Save",
    "Search",
    "Seed",
    "Simulations",
    "announced_game",
    "check_finite",
    "check_preset",
    "chosen_game",
    "chosen_run",
    "chosen_simulations",
    "chosen_time",
    "game_or_that_of_run",
    "naming_default_game",
    "read_parameters",
    "refuse_search_without_model",
]

DEFAULT_GAME = "connect_four"
PRESETS = ("tiny", "laptop", "gpu")


def check_preset(value: str | None) -> str | None:
    """Raise a usage error unless the preset exists; None passes."""
    if value is not None and value not in PRESETS:
        raise typer.BadParameter(f"{value!r} is not a preset; choose from {', '.join(PRESETS)}")
    return value


def check_finite(value: float | None) -> float | None:
    """Raise a usage error for infinity and NaN, which a lower bound lets pass; None passes."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is out of range; want a finite number")
    return value


GameName = Annotated[str, typer.Argument(metavar="GAME", help="Game, such as connect_four.")]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Parameter of the game, such as rows=4. May be repeated."),
]
GameOrRun = Annotated[
    str | None,
    typer.Option(
        "--game", metavar="GAME", help="Game, such as connect_four.", show_default="that of --run-dir, else connect_four"
    ),
]
RunDir = Annotated[
    Path | None,
    typer.Option("--run-dir", metavar="DIR", help="Run directory.", show_default="the newest run of the game below runs/"),
]
Preset = Annotated[
    str,
    typer.Option("--preset", metavar="|".join(PRESETS), help="Sizes of network, search and batches.", callback=check_preset),
]
LAST_SEED = (1 << 63) - 1  # that of every service
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, max=LAST_SEED, help="Seed of every random choice.")]
Simulations = Annotated[
    int | None,
    typer.Option(
        "--simulations",
        metavar="N",
        min=0,
        help="Simulations per move of a model; 0 plays from its policy.",
        show_default="100; 0 where choices are simultaneous",
    ),
]
Search = Annotated[
    str,
    typer.Option(
        "--search",
        metavar="OPTIONS",
        help="Search of the models, as options of the agent mcts, such as c=2.5,information=predict.",
        show_default="as in every match",
    ),
]
InProcess = Annotated[
    bool,
    typer.Option(
        "--in-process", help="Evaluate models where the games are played instead of on an inference server; perceptrons only."
    ),
]
OpeningFile = Annotated[
    Path | None,
    typer.Option(
        "--openings", metavar="FILE", help="File of openings, one per line; see zerofleet openings.", show_default="random ones"
    ),
]
Save = Annotated[
    Path | None, typer.Option("--save", metavar="FILE", help="Save the figures in a cost file for zerofleet plan.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]


def read_parameters(settings: Sequence[str] | None) -> dict[str, str]:
    """Parse `["rows=4", "columns=5"]` into a dict; raises a usage error that names the malformed item."""
    parameters: dict[str, str] = {}
    for item in settings or ():
        name, equals, value = item.partition("=")
        if not (equals and name.strip() and value.strip()):
            raise typer.BadParameter(f"{item!r} is not NAME=VALUE, such as rows=4", param_hint="--set")
        if name.strip() in parameters:
            raise typer.BadParameter(f"{name.strip()} is set twice", param_hint="--set")
        parameters[name.strip()] = value.strip()
    return parameters


def chosen_time(text: str | None, simulations: int | None) -> float | None:
    """Return the time of `--time` in seconds; None without one. Raises a usage error, also for two budgets."""
    if text is None:
        return None
    if simulations is not None:
        raise typer.BadParameter("--simulations is given too; a move has one budget, leave one out", param_hint="--time")
    from zerofleet.agents.budget import Budget  # noqa: PLC0415  (as `announced_game`)
    from zerofleet.errors import InvalidRequest  # noqa: PLC0415

    try:
        return Budget.parse(text, bare="simulations", allowed=("ms",)).amount / 1000
    except InvalidRequest:
        raise typer.BadParameter(f"{text!r} is no time from 1ms to 3600s; write 500ms or 2s", param_hint="--time") from None


def chosen_simulations(game: Game, given: int | None) -> int:
    """Return the simulations of a move of a model: those given, else the default of the game."""
    if given is not None:
        return given
    from zerofleet.search.settings import default_simulations  # noqa: PLC0415  (as `announced_game`)

    return default_simulations(game.spec())


def refuse_search_without_model(players: Sequence[Player], simulations: int | None, search: str) -> None:
    """Raise a usage error for `--simulations` or `--search`, the search of models, where no player is one."""
    for option, given in (("--simulations", simulations), ("--search", search or None)):
        if given is not None and all(player.version is None for player in players):
            raise typer.BadParameter(
                "no player is a model; an agent with a search has it in its name, such as uct:200 or mcts:200,model=champion",
                param_hint=option,
            )


def stated_search(players: Sequence[Player], options: SearchOptions) -> str:
    """Return the search options of models for the records of their games; empty where no player is a model."""
    return str(options) if any(player.version is not None for player in players) else ""


def announced_game(name: str, parameters: Mapping[str, str]) -> Game:
    """Build a game whose compilation in this process is announced; raises `UnknownGame` or `InvalidParameters`."""
    import games  # noqa: PLC0415  (commands without a game start without the compiler)

    game = games.make(name, **parameters)
    from zerofleet.cli.compilation import announce_compilation  # noqa: PLC0415

    announce_compilation(name)
    return game


def chosen_game(name: str, settings: Sequence[str] | None) -> Game:
    """Build the game that a command line names, as `announced_game` does."""
    return announced_game(name, read_parameters(settings))


@contextmanager
def naming_default_game(name: str | None, run_dir: Path | None) -> Iterator[None]:
    """Look for a run in the block: where there is none of the default game, the error states why it is that game."""
    from zerofleet.errors import RunDirectoryError  # noqa: PLC0415  (as `announced_game`)

    try:
        yield
    except RunDirectoryError as error:
        if name is None and run_dir is None:
            raise RunDirectoryError(f"no --game given, so {DEFAULT_GAME}: {error}") from error
        raise


def game_or_that_of_run(name: str | None, settings: Sequence[str] | None, run_dir: Path | None) -> Game:
    """Build the game that a command line names, else that of the run in `run_dir`, else `DEFAULT_GAME`.

    `settings` override parameters of the run's game. Raises the errors of `chosen_game` and `read_header`.
    """
    if name is None and run_dir is not None:
        from zerofleet.storage.runs import read_header  # noqa: PLC0415  (as `announced_game`)

        header = read_header(run_dir)
        return announced_game(header.game, {**header.parameters, **read_parameters(settings)})
    return chosen_game(name or DEFAULT_GAME, settings)


def chosen_run(game_name: str | None, settings: Sequence[str] | None, run_dir: Path | None) -> tuple[Game, RunPaths]:
    """Return the run that a command line names, by its game, its directory or both, and its game.

    Raises the errors of `game_or_that_of_run` and `find_run`, and a usage error without game and directory.
    """
    from zerofleet.storage.run_lookup import find_run  # noqa: PLC0415

    if game_name is None and run_dir is None:
        raise typer.BadParameter("give a game, or a run with --run-dir", param_hint="GAME")
    game = game_or_that_of_run(game_name, settings, run_dir)
    return game, find_run(game, run_dir)
