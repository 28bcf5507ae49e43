"""Wins in one that a model overlooks: by its policy alone, and with few and many simulations.

    $ python -m benchmarks.wins_in_one runs/connect_four-laptop --judged 1000 --simulations 2 100

The positions are fixed by game, `--judged` and `--seed`. They are drawn as those are of which `zerofleet bench learn --judged`
keeps the deciding ones (three for each judged one, half from random games, half from games of alpha-beta against itself), with
a seed of their own; all of them count in which some, but not all, legal moves win at once. A win is overlooked if the chosen
move is none of them.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import games
from benchmarks.versions import version_or_champion
from games import core
from games.core import Game, State
from games.positions import final_scores, legal, replay
from laboratory.networks import Networks
from zerofleet.agents import make_agent
from zerofleet.contracts.naming import model_name
from zerofleet.evaluators.base import Evaluator
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.strength.accuracy import Position, agent_chooser, model_chooser, random_positions, self_play_positions
from zerofleet.strength.learning.positions import DRAWN, PLAYER
from zerofleet.strength.ratings import wilson

__all__ = ["WinInOne", "drawn_positions", "main", "overlooked", "winning_moves", "wins_in_one"]

MAX_BATCH = 256


@dataclass(frozen=True, slots=True)
class WinInOne:
    """Position with a move that wins at once, and another that does not."""

    moves: Position
    """Moves from the start."""
    wins: frozenset[int]
    """Actions that win at once."""


def winning_moves(game: Game, state: State) -> frozenset[int]:
    """Return the actions after which the game is over and the player who moved has the score 1."""
    mover, found = core.to_move(game, state), set()
    for action in legal(game, state):
        after = state.copy()
        core.play(game, after, action)
        if core.is_over(game, after) and final_scores(game, after)[mover] == 1.0:
            found.add(action)
    return frozenset(found)


def wins_in_one(game: Game, positions: Iterable[Position]) -> list[WinInOne]:
    """Return the different positions (as states of the game) in which some but not all moves win, in the order given."""
    found: dict[bytes, WinInOne] = {}
    for moves in positions:
        state = replay(game, moves)
        wins = winning_moves(game, state)
        if wins and len(wins) < len(legal(game, state)):
            found.setdefault(state.tobytes(), WinInOne(tuple(moves), wins))
    return list(found.values())


def drawn_positions(game: Game, *, judged: int, seed: int) -> list[Position]:
    """Return the positions among which the judge of so many positions looks for deciding ones."""
    half = judged // 2
    choose = agent_chooser(game, make_agent(PLAYER, game), seed=seed)
    return [
        *random_positions(game, count=DRAWN * half, seed=seed),
        *asyncio.run(self_play_positions(game, choose, count=DRAWN * (judged - half), seed=seed)),
    ]


async def overlooked(
    game: Game, evaluator: Evaluator, tasks: Sequence[WinInOne], *, version: int, simulations: int, seed: int = 0
) -> list[WinInOne]:
    """Return the positions in which a model's move does not win, in their order. Cancellation: nothing is kept."""
    choose = model_chooser(game, evaluator, version=version, simulations=simulations, seed=seed)
    chosen = await choose([task.moves for task in tasks])
    return [task for task, action in zip(tasks, chosen, strict=True) if action not in task.wins]


def main() -> None:
    """Count and print a line for each number of simulations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="run directory")
    parser.add_argument("--game", default="connect_four")
    parser.add_argument("--version", type=int, help="version; the champion by default")
    parser.add_argument("--judged", type=int, default=1000, help="a third of the positions drawn (default: 1000)")
    parser.add_argument(
        "--simulations", type=int, nargs="*", default=[2, 100], help="besides the policy alone (default: 2 100)"
    )
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    game = games.make(asked.game)
    version = version_or_champion(asked.run, game, asked.version)
    networks = Networks(DirectoryStore(asked.run / "models"), model_name(game), max_batch=MAX_BATCH)
    networks.load(version)
    tasks = wins_in_one(game, drawn_positions(game, judged=asked.judged, seed=asked.seed))
    if not tasks:
        sys.exit(f"none of the {DRAWN * asked.judged:,} positions drawn has a win in one, want one at least; raise --judged")
    sys.stdout.write(f"version {version}, {len(tasks)} positions with a win in one\n")
    for simulations in (0, *asked.simulations):
        missed = len(asyncio.run(overlooked(game, networks, tasks, version=version, simulations=simulations, seed=asked.seed)))
        low, high = wilson(missed, len(tasks))
        name = f"{simulations} simulations" if simulations else "policy alone"
        sys.stdout.write(
            f"{name}: {missed} of {len(tasks)} overlooked, {missed / len(tasks):.1%} (95 % interval {low:.1%} to {high:.1%})\n"
        )


if __name__ == "__main__":
    main()
