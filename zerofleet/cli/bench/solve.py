"""`zerofleet bench solve`: time and nodes to solve Connect Four positions."""

from __future__ import annotations

import itertools
import time
from dataclasses import asdict, dataclass
from typing import Annotated, cast

import numpy as np
import typer

from games.connect_four import ConnectFour
from games.core import Game
from games.positions import titled
from zerofleet.agents.exact.solver import Solver, fits
from zerofleet.agents.exact.solver.positions import random_positions
from zerofleet.agents.exact.solver.table import MIN_BITS, empty_table
from zerofleet.cli import screen
from zerofleet.cli.options import Json, Parameters, Seed, chosen_game
from zerofleet.contracts.naming import model_name
from zerofleet.errors import InvalidRequest

__all__ = ["SolveFigures", "measure", "solve"]

PERCENTILES = (50, 90, 99, 100)


@dataclass(frozen=True, slots=True)
class SolveFigures:
    """Results of one measurement: one thread, no book, an empty table for each position."""

    game: str
    positions: int
    plies: tuple[int, int]
    seed: int
    seconds: dict[str, float]
    """Percentiles and mean of the wall-clock time per position."""
    cpu_seconds: dict[str, float]
    """The same for CPU time; equal to `seconds` on an idle machine."""
    nodes: dict[str, float]
    """The same for the nodes searched."""
    nodes_per_cpu_second: int
    absolute_score_sum: int
    """Checksum of the answers, reproduced by the same command."""


def measure(game: Game, *, positions: int, plies: range, seed: int, table_bits: int = MIN_BITS) -> SolveFigures:
    """Solve random positions and time each; raises `InvalidRequest` for other games and if no positions are found."""
    if not fits(game):
        raise InvalidRequest(f"the solver supports Connect Four on boards of at most 64 bits, not {titled(game)}")
    board = cast("ConnectFour", game)
    table = empty_table(table_bits)
    solver = Solver(board, table=table)
    supply = random_positions(board, plies=plies, seed=seed)
    solver.prepare()
    wall, cpu, nodes, scores = np.zeros(positions), np.zeros(positions), np.zeros(positions), 0
    with screen.meter("solving", positions) as meter:
        for i, state in enumerate(itertools.islice(supply, positions)):
            table[:] = 0
            began, cpu_began = time.perf_counter(), time.process_time()
            score, nodes[i] = solver.score(state)
            wall[i], cpu[i] = time.perf_counter() - began, time.process_time() - cpu_began
            scores += abs(score)
            meter.advance()
    return SolveFigures(
        game=model_name(game),
        positions=positions,
        plies=(plies.start, plies.stop - 1),
        seed=seed,
        seconds=_summary(wall),
        cpu_seconds=_summary(cpu),
        nodes=_summary(nodes),
        nodes_per_cpu_second=round(float(nodes.sum() / cpu.sum())),
        absolute_score_sum=scores,
    )


def solve(
    *,
    positions: Annotated[int, typer.Option("--positions", metavar="N", min=1, help="Number of random positions.")] = 1000,
    plies: Annotated[int, typer.Option("--plies", metavar="N", min=0, help="Minimum number of moves played.")] = 14,
    most_plies: Annotated[
        int | None,
        typer.Option(
            "--most-plies", metavar="N", min=0, help="Maximum number of moves played.", show_default="that of --plies"
        ),
    ] = None,
    parameters: Parameters = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Solve random Connect Four positions without an immediate win, each from an empty table, on one core.

    Positions of fewer plies are harder; with --plies 14 alone every position has exactly 14 stones.
    """
    most = plies if most_plies is None else most_plies
    if most < plies:
        raise typer.BadParameter(f"{most} is less than --plies {plies}", param_hint="--most-plies")
    figures = measure(chosen_game("connect_four", parameters), positions=positions, plies=range(plies, most + 1), seed=seed)
    if json:
        screen.emit_json(asdict(figures))
        return
    title = f"{figures.game}: {positions:,} random positions of {plies} to {most} plies, one core, no book"
    rows = screen.table("", *(f">{name}" for name in figures.seconds), title=title)
    rows.add_row("milliseconds", *(f"{1000 * value:,.2f}" for value in figures.seconds.values()))
    rows.add_row("milliseconds of CPU time", *(f"{1000 * value:,.2f}" for value in figures.cpu_seconds.values()))
    rows.add_row("nodes", *(f"{value:,.0f}" for value in figures.nodes.values()))
    screen.out().print(rows)
    screen.out().print(f"\n{figures.nodes_per_cpu_second:,} nodes per second of CPU time")


def _summary(values: np.ndarray) -> dict[str, float]:
    named = dict(zip(("median", "p90", "p99", "most"), np.percentile(values, PERCENTILES).tolist(), strict=True))
    return {**named, "mean": float(values.mean())}
