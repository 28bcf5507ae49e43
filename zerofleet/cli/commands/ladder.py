"""`zerofleet ladder`: joint ratings of the champions of a run and classical players, as a table and a curve."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from zerofleet.cli import screen
from zerofleet.cli.options import Json, Parameters, RunDir, Search, Seed, Simulations, chosen_run
from zerofleet.library.ladder_play import GAMES_PER_PAIR, RunLadder, run_ladder
from zerofleet.library.ladder_table import ChampionStanding, LadderTable
from zerofleet.storage.files import atomic_publish
from zerofleet.strength.charts import LadderPoint, ladder_chart, require_outputs
from zerofleet.strength.ladders import LadderBook
from zerofleet.strength.matches import GameResult
from zerofleet.strength.ratings import Rating

__all__ = ["ladder"]


SHORT_RUN_HOURS = 3.0  # drawn over minutes


class Axis(StrEnum):
    """Horizontal axis of the curve."""

    VERSION = "version"
    HOURS = "hours"


def ladder(
    game_name: Annotated[str | None, typer.Argument(metavar="[GAME]", help="Game of the run; optional with --run-dir.")] = None,
    *,
    run_dir: RunDir = None,
    rungs: Annotated[
        str | None,
        typer.Option(
            "--rungs", metavar="A,B,...", help="Classical players, weakest first.", show_default="the rungs of the game"
        ),
    ] = None,
    games: Annotated[
        int, typer.Option("--games", metavar="N", min=0, help="Games per pair; 0 shows the games already played.")
    ] = GAMES_PER_PAIR,
    simulations: Simulations = None,
    search: Search = "",
    every: Annotated[
        int, typer.Option("--every", metavar="K", min=1, help="Only every K-th champion, always with the first and the last.")
    ] = 1,
    opening_plies: Annotated[
        int | None,
        typer.Option(
            "--opening-plies",
            metavar="K",
            min=0,
            help="Random plies of each opening.",
            show_default="as in the gate of the run",
        ),
    ] = None,
    parameters: Parameters = None,
    seed: Seed = 0,
    as_json: Json = False,
    csv_file: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write the table as CSV.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw the curve, as .svg or .png.")] = None,
    over: Annotated[Axis, typer.Option("--over", help="Horizontal axis of the curve.")] = Axis.VERSION,
) -> None:
    """Rate every champion of a run against classical players, with `random` at 0.

    Games are stored in the run directory: the command may be interrupted, and repeated as the run progresses.
    Champions play the rungs and their neighbours from paired openings, on every seat.
    """
    require_outputs(plot, csv_file)
    game, paths = chosen_run(game_name, parameters, run_dir)
    chosen = run_ladder(
        game,
        paths,
        rungs=rungs,
        games=games,
        simulations=simulations,
        search=search,
        every=every,
        opening_plies=opening_plies,
        seed=seed,
    )
    with chosen.book(is_writer=True) as book:
        _play(chosen, book)
        table = chosen.table(book)
    if csv_file is not None:
        atomic_publish(csv_file, _csv(table, chosen.plan.rungs))
    if plot is not None:
        _draw(table, plot, over)
    if as_json:
        screen.emit_value(table)
    else:
        _show(table, chosen.plan.rungs)


def _play(chosen: RunLadder, book: LadderBook) -> None:
    """Play the missing games, with a borrowed inference server of the run."""
    missing = chosen.missing(book)
    if not missing:
        return

    def note(result: GameResult) -> None:
        meter.advance(remark=next((name for name in result.players if name.startswith("model:")), "rungs"))

    with screen.meter("games of the ladder", missing) as meter:
        asyncio.run(chosen.play(book, note=note))


def _show(table: LadderTable, rungs: Sequence[str]) -> None:
    rows = screen.table("player", "promoted at", ">Elo", ">95 % interval", ">games", *(f">{rung}" for rung in rungs))
    for standing in table.champions:
        rows.add_row(
            f"model:{standing.version}",
            _promoted(standing),
            *_elo(standing.elo, standing.elo_low, standing.elo_high),
            str(standing.games),
            *("" if against.share is None else f"{against.share:.1%}" for against in standing.against),
        )
    for rung in sorted(table.rungs, key=lambda rung: -rung.elo):
        rows.add_row(rung.name, "", *_elo(rung.elo, rung.low, rung.high), str(rung.games), style="dim")
    console = screen.out()
    console.print(rows)
    console.print(
        f"\nElo above random, {table.simulations} simulations per move, openings of {table.opening_plies} random plies; "
        "columns: share of the points against each rung"
    )


def _promoted(standing: ChampionStanding) -> str:
    if standing.promoted_at is None or standing.hours is None:
        return "unknown"
    return f"{standing.promoted_at[:16].replace('T', ' ')} ({_hours(standing.hours)})"


def _hours(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 1.0 else f"{hours * 60.0:.0f} min"


def _elo(elo: float | None, low: float | None, high: float | None) -> tuple[str, str]:
    if elo is None or low is None or high is None:
        return "", ""
    if low == high:
        return f"{elo:.0f}", ""
    return f"{elo:+.0f}", f"{low:+.0f} to {high:+.0f}"


def _csv(table: LadderTable, names: Sequence[str]) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["player", "promoted_at", "hours", "elo", "elo_low", "elo_high", "games", *(f"share_{n}" for n in names)])
    for s in table.champions:
        numbers = [s.elo, s.elo_low, s.elo_high]
        shares = [_number(against.share) for against in s.against]
        rows.writerow([f"model:{s.version}", s.promoted_at, _number(s.hours), *map(_number, numbers), s.games, *shares])
    for rung in table.rungs:
        rows.writerow([rung.name, "", "", *map(_number, (rung.elo, rung.low, rung.high)), rung.games, *[""] * len(names)])
    return text.getvalue()


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _scale(champions: Sequence[ChampionStanding]) -> tuple[float, str]:
    """Return the factor of hours on the axis of time, and its label: minutes in a short run."""
    is_short = max((s.hours for s in champions if s.hours is not None), default=0.0) < SHORT_RUN_HOURS
    return (60.0, "minutes since the start of the run") if is_short else (1.0, "hours since the start of the run")


def _draw(table: LadderTable, path: Path, over: Axis) -> None:
    points = []
    scale, label = _scale(table.champions) if over is Axis.HOURS else (1.0, "model version")
    for s in table.champions:
        at = s.hours if over is Axis.HOURS else s.version
        if at is not None and s.elo is not None and s.elo_low is not None and s.elo_high is not None:
            points.append(LadderPoint(scale * at, Rating(f"model:{s.version}", s.elo, s.elo_low, s.elo_high, s.games)))
    title = f"{table.game}: champions of a run among classical players"
    rungs = [Rating(rung.name, rung.elo, rung.low, rung.high, rung.games) for rung in table.rungs]
    ladder_chart(points, rungs, title=title, path=path, x_label=label)
    screen.note(f"wrote the curve to {path}")
