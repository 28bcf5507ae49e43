"""`zerofleet behaviour`: tables of what players do, from a run's games or from games played now."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from games.core import Game
from games.positions import parameters_text
from zerofleet.agents.model.search_options import parse_search
from zerofleet.cli import screen
from zerofleet.cli.commands.behaviour_report import show_behaviour
from zerofleet.cli.options import (
    InProcess,
    Json,
    Parameters,
    RunDir,
    Search,
    Seed,
    Simulations,
    chosen_game,
    chosen_run,
    chosen_simulations,
    refuse_search_without_model,
)
from zerofleet.contracts.naming import is_version, model_name
from zerofleet.errors import InvalidRequest
from zerofleet.service.settings import open_run_store
from zerofleet.storage.files import atomic_publish
from zerofleet.storage.runs import RunPaths
from zerofleet.strength.behaviour.catalogue import OPENINGS, TABLES, check_suits, check_table, new_collector
from zerofleet.strength.behaviour.chart import behaviour_chart
from zerofleet.strength.behaviour.collector import Reading, collect
from zerofleet.strength.behaviour.finished import FinishedGame
from zerofleet.strength.behaviour.openings import FirstPosition, ask, openings_table, played_first
from zerofleet.strength.behaviour.sources import Sitting, logged_games, played_games
from zerofleet.strength.behaviour.tables import BehaviourTable, as_csv, as_json
from zerofleet.strength.charts import require_outputs
from zerofleet.strength.matches import MatchSettings, Player
from zerofleet.supervisor.entrants import Entrants, ServedRun, entrants, evaluator_of

__all__ = ["behaviour"]

GAMES = 1000
SLOTS = 128
ALL = "all"


@dataclass(frozen=True, slots=True)
class _Source:
    """Games of a table, and the run of their models."""

    games: list[FinishedGame]
    run: RunPaths | None
    words: str
    """Where the games come from."""


def behaviour(
    table: Annotated[str, typer.Argument(metavar="TABLE", help=f"Table: {', '.join(TABLES)}.")],
    players: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PLAYER]...",
            help="Players of games played now, one for each seat or one for all; none: the games of a run.",
        ),
    ] = None,
    *,
    game_name: Annotated[
        str | None, typer.Option("--game", metavar="GAME", help="Game; optional with --run-dir.", show_default=False)
    ] = None,
    run_dir: RunDir = None,
    games: Annotated[
        int, typer.Option("--games", metavar="N", min=1, help="Newest games of the run, or games to play.")
    ] = GAMES,
    versions: Annotated[
        str,
        typer.Option(
            "--versions",
            metavar="LIST",
            help="Rows for each model version: all, or versions such as 1,10,20.",
            show_default="all games together",
        ),
    ] = "",
    seat: Annotated[int, typer.Option("--seat", metavar="N", min=1, help="Seat whose results turns and lines show.")] = 1,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="Most lines, or most first moves of a version.")] = 20,
    plies: Annotated[int, typer.Option("--plies", metavar="N", min=1, help="First moves of a line.")] = 9,
    bins: Annotated[int, typer.Option("--bins", metavar="N", min=3, help="Bins of a histogram, odd.")] = 13,
    opening_plies: Annotated[
        int | None,
        typer.Option("--opening-plies", metavar="K", min=0, help="Random plies before each game played now.", show_default="0"),
    ] = None,
    simulations: Simulations = None,
    search: Search = "",
    in_process: InProcess = False,
    csv_file: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write the table as CSV.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw the table, as .svg or .png.")] = None,
    parameters: Parameters = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Show how players behave: Take 6! and rock paper scissors by turn, games by line, histograms of values, openings by
    version, placements by seat.

    Without players, the games are the newest ones that the trainer of a run stored, also while it is running. With players they
    are played now, each player on a fixed seat. Figures have 95 % intervals over games.
    """
    check_table(table)
    if bins % 2 == 0:
        raise typer.BadParameter(f"{bins} is even; an odd number of bins has one for draws", param_hint="--bins")
    require_outputs(plot, csv_file)
    chosen = _read_versions(versions)
    reading = Reading(seat=seat - 1, top=top, plies=plies, bins=bins)
    if players and game_name is None:
        raise typer.BadParameter(
            f"the players {', '.join(players)} play now, which needs a game; without players the games are those of a run",
            param_hint="--game",
        )
    for option, given in (("--opening-plies", opening_plies), ("--simulations", simulations), ("--search", search or None)):
        if not players and given is not None:
            raise typer.BadParameter(
                "the games of a run are stored, not played; name players, or leave it out", param_hint=option
            )
    if players and table == OPENINGS and opening_plies:
        raise typer.BadParameter("the first moves would be random; use --search temperature=1", param_hint="--opening-plies")
    if players and game_name is not None:
        game = chosen_game(game_name, parameters)
        check_suits(table, game, reading)
        budget = chosen_simulations(game, simulations)
        play = MatchSettings(simulations=budget, slots=min(SLOTS, games), options=parse_search(search))
        each = entrants(players, game, run_dir, note=screen.note)
        refuse_search_without_model(each.players, simulations, search)
        sitting = Sitting(game, _seated(each, game), games, seed, opening_plies or 0)
        source = _play(sitting, each, play, in_process=in_process)
    else:
        game, run = chosen_run(game_name, parameters, run_dir)
        check_suits(table, game, reading)
        source = _Source(_read(run, games), run, f"the newest games of {run.root}")
    found = _table(table, game, source, reading, chosen, in_process=in_process)
    _write(found, csv_file, plot)
    if json:
        about = {"game": game.spec().name, "parameters": parameters_text(game), "source": source.words}
        screen.emit_json({**about, **as_json(found)})
        return
    show_behaviour(found)
    screen.note(f"from {source.words}")


def _write(found: BehaviourTable, csv_file: Path | None, plot: Path | None) -> None:
    if csv_file is not None:
        atomic_publish(csv_file, as_csv(found))
        screen.note(f"wrote the table to {csv_file}")
    if plot is not None:
        behaviour_chart(found, plot)
        screen.note(f"drew the table in {plot}")


def _seated(each: Entrants, game: Game) -> tuple[Player, ...]:
    """Return a player for each seat: one player has all of them."""
    return each.players * (game.spec().num_players if len(each.players) == 1 else 1)


def _read(run: RunPaths, games: int) -> list[FinishedGame]:
    with screen.meter("reading games", games) as meter:
        found = []
        for finished in logged_games(run.replay, games):
            found.append(finished)
            meter.advance()
        return found


def _play(sitting: Sitting, each: Entrants, play: MatchSettings, *, in_process: bool) -> _Source:
    sitting.require_variety(play)
    found = asyncio.run(_played(sitting, each, play, in_process=in_process))
    run = each.runs[0].run if each.runs else None
    return _Source(found, run, f"games played now by {', '.join(player.name for player in sitting.players)}")


async def _played(sitting: Sitting, each: Entrants, play: MatchSettings, *, in_process: bool) -> list[FinishedGame]:
    async with evaluator_of(each, sitting.game, in_process=in_process) as evaluator:
        with screen.meter("games", sitting.games) as meter:
            found = []
            async with aclosing(played_games(sitting, evaluator, play)) as games:
                async for finished in games:
                    found.append(finished)
                    meter.advance()
            return found


def _table(
    name: str, game: Game, source: _Source, reading: Reading, versions: list[int] | None, *, in_process: bool
) -> BehaviourTable:
    """Return the table; raises `InvalidRequest` if no game counts."""
    if not source.games:
        raise InvalidRequest(f"there is no game yet in {source.words}")
    if versions and not any(finished.version in versions for finished in source.games):
        listed = " or ".join(map(str, versions))
        raise InvalidRequest(f"no game is of version {listed} among {source.words}, {len(source.games):,} in all")
    if name != OPENINGS:
        return collect(lambda: new_collector(name, game, reading), source.games, versions=versions)
    played = {version: counts for version, counts in played_first(source.games).items() if not versions or version in versions}
    asked: dict[int, FirstPosition] = {}
    if source.run is not None:
        stored = open_run_store(source.run).versions(model_name(game))
        wanted = tuple(sorted({*played, *(versions or ())} & set(stored)))
        asked = asyncio.run(_ask(game, source.run, wanted, in_process=in_process))
    return openings_table(game, played, asked, top=reading.top)


async def _ask(game: Game, run: RunPaths, versions: tuple[int, ...], *, in_process: bool) -> dict[int, FirstPosition]:
    if not versions:
        return {}
    async with evaluator_of(Entrants((), (ServedRun(run, versions),)), game, in_process=in_process) as evaluator:
        return await ask(game, evaluator, versions)


def _read_versions(text: str) -> list[int] | None:
    """Return the versions to tell apart, none for all of them; None if games are not told apart."""
    if not text:
        return None
    if text == ALL:
        return []
    numbers = [number.strip() for number in text.split(",")]
    if not all(is_version(number) for number in numbers):
        raise typer.BadParameter(f"{text!r} is neither {ALL} nor versions such as 1,10,20", param_hint="--versions")
    return sorted({int(number) for number in numbers})
