"""`zerofleet bench agent`: how fast an agent thinks, and how much, on positions of random games."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from games import core
from games.core import Game, State
from games.positions import legal, new_state
from zerofleet.agents import Agent
from zerofleet.cli import screen
from zerofleet.cli.options import Json, Parameters, RunDir, Seed, chosen_game
from zerofleet.contracts.naming import model_name
from zerofleet.errors import InvalidRequest
from zerofleet.strength.matches.play import seen_by_mover
from zerofleet.supervisor.entrants import entrants, is_model, serving_agent

__all__ = ["AgentFigures", "agent", "measure", "random_positions"]


@dataclass(frozen=True, slots=True)
class AgentFigures:
    """What one measurement found. An agent thinks on one thread."""

    game: str
    agent: str
    positions: int
    """How many different ones there were; they are gone through again until the time is over."""
    moves: int
    seconds: float
    """Of thought."""
    nodes_per_move: float
    """Positions or simulations, as the agent counts them; 0 for agents that do not search."""
    nodes_per_second: int
    """By the clock on the wall; on a machine that does nothing else this equals the next."""
    nodes_per_cpu_second: int
    """Of this process; models think in another one."""
    ms_per_move: float
    """Mean by the clock on the wall, as are the next two."""
    ms_per_move_95: float
    """95 of 100 moves took no longer."""
    ms_per_move_most: float


def measure(game: Game, chooser: Agent, *, positions: int, seconds: float, seed: int = 0) -> AgentFigures:
    """Let an agent choose in random positions for about `seconds`, after one choice that is not counted.

    Args:
        game: The rules.
        chooser: Who is measured.
        positions: How many positions to draw; all of them are gone through at least once.
        seconds: After which no further move is begun.
        seed: Decides the positions and the agent's luck.
    """
    drawn = random_positions(game, seed)
    states = [next(drawn) for _ in range(positions)]
    luck = np.random.default_rng(seed)
    chooser.choose(game, states[0], luck)  # compiles, or loads what was compiled before
    nodes, took = 0, list[float]()
    began, cpu = time.perf_counter(), time.process_time()
    with screen.meter("thinking") as meter:
        while len(took) < positions or time.perf_counter() - began < seconds:
            started = time.perf_counter()
            nodes += chooser.choose(game, states[len(took) % positions], luck).nodes
            took.append(time.perf_counter() - started)
            meter.advance(1, "moves")
    cpu = time.process_time() - cpu
    thought = sum(took)
    return AgentFigures(
        game=model_name(game),
        agent=chooser.name,
        positions=positions,
        moves=len(took),
        seconds=round(thought, 3),
        nodes_per_move=round(nodes / len(took), 1),
        nodes_per_second=round(nodes / thought),
        nodes_per_cpu_second=round(nodes / cpu),
        ms_per_move=round(1000 * thought / len(took), 3),
        ms_per_move_95=round(1000 * float(np.quantile(took, 0.95)), 3),
        ms_per_move_most=round(1000 * max(took), 3),
    )


def random_positions(game: Game, seed: int) -> Iterator[State]:
    """Yield positions in which the game goes on, as the player to move sees them: one of each random game, of any length."""
    rng = np.random.default_rng([seed, 1])
    while True:
        state = new_state(game, int(rng.integers(2**31)))
        passed = [state.copy()]
        while actions := legal(game, state):
            core.play(game, state, int(rng.choice(actions)))
            passed.append(state.copy())
        yield seen_by_mover(game, passed[int(rng.integers(len(passed) - 1))], rng)


@dataclass(frozen=True, slots=True)
class _Request:
    """What the command line asks for."""

    game: Game
    text: str
    run_dir: Path | None
    positions: int
    seconds: float
    seed: int


async def _measure(request: _Request) -> AgentFigures:
    """Borrow an inference server if the agent asks a model, and measure."""
    game = request.game
    if is_model(request.text):
        raise InvalidRequest(f"{request.text} is a model, no agent; take one that asks it, such as mcts:100,model=champion")
    async with serving_agent(entrants([request.text], game, request.run_dir, note=screen.note), game) as chooser:
        asked = {"positions": request.positions, "seed": request.seed}
        return await asyncio.to_thread(measure, game, chooser, seconds=request.seconds, **asked)


def agent(
    text: Annotated[str, typer.Argument(metavar="AGENT", help="An agent, such as alpha_beta:8; see zerofleet agents.")],
    *,
    game: Annotated[str, typer.Option("--game", metavar="GAME", help="Game to play.")] = "connect_four",
    positions: Annotated[
        int, typer.Option("--positions", metavar="N", min=1, help="Positions, one of each of N random games.")
    ] = 100,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="S", min=0.0, help="Length of the measurement, or once all positions.")
    ] = 5.0,
    run_dir: RunDir = None,
    parameters: Parameters = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Measure an agent: positions a move and a second on one core, and milliseconds a move.

    An agent that asks a model (model=champion) is measured with the models of --run-dir, served by a process of their own.
    """
    rules = chosen_game(game, parameters)
    figures = asyncio.run(_measure(_Request(rules, text, run_dir, positions, seconds, seed)))
    if json:
        screen.emit_json(asdict(figures))
        return
    title = f"{figures.agent} in {figures.game}: {figures.moves:,} moves in {figures.positions} positions"
    rows = screen.table("figure", ">value", title=title)
    rows.add_row("nodes a move", f"{figures.nodes_per_move:,.1f}")
    rows.add_row("nodes a second", f"{figures.nodes_per_second:,}")
    rows.add_row("nodes a second of CPU time", f"{figures.nodes_per_cpu_second:,}")
    rows.add_row("ms a move", f"{figures.ms_per_move:,.3f}")
    rows.add_row("ms a move, 95 of 100 within", f"{figures.ms_per_move_95:,.3f}")
    rows.add_row("ms a move, the longest", f"{figures.ms_per_move_most:,.3f}")
    screen.out().print(rows)
