"""`zerofleet bench train`: throughput of the trainer, measured in a separate process."""

from __future__ import annotations

import json as json_format
import subprocess
import sys
from typing import Annotated, Any

import typer

from zerofleet.cli import screen
from zerofleet.cli.options import Json, Parameters, Preset, Save, Seed, check_finite, chosen_game
from zerofleet.errors import Unavailable
from zerofleet.library.planning.costs import save_figures

__all__ = ["train"]


def train(
    *,
    game: Annotated[str, typer.Option("--game", metavar="GAME", help="Game to learn.")] = "connect_four",
    preset: Preset = "laptop",
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, callback=check_finite, help="Length of each of three measurements.")
    ] = 5.0,
    games_per_second: Annotated[
        float,
        typer.Option(
            "--games-per-second", min=0.1, callback=check_finite, help="Arrival rate of games in the third measurement."
        ),
    ] = 20.0,
    intake_processes: Annotated[
        int | None,
        typer.Option("--intake-processes", min=0, help="Processes that read games in the third measurement; by default auto."),
    ] = None,
    processes: Annotated[int, typer.Option("--processes", min=1, help="Data-parallel processes, started with torchrun.")] = 1,
    parameters: Parameters = None,
    seed: Seed = 0,
    save: Save = None,
    json: Json = False,
) -> None:
    """Measure the trainer on synthetic games: training alone, intake alone, and both at a given rate of games.

    In the third measurement the learner waits whenever every sample has reached the preset's maximum reuse.
    """
    chosen_game(game, parameters)  # rejects an invalid game before a process is started
    numbers = ["--seconds", str(seconds), "--games-per-second", str(games_per_second), "--seed", str(seed)]
    if intake_processes is not None:
        numbers += ["--intake-processes", str(intake_processes)]
    settings = [word for item in parameters or () for word in ("--set", item)]
    screen.note(f"measuring for about {3 * seconds:.0f} s")
    figures = _measure(["--game", game, "--preset", preset, *numbers, *settings], processes)
    if save:
        save_figures(save, "train", figures)
    if json:
        screen.emit_json(figures)
        return
    size = f"{figures['blocks']}x{figures['channels']}, batch {figures['batch_size']}, {figures['device']}"
    if processes > 1:
        size += f", {processes} processes"
    table = screen.table(
        "figure", ">value", title=f"{figures['game']}, preset {preset}: {size}, {figures['threads']} thread(s)"
    )
    table.add_row("samples trained per second", f"{figures['samples_per_second']:,.0f}")
    table.add_row("samples trained per second of CPU time", f"{figures['samples_per_cpu_second']:,.0f}")
    table.add_row("milliseconds per step", f"{figures['step_ms']:.1f}")
    table.add_row("games received per second", f"{figures['games_validated_per_second']:,.0f}")
    table.add_row("samples received per second", f"{figures['samples_received_per_second']:,.0f}")
    table.add_row(
        f"fed {figures['fed_games_per_second']:.0f} games/s: samples trained per second",
        f"{figures['fed_samples_per_second']:,.0f}",
    )
    table.add_row("milliseconds per step meanwhile", f"{figures['fed_step_ms']:.1f}")
    table.add_row("share of that time waiting for games", f"{figures['wait_share']:.1%}")
    table.add_row("uses of each sample", f"{figures['reuse']:.2f}")
    screen.out().print(table)


def _measure(arguments: list[str], processes: int) -> dict[str, Any]:
    """Run the benchmark and return its figures; raises `Unavailable` with its last lines if it fails."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)] if processes > 1 else []
    command = [sys.executable, *torchrun, "-m", "trainer.bench", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()[-3:]
        raise Unavailable(f"the benchmark exited with code {done.returncode}: {' / '.join(said)}")
    figures: dict[str, Any] = json_format.loads(done.stdout)
    return figures
