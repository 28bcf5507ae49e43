"""`zerofleet play`: game at the terminal against a model or a classical agent."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from games.core import Game
from games.positions import read_moves
from zerofleet.cli import screen
from zerofleet.cli.commands.rules import require_seat
from zerofleet.cli.options import (
    LAST_SEED,
    GameName,
    Parameters,
    RunDir,
    Simulations,
    chosen_game,
    chosen_simulations,
    chosen_time,
)
from zerofleet.cli.play.session import Session
from zerofleet.evaluators.opening import evaluating
from zerofleet.library.opponents import AgentOpponent, ModelOpponent, no_model
from zerofleet.storage.run_lookup import find_run
from zerofleet.supervisor.borrowed import served
from zerofleet.supervisor.entrants import entrants, is_model, serving_agent, version_of

__all__ = ["play"]


def play(
    game_name: GameName,
    *,
    opponent: Annotated[
        str,
        typer.Option(
            "--opponent",
            metavar="WHO",
            help="Player of the other seats: champion, model:N, or one of `zerofleet agents`.",
        ),
    ] = "champion",
    seat: Annotated[int, typer.Option("--seat", metavar="N", min=1, help="Your seat; 1 moves first.")] = 1,
    moves: Annotated[
        str, typer.Option("--moves", metavar="M1,M2,...", help="Begin after these moves from the start position.")
    ] = "",
    simulations: Simulations = None,
    time: Annotated[
        str | None,
        typer.Option(
            "--time",
            metavar="TIME",
            help="Wall-clock time of a model's move and of a hint, such as 500ms or 2s, in place of --simulations.",
        ),
    ] = None,
    run_dir: RunDir = None,
    parameters: Parameters = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", metavar="N", min=0, max=LAST_SEED, help="Seed of chance events and of the opponent's random choices."
        ),
    ] = None,
) -> None:
    """Play a game in the terminal, with the board drawn, an evaluation bar, hints and undo.

    Type a move, or: undo, hint, moves, setup, resign, save, help or ?, quit. A model comes from the newest run of the game,
    which may be running.
    """
    limit_s = _time_of(time, simulations, opponent)
    game = chosen_game(game_name, parameters)
    require_seat(game_name, game.spec().num_players, seat)
    luck = secrets.randbits(32) if seed is None else seed
    begun = read_moves(game, moves, luck)
    with asyncio.Runner() as runner, _closing(runner) as stack:
        if is_model(opponent):
            wanted = chosen_simulations(game, simulations)
            other = runner.run(_model(stack, game, opponent, run_dir, simulations=wanted, limit_s=limit_s))
            session = Session(game, other, other, seat=seat - 1, seed=luck, runner=runner, console=screen.out(), moves=begun)
        else:
            agent = runner.run(_agent(stack, game, opponent, run_dir, np.random.default_rng(luck)))
            session = Session(game, agent, None, seat=seat - 1, seed=luck, runner=runner, console=screen.out(), moves=begun)
        session.play(_ask)


def _time_of(text: str | None, simulations: int | None, opponent: str) -> float | None:
    """Return the time of a model's move in seconds; None for none. Raises a usage error, also for a budget of an agent."""
    if not is_model(opponent):
        for option, given in (("--simulations", simulations), ("--time", text)):
            if given is not None:
                raise typer.BadParameter(no_model(opponent), param_hint=option)
    return chosen_time(text, simulations)


@contextlib.contextmanager
def _closing(runner: asyncio.Runner) -> Iterator[contextlib.AsyncExitStack]:
    stack = contextlib.AsyncExitStack()
    try:
        yield stack
    finally:
        runner.run(stack.aclose())


async def _model(
    stack: contextlib.AsyncExitStack,
    game: Game,
    name: str,
    run_dir: Path | None,
    *,
    simulations: int,
    limit_s: float | None,
) -> ModelOpponent:
    """Start a server of the model; `stack` stops it."""
    paths = find_run(game, run_dir)
    version = version_of(name, paths, game)
    screen.note(f"{name} {version} of {paths.root}" if name == "champion" else f"{name} of {paths.root}")
    address = await stack.enter_async_context(served(paths, game, versions=[version]))
    evaluator = await stack.enter_async_context(evaluating(address, game))
    return ModelOpponent(game, evaluator, name=name, version=version, simulations=simulations, limit_s=limit_s)


async def _agent(
    stack: contextlib.AsyncExitStack, game: Game, name: str, run_dir: Path | None, luck: np.random.Generator
) -> AgentOpponent:
    """Make an agent, with a server of the model that it asks, if any; the server ends with `stack`."""
    agent = await stack.enter_async_context(serving_agent(entrants([name], game, run_dir, note=screen.note), game))
    return AgentOpponent(game, agent, luck)


def _ask(prompt: str) -> str:
    """Read a line: with editing and history at a terminal, silently from a pipe."""
    if sys.stdin.isatty():
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401, PLC0415  (its import gives `input` a history)
        try:
            return input(prompt)
        except EOFError:
            sys.stdout.write("\n")  # Ctrl-D: the shell's prompt begins on a line of its own
            raise
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line
