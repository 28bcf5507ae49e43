"""`zerofleet accuracy`: share of a player's moves that keep the value of the position under perfect play."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from games.core import Game
from games.positions import parameters_text, titled
from zerofleet.agents.exact.solver import MAX_NODES, fits
from zerofleet.agents.model.search_options import SearchOptions
from zerofleet.cli import screen
from zerofleet.cli.options import (
    GameOrRun,
    Json,
    Parameters,
    RunDir,
    Seed,
    Simulations,
    chosen_simulations,
    game_or_that_of_run,
    naming_default_game,
)
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.opening import evaluating
from zerofleet.library.accuracy_record import (
    Accuracy,
    Figures,
    MeasuredAccuracy,
    PlyFigures,
    Result,
    accuracy_file,
    append_accuracy,
    drawn_set,
    filed_set,
    stored_set,
)
from zerofleet.library.stored_positions import positions_of_stored_games
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.run_lookup import find_run
from zerofleet.storage.run_paths import RunPaths
from zerofleet.strength.accuracy import (
    Chooser,
    GradedMove,
    Position,
    Share,
    Tally,
    Yardstick,
    agent_chooser,
    grade,
    model_chooser,
    random_positions,
    self_play_positions,
    tally,
    yardstick,
)
from zerofleet.strength.learning.judges import mode_names
from zerofleet.strength.position_file import read_positions
from zerofleet.supervisor.borrowed import served
from zerofleet.supervisor.entrants import entrants, is_model, serving_agent, version_of

__all__ = ["accuracy"]

BANDS = 7  # rows of the table, of six plies each in Connect Four
SOURCES = {"random": "random games", "self-play": "self-play games", "stored": "stored games", "file": "the file"}


@dataclass(frozen=True, slots=True)
class _Given:
    """Positions in place of those of random games and self-play."""

    source: str
    name: str
    """Name of the set."""
    positions: list[Position]


@dataclass(frozen=True, slots=True)
class _Request:
    game: Game
    player: str
    positions: int
    first_ply: int
    simulations: int
    seed: int
    given: _Given | None


@dataclass(frozen=True, slots=True)
class _Asked:
    """Moves chosen by a player in the positions of one source, for each of its modes."""

    source: str
    positions: list[Position]
    modes: tuple[str, ...]
    chosen: list[list[int]]


@dataclass(frozen=True, slots=True)
class _Played:
    """Moves of the player in every position."""

    name: str
    version: tuple[RunPaths, int] | None
    """Run and version of a model; None for an agent."""
    searches: dict[str, str]
    """Search of each mode of a model, see `Result.search`; none for an agent."""
    parts: list[_Asked]


def accuracy(
    player: Annotated[
        str,
        typer.Argument(metavar="PLAYER", help="champion, model:N, or an agent such as alpha_beta:5 or mcts:50,model=champion."),
    ],
    *,
    game_name: GameOrRun = None,
    positions: Annotated[
        int,
        typer.Option(
            "--positions", metavar="N", min=1, help="Number of positions from random games, and as many from self-play."
        ),
    ] = 500,
    first_ply: Annotated[
        int,
        typer.Option(
            "--first-ply", metavar="K", min=0, help="Earliest ply of a position; the first plies take longest to solve."
        ),
    ] = 0,
    positions_file: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="File of positions to judge, in place of random games and self-play."),
    ] = None,
    stored: Annotated[
        bool,
        typer.Option(
            "--stored", help="Judge positions of the run's newest stored games, in place of random games and self-play."
        ),
    ] = False,
    max_nodes: Annotated[
        int | None,
        typer.Option(
            "--max-nodes",
            metavar="N",
            min=1,
            help="Leave out positions of Connect Four for which the solver needs more nodes; 4,000,000 are about a second.",
            show_default="all are solved",
        ),
    ] = None,
    simulations: Simulations = None,
    run_dir: RunDir = None,
    parameters: Parameters = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Show by ply how often a player's move keeps the value of the position: won stays won, drawn stays drawn.

    Positions come from random games and from self-play from random openings, from the run's stored games, or from a file: one
    per line, as moves or as columns and score (Pascal Pons's test sets of Connect Four). A model plays with its search and
    without. The columns after `that matter` leave out positions in which every move keeps the value; `exact` counts moves than
    which none scores better. The figures of champion and model:N are recorded in the run, for its curves and its report.
    """
    game = game_or_that_of_run(game_name, parameters, run_dir)
    perfect = yardstick(game, max_nodes=max_nodes or MAX_NODES)
    if max_nodes is not None and not fits(game):
        raise InvalidRequest(f"{titled(game)} is solved by a table, without a limit of nodes; omit --max-nodes")
    given = None
    if positions_file is not None:
        given = _filed(game, positions_file, stored=stored, first_ply=first_ply)
    elif stored:
        with naming_default_game(game_name, run_dir):
            given = _stored(game, run_dir, count=positions, seed=seed, first_ply=first_ply)
    known = drawn_set(positions, seed=seed, first_ply=first_ply) if given is None else given.name
    known += "" if max_nodes is None else f", at most {max_nodes:,} nodes"
    request = _Request(game, player, positions, first_ply, chosen_simulations(game, simulations), seed, given)
    if not json:
        of = f"{len(given.positions):,}" if given is not None else f"{positions:,} random and {positions:,} self-play"
        screen.note(f"{titled(game)}, {of} positions")
    with naming_default_game(game_name, run_dir):
        player_asked = asyncio.run(_ask(request, run_dir))
    if not any(part.positions for part in player_asked.parts):
        raise InvalidRequest(
            f"no game of {game.spec().name} has a position from ply {first_ply} on; take an earlier --first-ply"
        )
    results = [(part, _grade(perfect, game, part, max_nodes)) for part in player_asked.parts]
    found = Accuracy(
        player=player_asked.name,
        game=game.spec().name,
        parameters=parameters_text(game),
        seed=seed,
        unit=perfect.unit,
        first_ply=first_ply,
        simulations=request.simulations,
        wanted_positions=None if positions_file is not None else positions,
        max_nodes=max_nodes,
        results=tuple(
            _result(part.source, mode, player_asked.searches.get(mode, ""), known, moves)
            for part, graded in results
            for mode, moves in zip(part.modes, graded, strict=True)
        ),
    )
    if json:
        screen.emit_value(found)
    else:
        for part, graded in results:
            for mode, moves in zip(part.modes, graded, strict=True):
                _show(f"{found.player}, {mode}, positions of {SOURCES[part.source]}", game, moves, perfect.unit)
    if player_asked.version is not None:  # last: a run directory that cannot be written costs the record alone
        paths, version = player_asked.version
        append_accuracy(paths, MeasuredAccuracy(version=version, measured_at=datetime.now(UTC), accuracy=found))
        screen.note(f"recorded in {accuracy_file(paths)}")


def _filed(game: Game, file: Path, *, stored: bool, first_ply: int) -> _Given:
    """Return the positions of a file. Raises `InvalidRequest`, also beside options that choose positions."""
    if stored:
        raise InvalidRequest("--stored and --from both name the positions; give one of them")
    if first_ply:
        raise InvalidRequest("--first-ply is for positions that are drawn, and --from names them; leave one out")
    filed = [one.moves for one in read_positions(game, file)]
    return _Given("file", filed_set(file.name, filed), filed)


def _stored(game: Game, run_dir: Path | None, *, count: int, seed: int, first_ply: int) -> _Given:
    """Return positions of the newest stored games of the run. Raises `RunDirectoryError`, `InvalidRequest`."""
    with GameLog.open(find_run(game, run_dir).replay, writer=False) as log:
        found = positions_of_stored_games(log, game, count=count, seed=seed, first_ply=first_ply)
    name = stored_set(count, seed=seed, first_ply=first_ply, oldest=found.oldest, newest=found.newest)
    return _Given("stored", name, found.positions)


async def _ask(request: _Request, run_dir: Path | None) -> _Played:
    """Return the player with its moves; a model's inference server is started for the duration."""
    game, seed = request.game, request.seed
    async with AsyncExitStack() as stack:
        modes: dict[str, Chooser]
        searches: dict[str, str] = {}
        measured: tuple[RunPaths, int] | None = None
        if is_model(request.player):
            paths = find_run(game, run_dir)
            version = version_of(request.player, paths, game)
            address = await stack.enter_async_context(served(paths, game, versions=[version]))
            evaluator = await stack.enter_async_context(evaluating(address, game))
            name, measured = f"model:{version}", (paths, version)
            if request.player == "champion":
                screen.note(f"champion is {name} of {paths.root}")
            budgets = mode_names(request.simulations)
            searches = {mode: str(SearchOptions.of_match(game.spec(), budget)) for mode, budget in budgets.items()}
            modes = {
                mode: model_chooser(game, evaluator, version=version, simulations=budget, seed=seed)
                for mode, budget in budgets.items()
            }
        else:
            agent = await stack.enter_async_context(
                serving_agent(entrants([request.player], game, run_dir, note=screen.note), game)
            )
            name, modes = agent.name, {"as it is": agent_chooser(game, agent, seed=seed)}
        if request.given is not None:
            return _Played(name, measured, searches, [await _choose(request.given.source, request.given.positions, modes)])
        *_, strongest = modes.values()
        sources = (
            random_positions(game, count=request.positions, seed=seed, first_ply=request.first_ply),
            await self_play_positions(game, strongest, count=request.positions, seed=seed, first_ply=request.first_ply),
        )
        parts = [await _choose(source, found, modes) for source, found in zip(("random", "self-play"), sources, strict=True)]
        return _Played(name, measured, searches, parts)


async def _choose(source: str, positions: list[Position], modes: dict[str, Chooser]) -> _Asked:
    chosen = [await chooser(positions) for chooser in modes.values()]
    return _Asked(source, positions, tuple(modes), chosen)


def _grade(perfect: Yardstick, game: Game, part: _Asked, max_nodes: int | None) -> list[list[GradedMove]]:
    """Return the graded moves of each mode; with `max_nodes`, without the positions that take the solver more."""
    hard = max_nodes is not None
    with screen.meter(f"solving positions of {SOURCES[part.source]}", len(part.positions)) as meter:
        graded = grade(perfect, game, part.positions, part.chosen, leave_out_hard=hard, progress=meter.advance)
    if max_nodes is not None and (left_out := len(part.positions) - len(graded[0])):
        screen.note(
            f"{left_out} of {len(part.positions)} positions of {SOURCES[part.source]} take the solver more than {max_nodes:,} "
            "nodes and are left out"
        )
    return graded


def _result(source: str, mode: str, search: str, positions: str, graded: Sequence[GradedMove]) -> Result:
    total = tally(graded, plies=max(1, len(graded), *(move.ply + 1 for move in graded)))
    plies = tuple(PlyFigures(ply=row.first_ply, **_figures(row).model_dump()) for row in tally(graded))
    known = _figures(total[0]) if total else None
    return Result(source=source, mode=mode, search=search, positions=positions, all=known, plies=plies)


def _figures(row: Tally) -> Figures:
    return Figures.model_validate(asdict(row) | {"first_ply": None, "last_ply": None})


def _show(title: str, game: Game, graded: Sequence[GradedMove], unit: str) -> None:
    columns = (">positions", ">kept", ">95 %", ">that matter", ">kept", ">95 %", ">exact", ">95 %", f">{unit} lost")
    rows = screen.table("plies", *columns, title=title)
    for row in tally(graded, plies=max(1, -(-game.spec().max_plies // BANDS))):
        rows.add_row(f"{row.first_ply} to {row.last_ply}", *_cells(row))
    for row in tally(graded, plies=game.spec().max_plies + 1):
        rows.add_row("all", *_cells(row), style="bold")
    screen.out().print(rows)
    screen.out().print()


def _cells(row: Tally) -> tuple[str, ...]:
    lost = "" if row.mean_lost is None else f"{row.mean_lost:.2f}"
    return (str(row.kept.of), *_share(row.kept), str(row.decided.of), *_share(row.decided), *_share(row.exact), lost)


def _share(share: Share) -> tuple[str, str]:
    if share.share is None:
        return "", ""
    return f"{100 * share.share:.1f} %", f"{100 * share.low:.1f} to {100 * share.high:.1f}"
