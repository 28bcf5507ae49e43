"""Opening test of Connect Four: does a model that moves first hold the win against a perfect second player?

    $ python -m benchmarks.perfect_opening runs/connect_four-laptop --games 100 --simulations 400

The first player wins from the empty board, and only with the middle column (Allis 1988). The opponent's first replies are
random, and differ from those of the other games as far as possible; every later reply is one of the best by score, so that a
lost position is defended for as long as possible and a mistake is punished. The model plays its most visited move.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from pathlib import Path

import numpy as np

import games
from benchmarks.versions import version_or_champion
from games import core
from games.core import State
from games.positions import final_scores, legal, move_names, replay
from laboratory.networks import Networks
from zerofleet.contracts.naming import model_name
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.strength.accuracy import Yardstick, model_chooser, yardstick
from zerofleet.strength.ratings import wilson

__all__ = ["main", "play"]

MAX_BATCH = 256


async def play(run: Path, version: int, *, count: int, simulations: int, random_replies: int, seed: int) -> None:
    """Play the games and print the outcome."""
    game = games.make("connect_four")
    networks = Networks(DirectoryStore(run / "models"), model_name(game), max_batch=MAX_BATCH)
    networks.load(version)
    choose = model_chooser(game, networks, version=version, simulations=simulations, seed=seed)
    solver, rng = yardstick(game), np.random.default_rng(seed)

    lines: list[list[int]] = [[] for _ in range(count)]
    taken: set[tuple[int, ...]] = set()
    for ply in range(game.spec().max_plies):
        running = [line for line in lines if not core.is_over(game, replay(game, line))]
        if not running:
            break
        if ply % 2 == 0:
            for line, action in zip(running, await choose([tuple(line) for line in running]), strict=True):
                line.append(action)
        else:
            for line in running:
                state = replay(game, line)
                if ply // 2 < random_replies:
                    open_to = legal(game, state)
                    line.append(int(rng.choice([action for action in open_to if (*line, action) not in taken] or open_to)))
                    taken |= {tuple(line)} if ply // 2 == random_replies - 1 else set()
                else:
                    line.append(_best(solver, state, rng))
        sys.stderr.write(f"\rply {ply + 1:2}, {len(running):4} games")
    sys.stderr.write("\n")
    first = Counter(move_names(game, line[:1])[0] for line in lines)
    held = sum(final_scores(game, replay(game, line))[0] > 0.0 for line in lines)
    low, high = wilson(held, count)
    different = len({tuple(line) for line in lines})
    sys.stdout.write(
        f"version {version}, {simulations} simulations, {count} games, {different} of them different\n"
        f"first moves: {', '.join(f'{name} {number}' for name, number in first.most_common())}\n"
        f"won {held} of {count}, {held / count:.1%} (95 % interval {low:.1%} to {high:.1%})\n"
    )


def _best(solver: Yardstick, state: State, rng: np.random.Generator) -> int:
    actions, scores = solver.scores(state)
    return int(rng.choice([action for action, score in zip(actions, scores, strict=True) if score == max(scores)]))


def main() -> None:
    """Read the command line and play."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="run directory of Connect Four")
    parser.add_argument("--version", type=int, help="version; the champion by default")
    parser.add_argument("--games", type=int, default=100)
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--random-replies", type=int, default=3, help="the opponent's first replies, which are random")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    asyncio.run(
        play(
            asked.run,
            version_or_champion(asked.run, games.make("connect_four"), asked.version),
            count=asked.games,
            simulations=asked.simulations,
            random_replies=asked.random_replies,
            seed=asked.seed,
        )
    )


if __name__ == "__main__":
    main()
