"""`zerofleet models compare`: two versions of a run beside each other, and where their policies and values differ most."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from zerofleet.cli import screen
from zerofleet.cli.options import GameName, Json, Parameters, RunDir, Seed, chosen_game
from zerofleet.library.chosen_positions import (
    DEFAULT_POSITIONS,
    MOST_POSITIONS,
    ChosenPositions,
    Sample,
    line_positions,
    sampled_positions,
)
from zerofleet.library.model_comparison import (
    MOST_ROWS,
    ComparedOpinions,
    ModelComparison,
    OpinionComparison,
    Order,
    PositionDifference,
    VersionComparison,
    compare_opinions,
    compare_versions,
    models_of,
    version_named,
)
from zerofleet.library.opinion_figures import MeanFigure
from zerofleet.library.run_files import OpenRun
from zerofleet.storage.run_lookup import find_run

__all__ = ["compare"]

ROWS = 12
POINTS = 100.0

Version = typer.Argument(metavar="A", help="Version, such as 12, or champion.")


def compare(
    game_name: GameName,
    first: Annotated[str, Version],
    second: Annotated[str, typer.Argument(metavar="B", help="Version to compare A with.")],
    *,
    positions: Annotated[
        int, typer.Option("--positions", metavar="N", min=1, max=MOST_POSITIONS, help="Positions of the newest stored games.")
    ] = DEFAULT_POSITIONS,
    seed: Seed = 0,
    before: Annotated[
        int | None,
        typer.Option("--before", metavar="GAME", min=0, help="Number of a game: take positions of older ones alone."),
    ] = None,
    moves: Annotated[
        str, typer.Option("--moves", metavar="MOVES", help='Positions of this line in place of stored games, such as "d1 d2".')
    ] = "",
    order: Annotated[
        Order | None,
        typer.Option("--order", help="Order of the positions: by policy or by value.", show_default="policy"),
    ] = None,
    rows: Annotated[
        int, typer.Option("--rows", metavar="N", min=0, max=MOST_ROWS, help="Most different positions to show.")
    ] = ROWS,
    run_dir: RunDir = None,
    parameters: Parameters = None,
    json: Json = False,
) -> None:
    """Compare two versions: manifests, their match, and where their policies and values differ most.

    The networks evaluate alone, without a search: perceptrons in this process, others in the run's inference server, or in one
    that is started for the purpose. Values are those of the player to move. The interval of a mean counts the positions of one
    game as dependent.
    """
    paths = find_run(chosen_game(game_name, parameters), run_dir)
    run = OpenRun(paths.root.name, paths)
    try:
        pair = version_named(run, first), version_named(run, second)
        versions = compare_versions(run, *pair)
        sample = Sample(positions, seed, before)
        chosen = line_positions(run.game, moves) if moves else sampled_positions(run, sample)
        compared = asyncio.run(_compared(run, pair, chosen, None if moves else seed))
        opinions = compared.view(order, limit=rows)
    finally:
        run.close()
    if json:
        screen.emit_value(ModelComparison(versions=versions, opinions=opinions))
        return
    _show_versions(versions)
    _show_opinions(opinions)


async def _compared(run: OpenRun, pair: tuple[int, int], chosen: ChosenPositions, seed: int | None) -> ComparedOpinions:
    async with models_of(run, pair) as network:
        with screen.meter("evaluating", 2 * len(chosen)) as meter:
            return await compare_opinions(chosen, (network, network), pair, seed=seed, advance=meter.advance)


def _show_versions(found: VersionComparison) -> None:
    first, second = str(found.first.version), str(found.second.version)
    table = screen.table("differs", first, second, title=f"{found.model}: version {first} beside {second}")
    for one in found.settings:
        if one.differs:
            table.add_row(one.name, one.first or "-", one.second or "-")
    screen.out().print(table)
    for row in found.matches:
        share = f"{row.share:.1%} of the points ({row.share_low:.1%} to {row.share_high:.1%}), " if row.is_begun else ""
        screen.out().print(
            f"match of {row.version} against {row.opponent}: +{row.wins} ={row.draws} -{row.losses} in {row.pairs} pairs, "
            f"{share}{row.status or row.state}"
        )
    if not found.matches:
        screen.out().print("the gate played no match between them")


def _show_opinions(found: OpinionComparison) -> None:
    place = f"{found.games:,} stored games" if found.source == "stored games" else "a line of moves"
    screen.out().print(f"\n{found.positions:,} positions of {place}, evaluated in {found.evaluated_in}")
    figures = screen.table("mean", ">value", ">95 % interval")
    for name, figure in (
        ("total variation of the policies", found.total_variation),
        (f"divergence of {found.first} from {found.second}, nats", found.divergence),
        (f"divergence of {found.second} from {found.first}, nats", found.reverse_divergence),
        ("share with the same best move", found.same_best),
        ("gap of the values", found.value_gap),
        (f"value of {found.second} minus that of {found.first}", found.value_shift),
    ):
        figures.add_row(name, f"{figure.mean:.4f}", _interval(figure))
    screen.out().print(figures)
    if not found.has_policies:
        screen.out().print("both policies are uniform: the networks have values alone")
    if not found.rows:
        return
    columns = ("position", ">player", ">distance", ">divergence", f">value {found.first}", f">value {found.second}", "priors")
    table = screen.table(*columns, title=f"most different by {found.order}")
    for row in found.rows:
        numbers = (f"{row.total_variation:.3f}", f"{row.divergence:.3f}", f"{row.first_value:+.3f}", f"{row.second_value:+.3f}")
        table.add_row(_place(row), str(row.player), *numbers, _priors(row))
    screen.out().print(table)


def _interval(figure: MeanFigure) -> str:
    return "" if figure.low is None or figure.high is None else f"{figure.low:.4f} to {figure.high:.4f}"


def _place(row: PositionDifference) -> str:
    return f"game {row.uid[:8]} ply {row.ply}" if row.uid else " ".join(row.moves) or "the start"


def _priors(row: PositionDifference) -> str:
    return "  ".join(f"{one.move} {POINTS * one.first:.0f}/{POINTS * one.second:.0f} %" for one in row.priors)
