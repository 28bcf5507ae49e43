"""`zerofleet curves`: the diagnostics of a run over time, as a table and as a chart."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from games.core import Game
from zerofleet.cli import screen
from zerofleet.cli.options import Json, Parameters, RunDir, chosen_run
from zerofleet.library.curves import Curve, Curves, run_curves
from zerofleet.library.metrics import read_metrics
from zerofleet.storage.runs import RunPaths
from zerofleet.strength.charts import CurvePanel, panels_chart, require_drawable

__all__ = ["curves"]

UNKNOWN = "\N{EN DASH}"
HEADERS = {
    "resigned_share": "resigned",
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
        int, typer.Option("--points", metavar="N", min=1, max=1000, help="Number of periods of equal length.")
    ] = 20,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw the curves, as .svg or .png.")] = None,
    parameters: Parameters = None,
    as_json: Json = False,
) -> None:
    """Show the diagnostics of a run over time, also while it is running.

    Shares of resigned games, of wins in one that self-play overlooked, of distinct openings and of new positions; the entropy
    of the policy targets; evaluations per sample, and the gate's share of them; age of the playing network, and time from
    export to adoption.
    """
    if plot is not None:
        require_drawable(plot)
    game, paths = chosen_run(game_name, parameters, run_dir)
    metrics = read_metrics(paths.metrics)
    for name, count in metrics.damaged_lines.items():
        screen.note(f"left out {count} damaged {'line' if count == 1 else 'lines'} of {paths.metrics / name}")
    found = run_curves(metrics, points=points)
    if plot is not None:
        _draw(found, game, plot)
    if as_json:
        screen.emit_json(_about(found, game, paths))
    else:
        _show(found)


def _show(found: Curves) -> None:
    table = screen.table(">hours", *(f">{HEADERS[curve.name]}" for curve in found.curves))
    for place, hours in enumerate(found.hours):
        table.add_row(f"{hours:.2f}", *(_value(curve, place) for curve in found.curves))
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


def _about(found: Curves, game: Game, paths: RunPaths) -> dict[str, Any]:
    return {
        "game": game.spec().name,
        "run_dir": str(paths.root),
        "hours": list(found.hours),
        "curves": {
            curve.name: {"label": curve.label, "unit": curve.unit, "values": [_json(value) for value in curve.values]}
            for curve in found.curves
        },
    }


def _json(value: float) -> float | None:
    return None if math.isnan(value) else value
