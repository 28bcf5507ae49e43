"""`zerofleet evaluate`: analysis of a position by a model, through the evaluation service."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from games import core
from games.core import Game
from games.positions import move_names, parameters_text, read_moves, replay
from zerofleet.cli import screen
from zerofleet.cli.options import GameName, Json, Parameters, RunDir, Seed, chosen_game, chosen_time
from zerofleet.cli.play.board import colour_board, player_name, player_style
from zerofleet.contracts.opinions import Opinion
from zerofleet.evaluators.opening import evaluating
from zerofleet.rpc.evaluation_client import ANSWER_S, LONGEST_ANSWER_S, EvaluationClient
from zerofleet.rpc.security.credentials import client_tls, client_token
from zerofleet.search import SearchSettings
from zerofleet.search.deadline import simulations_within
from zerofleet.search.opinions import searched_opinion
from zerofleet.search.watched import WatchedSearch
from zerofleet.storage.run_lookup import find_run
from zerofleet.storage.runs import RunPaths
from zerofleet.supervisor.borrowed import ask_once, champion_version, served

__all__ = ["evaluate"]


def evaluate(
    game_name: GameName,
    *,
    moves: Annotated[
        str, typer.Option("--moves", metavar="M1,M2,...", help="Moves from the start position; empty for the start.")
    ] = "",
    simulations: Annotated[
        int | None,
        typer.Option(
            "--simulations",
            metavar="N",
            min=0,
            help="Simulations of the search; 0 uses the network alone.",
            show_default="0",
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            "--time", metavar="TIME", help="Wall-clock time of the search, such as 500ms or 2s, in place of --simulations."
        ),
    ] = None,
    model: Annotated[int, typer.Option("--model", min=0, metavar="VERSION", help="Model version; 0 is the champion.")] = 0,
    address: Annotated[
        str | None, typer.Option("--address", metavar="HOST:PORT", help="Inference server to use instead of that of a run.")
    ] = None,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="S", min=1.0, max=LONGEST_ANSWER_S, help="Longest wait for the server's answer."),
    ] = ANSWER_S,
    run_dir: RunDir = None,
    parameters: Parameters = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Analyse a position: each legal move with the network's prior, the visits of the search and its value, best first.

    Uses the inference server of a running `zerofleet run`, or starts one for the analysis.
    """
    limit_s = chosen_time(time, simulations)
    game = chosen_game(game_name, parameters)
    actions = read_moves(game, moves, seed)
    names = move_names(game, actions, seed)
    question = _Question(game, actions, model, simulations or 0, limit_s, seed, timeout)
    if address is not None:
        opinion = asyncio.run(question.ask(address))
    else:
        opinion = asyncio.run(question.ask_run(find_run(game, run_dir)))
    if json:
        said = asdict(opinion)
        mover = said.pop("to_move") + 1  # counted as the boards and tables count
        said["player"] = None if opinion.is_over else mover
        screen.emit_json({"game": game_name, "parameters": parameters_text(game), "after": names, **said})
        return
    state = replay(game, actions, seed)
    screen.out().print(colour_board(game, state, None if core.is_over(game, state) else core.to_move(game, state)))
    screen.out().print()
    _show(game, opinion, simulations or 0, limit_s)


@dataclass(frozen=True, slots=True)
class _Question:
    """A position and the effort to spend on it."""

    game: Game
    actions: list[int]
    version: int
    """Model version; 0 selects the champion."""
    simulations: int
    limit_s: float | None
    """Wall-clock time of the search; None for `simulations`."""
    seed: int
    timeout_s: float
    """Longest wait for the answer of the server."""

    async def ask_run(self, paths: RunPaths) -> Opinion:
        """Return the opinion of a run's model, whose server is started where none is up, and for a search by time."""
        version = self.version or champion_version(paths, self.game, instead="--model N")
        question, serving = replace(self, version=version), partial(served, paths, self.game, versions=[version])
        if self.limit_s is None:
            return await ask_once(serving, question.ask)
        async with serving() as address:
            return await question.ask(address)

    async def ask(self, address: str) -> Opinion:
        """Return the opinion of a server's model.

        The evaluation service searches by simulations. By time the search is in this process, with the network of the server.
        """
        async with EvaluationClient(address, token=client_token(), tls=client_tls(), timeout_s=self.timeout_s) as client:
            alone = await client.evaluate(
                self.game.spec().name,
                move_names(self.game, self.actions, self.seed),
                parameters=parameters_text(self.game),
                model_version=self.version,
                simulations=self.simulations,
                seed=self.seed,
            )
        if self.limit_s is None or alone.is_over:
            return alone
        async with evaluating(address, self.game) as evaluator:
            search = WatchedSearch(
                self.game,
                evaluator,
                self.actions,
                settings=SearchSettings.for_analysis(self.game.spec(), simulations_within(self.limit_s)),
                version=alone.model_version,
                seed=self.seed,
                limit_s=self.limit_s,
            )
            state = replay(self.game, self.actions, self.seed)
            return searched_opinion(self.game, state, self.actions, self.seed, await search.run())


def _show(game: Game, opinion: Opinion, simulations: int, limit_s: float | None) -> None:
    console = screen.out()
    if opinion.is_over:
        scores = (Text.assemble(player_name(game, seat), f" {score:+g}") for seat, score in enumerate(opinion.value))
        console.print(Text("the game is over: ") + Text("   ").join(scores))
        return
    budget = f"{simulations} simulations" if simulations else "the network alone"
    if limit_s is not None:
        simulations = sum(move.visits for move in opinion.moves)
        budget = f"{limit_s:g} s, {simulations} simulations"
    value = opinion.value[opinion.to_move]
    bar = screen.value_bar(value, style=player_style(opinion.to_move))
    line = Text.assemble(player_name(game, opinion.to_move), " to move  ", bar, (f" {value:+.3f}", "bold"))
    line.append(f"  model {opinion.model_version}, {budget}", style="dim")
    console.print(line)
    console.print()
    console.print(_searched_moves(opinion) if simulations or limit_s is not None else _moves(opinion))
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
