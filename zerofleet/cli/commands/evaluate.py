"""`zerofleet evaluate`: analysis of a position by a model, through the evaluation service."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from games import core
from games.core import Game
from games.positions import move_names, parameters_text, read_moves, replay
from zerofleet.cli import screen
from zerofleet.cli.options import GameName, Json, Parameters, RunDir, Seed, chosen_game
from zerofleet.cli.play.board import colour_board, player_name, player_style
from zerofleet.contracts.opinions import Opinion
from zerofleet.rpc.evaluation_client import EvaluationClient
from zerofleet.rpc.security.credentials import client_tls, client_token
from zerofleet.storage.run_lookup import find_run
from zerofleet.storage.runs import RunPaths
from zerofleet.supervisor.borrowed import champion_version, served

__all__ = ["evaluate"]


def evaluate(
    game_name: GameName,
    *,
    moves: Annotated[
        str, typer.Option("--moves", metavar="M1,M2,...", help="Moves from the start position; empty for the start.")
    ] = "",
    simulations: Annotated[
        int, typer.Option("--simulations", metavar="N", min=0, help="Simulations of the search; 0 uses the network alone.")
    ] = 0,
    model: Annotated[int, typer.Option("--model", min=0, metavar="VERSION", help="Model version; 0 is the champion.")] = 0,
    address: Annotated[
        str | None, typer.Option("--address", metavar="HOST:PORT", help="Inference server to use instead of that of a run.")
    ] = None,
    run_dir: RunDir = None,
    parameters: Parameters = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Analyse a position: each legal move with the network's prior, the visits of the search and its value, best first.

    Uses the inference server of a running `zerofleet run`, or starts one for the analysis.
    """
    game = chosen_game(game_name, parameters)
    actions = read_moves(game, moves, seed)
    names = move_names(game, actions, seed)
    question = {"model_version": model, "simulations": simulations, "seed": seed}
    if address is not None:
        opinion = asyncio.run(_ask(address, game, names, question))
    else:
        opinion = asyncio.run(_ask_run(find_run(game, run_dir), game, names, question))
    if json:
        said = asdict(opinion)
        mover = said.pop("to_move") + 1  # counted as the boards and tables count
        said["player"] = None if opinion.is_over else mover
        screen.emit_json({"game": game_name, "parameters": parameters_text(game), "after": names, **said})
        return
    state = replay(game, actions, seed)
    screen.out().print(colour_board(game, state, None if core.is_over(game, state) else core.to_move(game, state)))
    screen.out().print()
    _show(game, opinion, simulations)


async def _ask_run(paths: RunPaths, game: Game, names: list[str], question: dict[str, int]) -> Opinion:
    version = question["model_version"] or champion_version(paths, game)
    async with served(paths, game, versions=[version]) as address:
        return await _ask(address, game, names, {**question, "model_version": version})


async def _ask(address: str, game: Game, names: list[str], question: dict[str, int]) -> Opinion:
    async with EvaluationClient(address, token=client_token(), tls=client_tls()) as client:
        return await client.evaluate(game.spec().name, names, parameters=parameters_text(game), **question)


def _show(game: Game, opinion: Opinion, simulations: int) -> None:
    console = screen.out()
    if opinion.is_over:
        scores = (Text.assemble(player_name(game, seat), f" {score:+g}") for seat, score in enumerate(opinion.value))
        console.print(Text("the game is over: ") + Text("   ").join(scores))
        return
    budget = f"{simulations} simulations" if simulations else "the network alone"
    value = opinion.value[opinion.to_move]
    bar = screen.value_bar(value, style=player_style(opinion.to_move))
    line = Text.assemble(player_name(game, opinion.to_move), " to move  ", bar, (f" {value:+.3f}", "bold"))
    line.append(f"  model {opinion.model_version}, {budget}", style="dim")
    console.print(line)
    console.print()
    console.print(_searched_moves(opinion) if simulations else _moves(opinion))
    if opinion.principal_variation:
        console.print(f"\nexpected line: {' '.join(opinion.principal_variation)}")


def _moves(opinion: Opinion) -> Table:
    rows = screen.table("move", ">prior", "")
    for move in opinion.moves:
        rows.add_row(move.move, f"{move.prior:.1%}", screen.share_bar(move.prior))
    return rows


def _searched_moves(opinion: Opinion) -> Table:
    rows = screen.table("move", ">prior", ">visits", ">value", "")
    for move in opinion.moves:
        bar = screen.value_bar(move.value, cells=10) if move.value is not None else Text()
        value = f"{move.value:+.3f}" if move.value is not None else ""
        rows.add_row(move.move, f"{move.prior:.1%}", f"{move.visits:,}", value, bar)
    return rows
