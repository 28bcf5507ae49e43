"""`zerofleet accuracy`: share of a player's moves that keep the value of the position under perfect play."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from games.core import Game
from games.positions import parameters_text
from zerofleet.cli import screen
from zerofleet.cli.options import Json, Parameters, RunDir, Seed, Simulations, chosen_game, chosen_simulations
from zerofleet.evaluators.opening import evaluating
from zerofleet.storage.run_lookup import find_run
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
from zerofleet.strength.position_file import read_positions
from zerofleet.supervisor.borrowed import served
from zerofleet.supervisor.entrants import entrants, is_model, serving_agent, version_of

__all__ = ["accuracy"]

BANDS = 7  # rows of the table, of six plies each in Connect Four
SOURCES = {"random": "random games", "self-play": "self-play games", "file": "the file"}


@dataclass(frozen=True, slots=True)
class _Request:
    game: Game
    player: str
    positions: int
    first_ply: int
    simulations: int
    seed: int
    filed: list[Position] | None
    """Positions of a file, in place of random and self-play games."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """Moves chosen by a player in the positions of one source, for each of its modes."""

    source: str
    positions: list[Position]
    modes: tuple[str, ...]
    chosen: list[list[int]]


def accuracy(
    player: Annotated[
        str,
        typer.Argument(metavar="PLAYER", help="champion, model:N, or an agent such as alpha_beta:5 or mcts:50,model=champion."),
    ],
    *,
    game_name: Annotated[str, typer.Option("--game", metavar="GAME", help="Game, such as connect_four.")] = "connect_four",
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
    simulations: Simulations = None,
    run_dir: RunDir = None,
    parameters: Parameters = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Show by ply how often a player's move keeps the value of the position: won stays won, drawn stays drawn.

    Positions come from random games and from self-play from random openings, or from a file: one per line, as moves or as
    columns and score (Pascal Pons's test sets of Connect Four). A model plays with its search and without. The columns after
    `that matter` leave out positions in which every move keeps the value; `exact` counts moves than which none scores better.
    """
    game = chosen_game(game_name, parameters)
    perfect = yardstick(game)
    filed = None if positions_file is None else [one.moves for one in read_positions(game, positions_file)]
    request = _Request(game, player, positions, first_ply, chosen_simulations(game, simulations), seed, filed)
    name, asked = asyncio.run(_ask(request, run_dir))
    results = [(part, _grade(perfect, game, part)) for part in asked]
    if json:
        about = {"game": game_name, "parameters": parameters_text(game), "seed": seed, "unit": perfect.unit}
        about |= {"first_ply": first_ply, "simulations": request.simulations}
        rows = [
            _result(part.source, mode, moves)
            for part, graded in results
            for mode, moves in zip(part.modes, graded, strict=True)
        ]
        screen.emit_json({"player": name, **about, "results": rows})
        return
    for part, graded in results:
        for mode, moves in zip(part.modes, graded, strict=True):
            _show(f"{name}, {mode}, positions of {SOURCES[part.source]}", game, moves, perfect.unit)


async def _ask(request: _Request, run_dir: Path | None) -> tuple[str, list[_Asked]]:
    """Return the player's name and moves; a model's inference server is borrowed for the duration."""
    game, seed = request.game, request.seed
    async with AsyncExitStack() as stack:
        modes: dict[str, Chooser]
        if is_model(request.player):
            paths = find_run(game, run_dir)
            version = version_of(request.player, paths, game)
            address = await stack.enter_async_context(served(paths, game, versions=[version]))
            evaluator = await stack.enter_async_context(evaluating(address, game))
            name = f"model:{version}"
            if request.player == "champion":
                screen.note(f"champion is {name} of {paths.root}")
            budgets = {"policy alone": 0}
            if request.simulations:
                budgets[f"{request.simulations} simulations"] = request.simulations
            modes = {
                mode: model_chooser(game, evaluator, version=version, simulations=budget, seed=seed)
                for mode, budget in budgets.items()
            }
        else:
            agent = await stack.enter_async_context(
                serving_agent(entrants([request.player], game, run_dir, note=screen.note), game)
            )
            name, modes = agent.name, {"as it is": agent_chooser(game, agent, seed=seed)}
        if request.filed is not None:
            return name, [await _choose("file", request.filed, modes)]
        *_, strongest = modes.values()
        sources = (
            random_positions(game, count=request.positions, seed=seed, first_ply=request.first_ply),
            await self_play_positions(game, strongest, count=request.positions, seed=seed, first_ply=request.first_ply),
        )
        return name, [
            await _choose(source, found, modes) for source, found in zip(("random", "self-play"), sources, strict=True)
        ]


async def _choose(source: str, positions: list[Position], modes: dict[str, Chooser]) -> _Asked:
    chosen = [await chooser(positions) for chooser in modes.values()]
    return _Asked(source, positions, tuple(modes), chosen)


def _grade(perfect: Yardstick, game: Game, part: _Asked) -> list[list[GradedMove]]:
    with screen.meter(f"solving positions of {SOURCES[part.source]}", len(part.positions)) as meter:
        return grade(perfect, game, part.positions, part.chosen, progress=meter.advance)


def _result(source: str, mode: str, graded: Sequence[GradedMove]) -> dict[str, Any]:
    total = tally(graded, plies=max(1, len(graded), *(move.ply + 1 for move in graded)))
    plies = [_figures(row) for row in tally(graded)]
    return {"source": source, "mode": mode, "all": _figures(total[0]) if total else None, "plies": plies}


def _figures(row: Tally) -> dict[str, Any]:
    figures = asdict(row)
    if row.first_ply == row.last_ply:
        del figures["last_ply"]
        return {"ply": figures.pop("first_ply"), **figures}
    del figures["first_ply"], figures["last_ply"]
    return figures


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
