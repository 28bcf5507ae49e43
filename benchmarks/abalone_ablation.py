"""Ablation of the Abalone search: searched positions and time, with and without each part.

    python -m benchmarks.abalone_ablation --depth 3 4 5 --positions 20 --seed 1

The positions come from games of two players that look one ply ahead and sometimes move at random, so marbles are in contact
and some are lost. Times are CPU times, which depend less on other load of the machine than wall-clock times.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from games import core
from games.abalone import Abalone
from games.core import State
from games.positions import legal, new_state
from zerofleet.agents.budget import Budget
from zerofleet.agents.by_game.abalone.evaluation import EVALUATIONS
from zerofleet.agents.by_game.abalone.thinking import SearchOptions, think

__all__ = ["Cost", "cost", "main", "middle_games", "variants"]

_SWITCHES = ("deepening", "aspiration", "table", "killers", "history", "static")
_RANDOM_PLIES, _RANDOM_SHARE = 6, 0.2
_FIRST_PLY, _LAST_PLY = 10, 80
_ONE_PLY = Budget(1, "plies")


@dataclass(frozen=True, slots=True)
class Cost:
    """Mean cost of a search per position."""

    nodes: float
    evaluated: float
    ms: float


def middle_games(game: Abalone, count: int, seed: int) -> list[State]:
    """Return positions of unfinished games, one from each of `count` games."""
    rng = np.random.default_rng(seed)
    found: list[State] = []
    while len(found) < count:
        state = new_state(game)
        for ply in range(int(rng.integers(_FIRST_PLY, _LAST_PLY))):
            guesses = ply < _RANDOM_PLIES or rng.random() < _RANDOM_SHARE
            moves = np.array(legal(game, state)) if guesses else think(game, state, _ONE_PLY, SearchOptions()).best()
            core.play(game, state, int(rng.choice(moves)))
            if core.is_over(game, state):
                break
        else:
            found.append(state)
    return found


def variants(evaluation: str) -> Iterator[tuple[str, SearchOptions]]:
    """Yield the searches to compare, with their names: without any part, with one, with all, and with all but one."""
    base = {"evaluation": evaluation}
    none = base | dict.fromkeys(_SWITCHES, False)
    yield "alpha-beta alone", SearchOptions.model_validate(none)
    for switch in _SWITCHES:
        if switch == "aspiration":
            yield "with deepening and aspiration", SearchOptions.model_validate(none | {"deepening": True, "aspiration": True})
        else:
            yield f"with {switch}", SearchOptions.model_validate(none | {switch: True})
    yield "all", SearchOptions.model_validate(base)
    for switch in _SWITCHES:
        yield f"all but {switch}", SearchOptions.model_validate(base | {switch: False})
    yield "all and quiescence", SearchOptions.model_validate(base | {"quiescence": True})


def cost(game: Abalone, states: Sequence[State], depth: int, options: SearchOptions) -> Cost:
    """Search all positions to a depth and return the mean cost."""
    began = time.process_time()
    searched = [think(game, state, Budget(depth, "plies"), options) for state in states]
    ms = 1000 * (time.process_time() - began) / len(states)
    return Cost(float(np.mean([s.nodes for s in searched])), float(np.mean([s.evaluated for s in searched])), ms)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.abalone_ablation", description=__doc__.splitlines()[0])
    parser.add_argument("--depth", type=int, nargs="+", default=[3, 4], help="plies")
    parser.add_argument("--positions", type=int, default=20)
    parser.add_argument("--evaluation", choices=EVALUATIONS, default="simple")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    game = Abalone()
    states = middle_games(game, chosen.positions, chosen.seed)
    titles = [f"{depth} plies: {what}" for depth in chosen.depth for what in ("positions", "evaluated", "ms")]
    sys.stdout.write(f"| search | {' | '.join(titles)} |\n| --- |{' ---: |' * len(titles)}\n")
    for name, options in variants(chosen.evaluation):
        cells = []
        for depth in chosen.depth:
            spent = cost(game, states, depth, options)
            cells += [f"{spent.nodes:,.0f}", f"{spent.evaluated:,.0f}", f"{spent.ms:.2f}"]
        sys.stdout.write(f"| {name} | {' | '.join(cells)} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
