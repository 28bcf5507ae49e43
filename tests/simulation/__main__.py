"""Run many simulations of the fleet: `make simulate SIMULATE_ARGS="--seeds 1000 --games 60"`.

Prints a line for each seed that breaks a promise, with the last events before it, and the totals. Exit code 1 if there is one.
With `--mutations WORDS` it tests itself: each mutation of `tests/mutations` whose title holds one of the words is applied to a
copy of the tree, and seeds are tried until one breaks a promise.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))

if TYPE_CHECKING:
    from sim_world import Outcome

SHOWN = 25  # events before a broken promise


def main() -> int:
    """Run the simulations and report."""
    options = _options()
    if options.mutations:
        from sim_mutations import try_mutations  # noqa: PLC0415 - its process must not import the product

        return try_mutations(options.mutations, seeds=options.seeds, games=options.games)
    from sim_world import simulate  # noqa: PLC0415

    began_s, faults, broken, totals = time.monotonic(), Counter[str](), [], Counter[str]()
    for seed in range(options.first, options.first + options.seeds):
        found = simulate(seed, games=options.games, follow=_print if options.follow else None)
        faults.update(found.faults)
        totals.update(seeds=1, games=found.games, steps=found.steps, promotions=found.promotions, verdicts=found.verdicts)
        totals.update(milliseconds=int(found.processor_s * 1000), virtual_s=int(found.virtual_s))
        if options.verbose:
            text = f"seed {seed}: {found.games} games, {found.steps} callbacks, {found.virtual_s:.0f} s of virtual time"
            _print(f"{text}, {found.processor_s:.1f} processor seconds, {found.digest[:12]}")
        if found.broken:
            broken.append(found)
            _show(found, shown=len(found.trace) if options.trace else SHOWN)
            if options.until_broken:
                break
    _conclude(totals, faults, broken, time.monotonic() - began_s)
    return 1 if broken else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="number of simulations (default: 20)")
    parser.add_argument("--first", type=int, default=0, help="first seed (default: 0)")
    parser.add_argument("--games", type=int, default=60, help="games of each before the faults end (default: 60)")
    parser.add_argument("--until-broken", action="store_true", help="stop at the first seed that breaks a promise")
    parser.add_argument("--trace", action="store_true", help="show the whole trace of a seed that breaks a promise")
    parser.add_argument("--follow", action="store_true", help="print every event as it happens")
    parser.add_argument("--verbose", action="store_true", help="print a line for every seed")
    parser.add_argument("--mutations", default="", metavar="WORDS", help='test the simulation: "p1 p2", lease')
    return parser.parse_args()


def _print(line: str) -> None:
    print(line, flush=True)


def _show(found: Outcome, *, shown: int) -> None:
    print(f"\nseed {found.seed} breaks a promise: {found.broken}")
    for line in found.trace[-shown:]:
        print(f"    {line}")
    sys.stdout.flush()


def _conclude(totals: Counter[str], faults: Counter[str], broken: list[Outcome], seconds: float) -> None:
    print(
        f"\n{totals['seeds']} seeds, {totals['games']:,} games, {totals['steps']:,} callbacks, "
        f"{totals['promotions']:,} promotions, {totals['verdicts']:,} verdicts, {totals['virtual_s']:,} s of virtual time; "
        f"{totals['milliseconds'] / 1000:.0f} processor seconds, {seconds:.0f} s; {len(broken)} seeds break a promise"
    )
    print(f"{sum(faults.values()):,} faults: " + ", ".join(f"{count:,} {name}" for name, count in sorted(faults.items())))


if __name__ == "__main__":
    sys.exit(main())
