"""`zerofleet ladder`: joint ratings of the champions of a run and classical players, as a table and a curve."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from games.core import Game
from games.positions import parameters_text
from zerofleet.agents import make_agent
from zerofleet.agents.model.search_options import parse_search
from zerofleet.cli import screen
from zerofleet.cli.options import Json, Parameters, RunDir, Search, Seed, Simulations, chosen_run, chosen_simulations
from zerofleet.contracts.manifests import Champion
from zerofleet.contracts.naming import model_name
from zerofleet.errors import ModelNotFound
from zerofleet.evaluators.base import Evaluator
from zerofleet.evaluators.opening import evaluating
from zerofleet.library.times import time_of, time_text
from zerofleet.presets import preset
from zerofleet.service.settings import open_run_store
from zerofleet.storage.files import atomic_publish
from zerofleet.storage.runs import RunHeader, RunPaths, read_header
from zerofleet.strength.charts import LadderPoint, ladder_chart, require_drawable
from zerofleet.strength.ladders import LadderBook, LadderPlan, default_rungs, parse_rungs, spaced
from zerofleet.strength.ladders.play import climb, missing_games
from zerofleet.strength.ladders.rungs import require_rungs
from zerofleet.strength.matches import MatchSettings
from zerofleet.strength.ratings import Rating
from zerofleet.supervisor.borrowed import served

__all__ = ["ladder"]

SLOTS = 128  # games at once, as in `zerofleet match`


class Axis(StrEnum):
    """Horizontal axis of the curve."""

    VERSION = "version"
    HOURS = "hours"


@dataclass(frozen=True, slots=True)
class Against:
    """Games of a champion against one rung."""

    rung: str
    games: int
    share: float | None
    """Share of the points, a draw counting half; None without games. `share_low` and `share_high` are its 95 % interval."""
    share_low: float | None
    share_high: float | None


@dataclass(frozen=True, slots=True)
class Standing:
    """Champion on the ladder."""

    version: int
    promoted_at: str | None
    """UTC, ISO 8601; None for an unknown time."""
    hours: float | None
    """Hours from the start of the run to its promotion; None for an unknown time."""
    elo: float | None
    """None before its first game. `elo_low` and `elo_high` are its 95 % interval."""
    elo_low: float | None
    elo_high: float | None
    games: int
    against: tuple[Against, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """The whole ladder."""

    champions: tuple[Standing, ...]
    """Oldest first."""
    rungs: tuple[Rating, ...]
    """In the given order, weakest first."""


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
    ] = 100,
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
    if plot is not None:
        require_drawable(plot)
    game, paths = chosen_run(game_name, parameters, run_dir)
    header = read_header(paths.root)
    champions = spaced(_champions(paths, game), every)
    plan = LadderPlan(
        game=game,
        rungs=_rungs(rungs, game),
        versions=tuple(champion.version for champion in champions),
        games=games,
        simulations=chosen_simulations(game, simulations),
        opening_plies=preset(game, header.preset).gate.opening_plies if opening_plies is None else opening_plies,
        seed=seed,
        search=str(parse_search(search)),
    )
    _settings(plan, slots=1).search(game.spec())  # rejects options that do not suit the game
    with LadderBook(paths.root, game, model=model_name(game)) as book:
        asyncio.run(_play(plan, book, paths))
        table = _table(plan, book, champions, header)
    if csv_file is not None:
        atomic_publish(csv_file, _csv(table, plan.rungs))
    if plot is not None:
        _draw(table, game, plot, over)
    if as_json:
        screen.emit_json(_about(plan, paths) | asdict(table))
    else:
        _show(table, plan)


def _rungs(text: str | None, game: Game) -> tuple[str, ...]:
    if text is None:
        return default_rungs(game, make_agent=make_agent)
    return require_rungs(parse_rungs(text), game, make_agent=make_agent)


def _champions(paths: RunPaths, game: Game) -> list[Champion]:
    """Return the champions in order of their first promotion, each version once. Raises `ModelNotFound` if there is none."""
    model = model_name(game)
    found = {champion.version: champion for champion in reversed(open_run_store(paths).history(model))}
    if not found:
        raise ModelNotFound(f"{paths.root} has no champion of {model} yet; continue the run until the first promotion")
    return sorted(found.values(), key=lambda champion: champion.epoch)


async def _play(plan: LadderPlan, book: LadderBook, paths: RunPaths) -> None:
    """Play the missing games, with a borrowed inference server of the run."""
    missing = sum(missing_games(book, match, plan.groups) for match in plan.matches()) if plan.games else 0
    if not missing:
        return

    @asynccontextmanager
    async def lend(versions: Sequence[int]) -> AsyncIterator[Evaluator]:
        async with AsyncExitStack() as stack:
            address = await stack.enter_async_context(served(paths, plan.game, versions=versions)) if versions else None
            yield await stack.enter_async_context(evaluating(address, plan.game))

    settings = _settings(plan, slots=min(SLOTS, missing))
    with screen.meter("ladder", missing) as meter:
        await climb(
            plan,
            book,
            lend=lend,
            settings=settings,
            make_agent=make_agent,
            note=lambda result: meter.advance(remark=next((n for n in result.players if n.startswith("model:")), "rungs")),
        )


def _settings(plan: LadderPlan, *, slots: int) -> MatchSettings:
    return MatchSettings(simulations=plan.simulations, options=parse_search(plan.search), slots=slots)


def _table(plan: LadderPlan, book: LadderBook, champions: Sequence[Champion], header: RunHeader) -> Table:
    """Return the ratings of the plan's players by all games in the book under the plan's conditions."""
    ratings = book.ratings(book.matches(simulations=plan.simulations, opening_plies=plan.opening_plies, search=plan.search))
    by_name = {rating.name: rating for rating in ratings}
    reached = [by_name[rung] for rung in plan.rungs if rung in by_name]
    return Table(tuple(_standing(one, plan, book, by_name, header) for one in champions), tuple(reached))


def _about(plan: LadderPlan, paths: RunPaths) -> dict[str, object]:
    return {
        "game": plan.game.spec().name,
        "parameters": parameters_text(plan.game),
        "run_dir": str(paths.root),
        "seed": plan.seed,
        "simulations": plan.simulations,
        "search": plan.search,
        "opening_plies": plan.opening_plies,
        "games_per_pair": plan.games,
    }


def _standing(
    champion: Champion, plan: LadderPlan, book: LadderBook, ratings: dict[str, Rating], header: RunHeader
) -> Standing:
    promoted_at = time_of(champion.promoted_at_ms)
    rating = ratings.get(f"model:{champion.version}")
    return Standing(
        version=champion.version,
        promoted_at=time_text(champion.promoted_at_ms),
        hours=None if promoted_at is None else (promoted_at - header.created_at).total_seconds() / 3600.0,
        elo=rating.elo if rating else None,
        elo_low=rating.low if rating else None,
        elo_high=rating.high if rating else None,
        games=rating.games if rating else 0,
        against=tuple(_against(champion.version, plan, book)),
    )


def _against(version: int, plan: LadderPlan, book: LadderBook) -> Iterable[Against]:
    for match in plan.champion_matches(version):
        if match.second in plan.rungs:
            standing = book.board(match, 1).standing()
            low, high = standing.interval
            known = standing.groups > 0
            yield Against(
                match.second,
                standing.games,
                standing.share if known else None,
                low if known else None,
                high if known else None,
            )


def _show(table: Table, plan: LadderPlan) -> None:
    rows = screen.table("player", "promoted at", ">Elo", ">95 % interval", ">games", *(f">{rung}" for rung in plan.rungs))
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
        f"\nElo above random, {plan.simulations} simulations per move, openings of {plan.opening_plies} random plies; "
        "columns: share of the points against each rung"
    )


def _promoted(standing: Standing) -> str:
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


def _csv(table: Table, names: Sequence[str]) -> str:
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


def _draw(table: Table, game: Game, path: Path, over: Axis) -> None:
    points = []
    for s in table.champions:
        at = float(s.version) if over is Axis.VERSION else s.hours
        if at is not None and s.elo is not None and s.elo_low is not None and s.elo_high is not None:
            points.append(LadderPoint(at, Rating(f"model:{s.version}", s.elo, s.elo_low, s.elo_high, s.games)))
    label = "model version" if over is Axis.VERSION else "hours since the start of the run"
    title = f"{game.spec().name}: champions of a run among classical players"
    ladder_chart(points, table.rungs, title=title, path=path, x_label=label)
    screen.note(f"wrote the curve to {path}")
