"""`zerofleet bench perft`: correctness and speed of the rules."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

import games
from games.core import Game
from games.tools.perft import PlyCount, count_sequences
from zerofleet.cli import screen
from zerofleet.cli.options import Json, Parameters, announced_game, check_finite, chosen_game
from zerofleet.contracts.naming import model_name

__all__ = ["perft", "run", "run_all"]

MOST_DEPTH = 12  # limit in the table of all games, where time permits
SLOWEST = 5e6  # sequences per second; in a short count the time above that is overhead, not rules


def run(game_name: str, depth: int, parameters: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Count the move sequences of a game by length, and time the count.

    Args:
        game_name: Name for `games.make`.
        depth: Length of the longest sequences, in plies.
        parameters: Game parameters that differ from the defaults.

    Returns:
        `game` and `parameters`, `depth`, `counts` (sequences of 1, 2, .. plies), `finished` (sequences that end the game, by
        length), `positions` (total of the sequences), `seconds`, `positions_per_second` of wall-clock time and
        `positions_per_cpu_second`, all without compilation.

    Raises:
        UnknownGame: No such game.
        InvalidParameters: A parameter is unknown or out of range.
    """
    return _measure(games.make(game_name, **(parameters or {})), depth)


def _measure(game: Game, depth: int) -> dict[str, Any]:
    count_sequences(game, 2)  # compiles, or loads the compiled code
    with screen.meter("counting") as meter:
        began, cpu = time.perf_counter(), time.process_time()
        counts = count_sequences(game, depth, progress=lambda done, parts: meter.advance(1, f"of {parts} parts"))
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    positions = sum(count.total for count in counts)
    return {
        "game": game.spec().name,
        "parameters": games.parameters_text(game),
        "depth": depth,
        "counts": [count.total for count in counts],
        "finished": [count.finished for count in counts],
        "positions": positions,
        "seconds": round(seconds, 6),
        "positions_per_second": round(positions / seconds),
        "positions_per_cpu_second": round(positions / cpu),
    }


def run_all(seconds: float) -> list[dict[str, Any]]:
    """Return the figures of `run` for every game, each to the depth that takes about `seconds`."""
    figures = []
    for name in games.available():
        game = announced_game(name, {})
        for depth in range(1, MOST_DEPTH + 1):
            measured = _measure(game, depth)
            leaves = measured["counts"][-1]
            branching = leaves / (measured["counts"][-2] if depth > 1 else 1)
            expected_s = branching * min(measured["seconds"], leaves / SLOWEST)
            if expected_s > seconds or leaves == measured["finished"][-1]:
                break
        figures.append(measured)
    return figures


def perft(
    game: Annotated[str | None, typer.Argument(metavar="GAME", help="Game; omitted with --all.")] = None,
    *,
    depth: Annotated[int, typer.Option("--depth", metavar="N", min=1, help="Length of the longest sequences, in plies.")] = 6,
    every_game: Annotated[bool, typer.Option("--all", help="Measure every game instead, as deep as --seconds allows.")] = False,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="S", min=0.0, callback=check_finite, help="With --all: time per game.")
    ] = 2.0,
    parameters: Parameters = None,
    json: Json = False,
) -> None:
    """Count the sequences of legal moves by length: checks the rules and measures their speed on one core.

    Every sequence is played to its last move.
    Counts of Connect Four on 6 x 7 begin with 7, 49, 343, 2401, 16807, 117649, 823536.
    """
    if every_game == (game is not None):
        raise typer.BadParameter("give a game or --all, not both", param_hint="GAME")
    if every_game and parameters:
        raise typer.BadParameter("parameters belong to one game; name it in place of --all", param_hint="--set")
    if game is None:
        _show_all(run_all(seconds), json=json)
        return
    made = chosen_game(game, parameters)
    figures = _measure(made, depth)
    if json:
        screen.emit_json(figures)
        return
    rows = screen.table(">plies", ">sequences", ">finished", title=model_name(made))
    for count in map(PlyCount, range(1, depth + 1), figures["counts"], figures["finished"]):
        rows.add_row(str(count.ply), f"{count.total:,}", f"{count.finished:,}")
    screen.out().print(rows)
    screen.out().print(f"{figures['positions_per_second']:,} positions per second, {figures['seconds']:.2f} s")


def _show_all(figures: list[dict[str, Any]], *, json: bool) -> None:
    if json:
        screen.emit_json({"games": figures})
        return
    rows = screen.table("game", ">depth", ">sequences", ">seconds", ">positions per second", ">per second of CPU time")
    for measured in figures:
        speeds = (f"{measured['positions_per_second']:,}", f"{measured['positions_per_cpu_second']:,}")
        leaves, seconds = f"{measured['counts'][-1]:,}", f"{measured['seconds']:.2f}"
        rows.add_row(measured["game"], str(measured["depth"]), leaves, seconds, *speeds)
    screen.out().print(rows)
