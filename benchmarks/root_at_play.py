"""Accuracy of one network with several roots of its search, in positions that decide: PUCT against Gumbel without noise.

`python -m benchmarks.root_at_play MODELS VERSION` prints the table of docs/results/root_at_play.md: MODELS is the folder of a
run's models, VERSION one of its versions of Connect Four. Each row is one search; its columns are the share of the positions in
which the move keeps the value (sign) and of those in which no move scores better (exact), with 95 % intervals (Wilson).
`--leaves 4` searches with four pending leaves of a position at once, by virtual loss, as the gate does.

The positions are those of `zerofleet bench learn --judged N`, scored once and kept in the user's cache.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from games.core import make
from laboratory.networks import Networks
from zerofleet.cli.bench.learn.command import JUDGE_SEED, cache_folder
from zerofleet.contracts.naming import model_name
from zerofleet.search import SearchSettings, search_positions
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.strength.learning.positions import ScoredPosition, kept_positions, stored_positions
from zerofleet.strength.ratings import wilson

__all__ = ["main"]

GAME = make("connect_four")
BATCH = 128  # positions searched together
VALUE_SCALES = (0.1, 0.3, 1.0)


def searches(
    simulations: int, scales: Sequence[float], leaves: Sequence[int] = (1,), replies: Sequence[bool] = (True,)
) -> Iterator[tuple[str, SearchSettings]]:
    """Yield the searches of a budget with their names: both roots, the second with several scales, with each number of leaves.

    `replies`: values of `prove_replies`. Without simulations it is the policy alone, once.
    """
    if not simulations:
        yield "policy alone", SearchSettings.for_play(GAME.spec(), 0)
        return
    for count, proves in product(leaves, replies):
        changed = {"leaves_per_game": count, "prove_replies": proves}
        settings = SearchSettings.for_play(GAME.spec(), simulations).model_copy(update=changed)
        at_once = ("" if count == 1 else f", {count} leaves") + ("" if proves else ", no replies")
        yield f"puct{at_once}", settings
        for scale in scales:
            changes = {"root_policy": "gumbel", "gumbel_noise": False, "gumbel_value_scale": scale}
            yield f"gumbel, scale {scale}{at_once}", settings.model_copy(update=changes)


async def _row(
    networks: Networks, version: int, positions: Sequence[ScoredPosition], name: str, settings: SearchSettings
) -> str:
    """Return the row of a search."""
    moves = [position.moves for position in positions]
    found = await search_positions(GAME, networks, moves, settings=settings, version=version, seed=0)
    pairs = [(position, analysis.best_action) for position, analysis in zip(positions, found, strict=True)]
    kept = sum(position.keeps_value(action) for position, action in pairs)
    exact = sum(position.is_exact(action) for position, action in pairs)
    return f"| {settings.simulations} | {name} | {_share(kept, len(pairs))} | {_share(exact, len(pairs))} |"


def _share(count: int, total: int) -> str:
    low, high = wilson(count, total)
    return f"{count / total:.1%} ({low:.1%} to {high:.1%})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("version", type=int)
    parser.add_argument("--positions", type=int, default=1_000)
    parser.add_argument("--every", type=int, default=1, help="measure every K-th position alone")
    parser.add_argument("--simulations", type=int, nargs="+", default=[0, 16, 64, 100, 400])
    parser.add_argument("--scales", type=float, nargs="+", default=VALUE_SCALES, help="scales of the values of a Gumbel root")
    parser.add_argument(
        "--leaves", type=int, nargs="+", default=[1], help="numbers of pending leaves of a position; 1: no virtual loss"
    )
    parser.add_argument("--compare-replies", action="store_true", help="also search without `prove_replies`")
    given = parser.parse_args(arguments)
    replies = (True, False) if given.compare_replies else (True,)
    positions = stored_positions(kept_positions(cache_folder(), GAME, count=given.positions, seed=JUDGE_SEED))[:: given.every]
    networks = Networks(DirectoryStore(given.models), model_name(GAME), max_batch=BATCH)
    networks.load(given.version)
    print("| simulations | root | sign | exact |\n| ---: | --- | --- | --- |")  # noqa: T201
    for simulations in given.simulations:
        for name, settings in searches(simulations, given.scales, given.leaves, replies):
            print(asyncio.run(_row(networks, given.version, positions, name, settings)), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
