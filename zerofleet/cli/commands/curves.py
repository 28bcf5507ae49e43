"""`zerofleet curves`: the diagnostics of a run over time, as a table and as a chart."""

from __future__ import annotations

import math
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from games.core import Game
from zerofleet.cli import screen
from zerofleet.cli.options import Json, Parameters, RunDir, chosen_run
from zerofleet.library.curves import Curve, Curves, run_curves
from zerofleet.library.metrics import read_metrics
from zerofleet.library.run_files import OpenRun
from zerofleet.library.run_list import run_name
from zerofleet.library.series import MOST_POINTS
from zerofleet.strength.charts import CurvePanel, panels_chart, require_drawable

__all__ = ["curves"]

UNKNOWN = "\N{EN DASH}"
PERIODS = 20
HEADERS = {
    "resigned_share": "resigned",
    "soft_resigned_share": "softly",
    "cut_share": "cut",
    "overlooked_share": "overlooked",
    "target_entropy": "entropy",
    "distinct_openings": "openings",
    "new_positions": "positions",
    "evaluations_per_sample": "per sample",
    "gate_share": "gate",
    "network_age_s": "age",
    "adoption_s": "adoption",
}
"""Short names of the curves, for the columns of the table."""


def curves(
    game_name: Annotated[str | None, typer.Argument(metavar="[GAME]", help="Game of the run; optional with --run-dir.")] = None,
    *,
    run_dir: RunDir = None,
    points: Annotated[
        int | None,
        typer.Option(
            "--points",
            metavar="N",
            min=1,
            max=MOST_POINTS,
            help="Number of periods of equal length; with --json, maximum number of rows of each series.",
            show_default=f"{PERIODS}; with --json {MOST_POINTS}",
        ),
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw the curves, as .svg or .png.")] = None,
    parameters: Parameters = None,
    as_json: Json = False,
) -> None:
    """Show the diagnostics of a run over time, also while it is running.

    Shares of resigned games, softly or not, of those played on after a resignation (softly), and of games cut at the maximum
    of plies; of wins in one that self-play overlooked, of distinct openings and of new positions; the entropy of the policy
    targets; evaluations per sample, and the gate's share of them; age of the playing network, and time from export to
    adoption. With --json every series of the page Curves, over steps, games and wall time.
    """
    if plot is not None:
        require_drawable(plot)
    game, paths = chosen_run(game_name, parameters, run_dir)
    metrics = read_metrics(paths.metrics)
    for name, count in metrics.damaged_lines.items():
        screen.note(f"left out {count} damaged {'line' if count == 1 else 'lines'} of {paths.metrics / name}")
    if plot is not None or not as_json:
        found = run_curves(metrics, points=points or PERIODS)
        if plot is not None:
            _draw(found, game, plot)
        if not as_json:
            _show(found)
    if as_json:
        with closing(OpenRun(run_name(paths.root), paths)) as run:
            screen.emit_value(run.series(points=points or MOST_POINTS))


def _show(found: Curves) -> None:
    if all(math.isnan(value) for curve in found.curves for value in curve.values):
        screen.out().print("no games yet")
        return
    is_short = found.hours[-1] < 1
    table = screen.table(">minutes" if is_short else ">hours", *(f">{HEADERS[curve.name]}" for curve in found.curves))
    for place, hours in enumerate(found.hours):
        table.add_row(f"{60 * hours:.1f}" if is_short else f"{hours:.2f}", *(_value(curve, place) for curve in found.curves))
    screen.out().print(table)


def _value(curve: Curve, place: int) -> str:
    value = curve.values[place]
    if math.isnan(value):
        return UNKNOWN
    match curve.unit:
        case "%":
            return f"{100 * value:.1f} %"
        case "nat":
            return f"{value:.2f} nat"
        case "s":
            return f"{value:.0f} s"
        case _:
            return f"{value:.1f}"


def _draw(found: Curves, game: Game, path: Path) -> None:
    panels = [
        CurvePanel(curve.label, curve.unit, found.hours, [100 * v for v in curve.values] if curve.unit == "%" else curve.values)
        for curve in found.curves
    ]
    title = f"{game.spec().name}: diagnostics of a run"
    panels_chart(panels, title=title, path=path, x_label="hours of running")
    screen.note(f"wrote the curves to {path}")
