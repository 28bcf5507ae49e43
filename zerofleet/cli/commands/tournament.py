"""`zerofleet tournament`: round-robin tournament on all cores, with ratings; resumable."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated

import typer

from games.core import Game
from zerofleet.agents import make_agent
from zerofleet.agents.model.search_options import parse_search
from zerofleet.cli import screen
from zerofleet.cli.commands.tournament_report import show_tournament
from zerofleet.cli.options import (
    GameOrRun,
    InProcess,
    Json,
    OpeningFile,
    Parameters,
    RunDir,
    Search,
    Seed,
    Simulations,
    chosen_simulations,
    game_or_that_of_run,
    refuse_search_without_model,
    stated_search,
)
from zerofleet.service.settings import open_run_store
from zerofleet.storage.files import atomic_publish
from zerofleet.strength.charts import rating_chart, require_outputs
from zerofleet.strength.matches import GameResult, Scoreboard, read_openings
from zerofleet.strength.processors import usable_cores
from zerofleet.strength.tournaments import (
    Duel,
    LocalWorker,
    ProcessWorker,
    ResultJournal,
    TournamentTerms,
    Worker,
    play_tournament,
    tabulate,
)
from zerofleet.strength.tournaments.play import restored
from zerofleet.strength.tournaments.workers import Setup
from zerofleet.supervisor.entrants import Entrants, entrants, evaluator_of, model_hashes, run_named_in, serving

__all__ = ["tournament"]


def tournament(
    names: Annotated[
        list[str],
        typer.Argument(metavar="AGENT", help="Players: agents (see zerofleet agents), champion, model:N, champion@RUN."),
    ],
    *,
    game_name: GameOrRun = None,
    games: Annotated[int, typer.Option("--games", metavar="N", min=1, help="Games per meeting, rounded up to groups.")] = 100,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir", metavar="DIR", help="Directory of results, from which to resume.", show_default="results are not stored"
        ),
    ] = None,
    simulations: Simulations = None,
    search: Search = "",
    opening_plies: Annotated[
        int, typer.Option("--opening-plies", metavar="K", min=0, help="Random plies of each group's opening.")
    ] = 2,
    openings: OpeningFile = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="Seat two players per game even where there are more seats.")] = False,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", min=1, help="Number of playing processes.", show_default="one per core"),
    ] = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write a CSV file with a line per duel.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw the ratings, as .svg or .png.")] = None,
    in_process: InProcess = False,
    run_dir: RunDir = None,
    parameters: Parameters = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Play a round-robin tournament from common openings; rate the players: Bayesian Elo, 95 % intervals, random at 0.

    Every opening is played with every seating; in games of more than two players each seat has a different player.
    With --dir the same command resumes a tournament, also after a crash. With --in-process each playing process evaluates
    the models.
    """
    require_outputs(plot, csv_file)
    game = game_or_that_of_run(game_name, parameters, run_dir or run_named_in(names))
    chosen = entrants(names, game, run_dir, note=screen.note, several_runs=True)
    budget = chosen_simulations(game, simulations)
    options = parse_search(search).resolved(game.spec(), budget)  # rejects options that do not suit the game
    refuse_search_without_model(chosen.players, simulations, search)
    terms = TournamentTerms(
        game=game,
        players=chosen.players,
        games=games,
        seed=seed,
        opening_plies=opening_plies,
        simulations=budget,
        search=stated_search(chosen.players, options),
        given_openings=None if openings is None else read_openings(game, openings),
        tables=not pairs and game.spec().num_players > 2 and len(names) >= game.spec().num_players,
    )
    with contextlib.ExitStack() as stack:
        journal = None
        if directory is not None:
            models = {"models": hashes} if (hashes := model_hashes(chosen, game)) else {}  # absent without models
            journal = stack.enter_context(ResultJournal(directory, terms.said() | models))
        boards = restored(terms, () if journal is None else journal.results)
        asyncio.run(_play(_Request(terms, chosen, workers or usable_cores(), in_process), boards, journal))
    table = tabulate(terms, boards)
    short = [meeting for meeting in terms.meetings if meeting.max_groups * meeting.games_per_group < games]
    if short and not json:
        supply = f"{game.spec().name} has" if openings is None else f"{openings} has"
        length = f" of {terms.opening_plies} plies" if openings is None else ""
        screen.note(
            f"{len(short)} of {len(terms.meetings)} meetings have {short[0].max_groups * short[0].games_per_group} games: "
            f"{supply} {short[0].max_groups} different openings{length}"
        )
    if csv_file is not None:
        atomic_publish(csv_file, _csv(table.duels))
    if plot is not None:
        rating_chart(table.ratings(), title=f"Tournament of {game.spec().name}", path=plot)
    if json:
        start = {"opening_plies": None, "openings": str(openings)} if openings is not None else {"openings": None}
        screen.emit_json(terms.said() | start | asdict(table))
    else:
        show_tournament(table)


@dataclass(frozen=True, slots=True)
class _Request:
    terms: TournamentTerms
    entrants: Entrants
    workers: int
    in_process: bool
    """Whether the playing processes evaluate the models, without an inference server."""

    @property
    def game(self) -> Game:
        return self.terms.game


async def _play(request: _Request, boards: Sequence[Scoreboard], journal: ResultJournal | None) -> None:
    """Play the missing games; when cancelled, print how to resume."""
    known = sum(len(board.results()) for board in boards)
    total = sum(len(board.terms.given_openings or ()) * board.terms.games_per_group for board in boards)
    if known == total:
        return
    async with AsyncExitStack() as stack:
        workers = await _workers(stack, request, games=total - known)
        with screen.meter(f"games of the tournament of {len(request.terms.players)}", total) as meter:
            meter.advance(known)

            def progress(result: GameResult) -> None:
                meter.advance()

            try:
                await play_tournament(boards, workers, journal=journal, progress=progress)
            except asyncio.CancelledError:
                if journal is not None:
                    screen.note(f"stopped; the same command resumes from the results in {journal.path.parent}")
                raise


async def _workers(stack: AsyncExitStack, request: _Request, *, games: int) -> list[Worker]:
    """Return the workers: this process if one is enough, otherwise separate processes."""
    game, simulations, search = request.game, request.terms.simulations, request.terms.search
    per_group = request.terms.meetings[0].games_per_group
    count = min(request.workers, max(1, games // per_group))
    if count > 1 and not request.in_process:
        addresses = await stack.enter_async_context(serving(request.entrants, game))
        setup = Setup.of(game, simulations, addresses, search)
    else:  # with several processes too: an unsuitable network is refused before the first of them starts
        evaluator = await stack.enter_async_context(evaluator_of(request.entrants, game, in_process=request.in_process))
        if count == 1:
            return [LocalWorker(game, evaluator, make_agent=make_agent, simulations=simulations, search=search)]
        setup = Setup.of(game, simulations, search=search)
        for one in request.entrants.runs:  # one at most
            setup = replace(setup, models=open_run_store(one.run).location, versions=one.versions)
    return [await stack.enter_async_context(ProcessWorker(setup)) for _ in range(count)]


def _csv(duels: Sequence[Duel]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Duel)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(duel) for duel in duels)
    return text.getvalue()
