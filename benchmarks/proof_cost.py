"""Cost of proven values where they prove nothing: the same search with and without them, in turn.

    python benchmarks/proof_cost.py --pairs 60

Each run plays the first moves of a block of games with a uniform network. No finished game is within reach of these searches,
so both play the same games with the same trees, which is checked; the difference is the time of bounds that stay open. Runs
alternate within a pair and exchange their order between pairs. The figure is the ratio of processor times.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np

from games.core import Game, make
from zerofleet.cli.bench.search import Bench
from zerofleet.search import SearchSettings


def play(game: Game, settings: SearchSettings, *, games: int, plies: int) -> tuple[float, int, list[tuple[int, ...]]]:
    """Play the first plies of every game; return processor seconds, simulations, and the moves of each game."""
    bench = Bench(game, settings, games=games, seed=0)
    block = bench.block
    began = time.process_time()
    while block.counters.moves < games * plies:
        bench.step()
    seconds = time.process_time() - began
    return seconds, block.counters.simulations, [tuple(block.moves(slot)[:plies]) for slot in range(games)]


def compare(game: Game, *, simulations: int, games: int, plies: int, pairs: int) -> np.ndarray:
    """Return the time with proven values to that without, for each pair; float64 [pairs]. Raises if the games differ."""
    without = SearchSettings(simulations=simulations, prove_values=False)
    with_proofs = without.model_copy(update={"prove_values": True})
    ratios = []
    for pair in range(-1, pairs):  # the first pair compiles
        order = [with_proofs, without] if pair % 2 else [without, with_proofs]
        found = {settings.prove_values: play(game, settings, games=games, plies=plies) for settings in order}
        if found[True][1:] != found[False][1:]:
            raise SystemExit("the searches differ: a finished game is within reach; fewer plies or simulations")
        ratios.append(found[True][0] / found[False][0])
    return np.array(ratios[1:])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the median ratio of processor times with its 95 % interval."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="connect_four")
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--games", type=int, default=256)
    parser.add_argument("--plies", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=60)
    asked = parser.parse_args(arguments)
    ratios = compare(make(asked.game), simulations=asked.simulations, games=asked.games, plies=asked.plies, pairs=asked.pairs)
    drawn = np.random.default_rng(0).choice(ratios, size=(10_000, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
    sys.stdout.write(f"processor time with proven values to without: median of {len(ratios)} pairs {np.median(ratios):.4f} ")
    sys.stdout.write(f"({low:.4f} to {high:.4f}, 95 % interval of the median)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
