"""`zerofleet bench agent`: nodes and time per move of an agent on positions of random games."""

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
from zerofleet.cli.options import InProcess, Json, Parameters, RunDir, Seed, check_finite, chosen_game
from zerofleet.contracts.naming import model_name
from zerofleet.errors import InvalidRequest
from zerofleet.strength.matches.play import seen_by_mover
from zerofleet.supervisor.entrants import entrants, is_model, serving_agent

__all__ = ["AgentFigures", "agent", "measure", "random_positions"]


@dataclass(frozen=True, slots=True)
class AgentFigures:
    """Results of one measurement. An agent searches on one thread."""

    game: str
    agent: str
    positions: int
    """Number of different positions; they are repeated until time is up."""
    moves: int
    seconds: float
    """Total time of the agent's choices."""
    nodes_per_move: float
    """Positions or simulations, as counted by the agent; 0 for agents without search."""
    nodes_per_second: int
    """In wall-clock time; equal to `nodes_per_cpu_second` on an idle machine."""
    nodes_per_cpu_second: int
    """In CPU time of this process; models are evaluated in another unless `--in-process`."""
    ms_per_move: float
    """Mean, in wall-clock time like the next three."""
    ms_per_move_median: float
    ms_per_move_95: float
    """95th percentile."""
    ms_per_move_most: float


def measure(game: Game, chooser: Agent, *, positions: int, seconds: float, seed: int = 0) -> AgentFigures:
    """Time an agent's choices in random positions for about `seconds`, after one untimed choice.

    Args:
        game: The rules.
        chooser: Agent to measure.
        positions: Number of positions to draw; each is searched at least once.
        seconds: Time after which no further move is started.
        seed: Seed of the positions and of the agent's random choices.
    """
    drawn = random_positions(game, seed)
    states = [next(drawn) for _ in range(positions)]
    luck = np.random.default_rng(seed)
    chooser.choose(game, states[0], luck)  # compiles, or loads the compiled code
    nodes, took = 0, list[float]()
    began, cpu = time.perf_counter(), time.process_time()
    with screen.meter("searching") as meter:
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
        ms_per_move_median=round(1000 * float(np.median(took)), 3),
        ms_per_move_95=round(1000 * float(np.quantile(took, 0.95)), 3),
        ms_per_move_most=round(1000 * max(took), 3),
    )


def random_positions(game: Game, seed: int) -> Iterator[State]:
    """Yield unfinished positions as the player to move sees them: one per random game, at a random ply."""
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
    """Arguments of the command."""

    game: Game
    text: str
    run_dir: Path | None
    positions: int
    seconds: float
    seed: int
    in_process: bool


async def _measure(request: _Request) -> AgentFigures:
    """Measure the agent, with an evaluator of its model if it uses one."""
    game = request.game
    if is_model(request.text):
        raise InvalidRequest(f"{request.text} is a model, no agent; take one that asks it, such as mcts:100,model=champion")
    chosen = entrants([request.text], game, request.run_dir, note=screen.note)
    async with serving_agent(chosen, game, in_process=request.in_process) as chooser:
        asked = {"positions": request.positions, "seed": request.seed}
        return await asyncio.to_thread(measure, game, chooser, seconds=request.seconds, **asked)


def agent(
    text: Annotated[str, typer.Argument(metavar="AGENT", help="An agent, such as alpha_beta:8; see zerofleet agents.")],
    *,
    game: Annotated[str, typer.Option("--game", metavar="GAME", help="Game to play.")] = "connect_four",
    positions: Annotated[
        int, typer.Option("--positions", metavar="N", min=1, help="Number of positions, each from another random game.")
    ] = 100,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds",
            metavar="S",
            min=0.0,
            callback=check_finite,
            help="Length of the measurement; each position is searched at least once.",
        ),
    ] = 5.0,
    in_process: InProcess = False,
    run_dir: RunDir = None,
    parameters: Parameters = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Measure an agent: nodes per move and per second on one core, and milliseconds per move.

    The model of an agent such as mcts:100,model=champion is that of --run-dir. A separate process serves it, or with
    --in-process this one evaluates it.
    """
    rules = chosen_game(game, parameters)
    request = _Request(rules, text, run_dir, positions, seconds, seed, in_process)
    figures = asyncio.run(_measure(request))
    if json:
        screen.emit_json(asdict(figures))
        return
    title = f"{figures.agent} in {figures.game}: {figures.moves:,} moves in {figures.positions} positions"
    rows = screen.table("figure", ">value", title=title)
    rows.add_row("nodes per move", f"{figures.nodes_per_move:,.1f}")
    rows.add_row("nodes per second", f"{figures.nodes_per_second:,}")
    rows.add_row("nodes per second of CPU time", f"{figures.nodes_per_cpu_second:,}")
    rows.add_row("ms per move", f"{figures.ms_per_move:,.3f}")
    rows.add_row("ms per move, median", f"{figures.ms_per_move_median:,.3f}")
    rows.add_row("ms per move, 95th percentile", f"{figures.ms_per_move_95:,.3f}")
    rows.add_row("ms per move, longest", f"{figures.ms_per_move_most:,.3f}")
    screen.out().print(rows)
