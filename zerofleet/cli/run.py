"""`zerofleet run`: the whole loop on this machine, from nothing or from where it stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from games.core import make
from zerofleet import supervisor
from zerofleet.cli.options import GameName, Preset
from zerofleet.cli.runs import default_directory
from zerofleet.supervisor import RunRequest, parse_duration, split_settings

__all__ = ["run"]


def run(
    game_name: GameName,
    *,
    preset: Preset = "laptop",
    run_dir: Annotated[
        Path | None,
        typer.Option("--run-dir", metavar="DIR", help="Where the run lies.", show_default="runs/<game>-<preset>"),
    ] = None,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="End after 90s, 30m or 1h30m.", show_default="until Ctrl-C")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=1, help="Self-play processes.")] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Parameter of the game (rows=4), number of the preset (search.simulations=50) or setting of a service "
            "(trainer.log_level=debug). May be repeated.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Seed of a new run; one that goes on keeps its own.")
    ] = None,
) -> None:
    """Learn a game by self-play: start inference server, gatekeeper, trainer and workers, watch over them, show a page.

    Ctrl-C ends everything in order; a second one ends it at once. The same command goes on where the run stopped.
    """
    parameters, overrides = split_settings(settings or ())
    game = make(game_name, **parameters)
    request = RunRequest(
        game=game_name,
        run_dir=run_dir or default_directory(game, preset),
        parameters=parameters,
        preset=preset,
        duration_s=None if duration is None else parse_duration(duration),
        workers=workers,
        seed=seed,
        overrides=overrides,
    )
    if code := supervisor.run(request):
        raise typer.Exit(code)
