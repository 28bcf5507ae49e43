"""`zerofleet run`: the complete training loop on this machine, from scratch or resumed."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from games.core import make
from zerofleet import supervisor
from zerofleet.cli.commands.ui import require_pages
from zerofleet.cli.options import PRESETS, check_preset
from zerofleet.errors import ConfigurationError
from zerofleet.presets.commented import commented
from zerofleet.presets.devices import parse_devices
from zerofleet.presets.experiment import Experiment, kept_experiment, read_experiment
from zerofleet.storage.files import atomic_publish, require_place
from zerofleet.storage.run_lookup import default_directory
from zerofleet.supervisor import RunRequest, parse_duration, split_settings

__all__ = ["run"]


def run(
    game_name: Annotated[
        str | None,
        typer.Argument(
            metavar="[GAME]",
            help="Game, such as connect_four.",
            show_default="that of --config, or of the run to resume",
        ),
    ] = None,
    *,
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset",
            metavar="|".join(PRESETS),
            help="Sizes of network, search and batches.",
            callback=check_preset,
            show_default="that of --config or of the run, else laptop",
        ),
    ] = None,
    run_dir: Annotated[
        Path | None,
        typer.Option(
            "--run-dir",
            metavar="DIR",
            help="Run directory.",
            show_default="runs/<game>-<preset>, with parameters such as runs/othello-size6-tiny",
        ),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="Stop after a time such as 90s, 30m or 1h30m.", show_default="until Ctrl-C"),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", min=1, help="Number of self-play processes.", show_default="1 for each device"),
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(
            "--devices",
            metavar="D,D",
            help="Devices of inference, such as cuda:0,cuda:1, with one server each, which the workers share equally.",
            show_default="those of --config or of the run, else one server",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="Experiment file (TOML): game, parameters, preset, seed and settings of the run."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Parameter of the game (rows=4), value of the preset (search.simulations=50) or setting of a service "
            "(trainer.log_level=debug). Overrides the experiment file. May be repeated.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", help="Seed of a new run, 0 to 2^63 - 1; a resumed run keeps its own."),
    ] = None,
    save_config: Annotated[
        Path | None,
        typer.Option("--save-config", metavar="FILE", help="Write a commented experiment file of this run, and exit."),
    ] = None,
    ui: Annotated[
        bool, typer.Option("--ui", help="Serve the run as web pages as well, on port 8765 or a free one; prints the address.")
    ] = False,
) -> None:
    """Learn a game by self-play: start and supervise inference server, gatekeeper, trainer and workers; show a status page.

    Ctrl-C shuts down in order; a second one stops at once. The same command resumes the run, and so does --run-dir alone.
    """
    given, overrides = split_settings(settings or ())
    if run_dir is None and game_name is not None and config is None and save_config is None:
        run_dir = default_directory(make(game_name, **given), preset or "laptop")
    begun = _experiment(config, run_dir, game_name, preset)
    parameters = {**begun.parameters, **given}
    chosen = begun.devices if devices is None else parse_devices(devices)
    request = RunRequest(
        game=begun.game,
        run_dir=run_dir or default_directory(make(begun.game, **parameters), begun.preset),
        parameters=parameters,
        preset=begun.preset,
        duration_s=None if duration is None else parse_duration(duration),
        workers=workers or max(1, len(chosen)),
        seed=begun.seed if seed is None else seed,
        overrides=overrides,
        config=config,
        configured=begun.settings,
        secrets=begun.secrets,
        devices=chosen,
        has_pages=ui,
    )
    if ui:
        require_pages("zerofleet run --ui")
    if save_config is not None:
        _save(save_config, request)
    elif code := supervisor.run(request):
        raise typer.Exit(code)


def _experiment(config: Path | None, begun: Path | None, game: str | None, preset: str | None) -> Experiment:
    """Return the experiment of the file, or of the run to resume, or that of game and preset.

    Game and preset must agree with those of a file. `begun`: directory of the run, which may not exist yet.
    """
    if config is not None:
        filed = read_experiment(config)
        for what, asked, found in (("GAME", game, filed.game), ("--preset", preset, filed.preset)):
            if asked not in {None, found}:
                raise ConfigurationError(f"{what} is {asked}, but {config} sets {found}; omit {what}, or change the file")
        return filed
    if begun is not None and (own := kept_experiment(begun)) is not None:
        if game is not None and game != own.game:  # which the run directory refuses
            return Experiment(game, preset or own.preset)
        return replace(own, preset=preset or own.preset)
    if game is None:
        nothing = "" if begun is None else f", and there is no run to resume in {begun}"
        raise ConfigurationError(
            f"GAME is missing{nothing}; give one, such as connect_four, an experiment file with --config FILE, "
            "or the run to resume with --run-dir DIR"
        )
    return Experiment(game, preset or "laptop")


def _save(path: Path, request: RunRequest) -> None:
    require_place(path)
    if path.exists():
        raise ConfigurationError(f"--save-config {path}: the file exists; choose another name, or remove the file")
    atomic_publish(path, commented(request.experiment))
    print(f"wrote the experiment to {path}; run it with: {shlex.join(['zerofleet', 'run', '--config', str(path)])}")
