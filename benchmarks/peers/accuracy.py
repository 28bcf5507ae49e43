"""Table and plot of accuracy after the same processor time, from the rows of the peers and a result of `zerofleet bench learn`.

    python -m benchmarks.peers.accuracy open_spiel.jsonl alpha_zero_general.jsonl --zerofleet zerofleet.json --plot accuracy.svg

Intervals are 95 % (Wilson) and cover the choice of positions, not the luck of training. The plot shows the moves of the policy
alone that keep the value. Programs with several training seeds have a row and a curve for each.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zerofleet.cli.bench.learn.report import read_result
from zerofleet.errors import InvalidRequest
from zerofleet.strength.charts import learning_chart
from zerofleet.strength.learning.curves import Point
from zerofleet.strength.ratings.intervals import wilson

__all__ = ["Judged", "Share", "main", "of_peers", "of_zerofleet", "points", "table", "with_seeds"]

PERCENT = 100


@dataclass(frozen=True, slots=True)
class Share:
    """Share of positions."""

    value: float
    """From 0 to 1."""
    of: int
    """Number of positions."""

    def __str__(self) -> str:
        low, high = wilson(self.value * self.of, self.of)
        return f"{PERCENT * self.value:.1f} ({PERCENT * low:.1f} to {PERCENT * high:.1f})"


@dataclass(frozen=True, slots=True)
class Judged:
    """One judgement of one program."""

    program: str
    seed: int
    """Training seed."""
    cpu_s: float
    """Processor seconds of the program since the start of its process: imports and compilation count."""
    games: int
    samples: int
    updates: int
    policy: tuple[Share, Share]
    """Sign and exact of the policy alone."""
    search: tuple[Share, Share] | None
    """Sign and exact of the search; None if it was left out."""


def of_peers(lines: Iterable[str]) -> Iterator[Judged]:
    """Yield the judgements of the rows of a peer."""
    for line in lines:
        row = json.loads(line)
        progress = (row["games"], row["samples"], row["updates"])
        policy, search = (_shares(row, mode) for mode in ("policy", "search"))
        if policy is None:
            raise ValueError(f"a row of {row['peer']} has no judgement of the policy; --policy-positions must not be 0")
        yield Judged(f"{row['peer']} ({row['settings']})", row["seed"], row["cpu_s"], *progress, policy, search)


def _shares(row: Mapping[str, Any], mode: str) -> tuple[Share, Share] | None:
    of = row[f"{mode}_positions"]
    found = [Share(row[f"{mode}_{kind}"] / PERCENT, of) for kind in ("sign", "exact") if row[f"{mode}_{kind}"] is not None]
    return (found[0], found[1]) if found else None


def of_zerofleet(result: Mapping[str, Any]) -> Iterator[Judged]:
    """Yield the judgements of each seed of a result of `zerofleet bench learn`.

    Processor seconds are those of the budget and those before it, which the budget leaves out and the peers count.

    Raises `InvalidRequest` for one that was judged by matches, has a budget in samples, or does not state the latter.
    """
    judge, unit = result["judge"]["kind"], result["unit"]
    if (judge, unit) != ("perfect play", "processor seconds"):
        raise InvalidRequest(
            f"the result is judged by {judge} on a budget of {unit}, want perfect play and processor seconds; measure it again "
            "with --cpu-seconds, and without --opponents"
        )
    for seed in result["seeds"]:
        for one in seed["judgements"]:
            shares = [Share(measure["value"], measure["of"]) for measure in one["measures"]]
            search = (shares[2], shares[3]) if len(shares) > 2 else None  # two of each mode
            progress = (one["games"], one["samples"], one["steps"])
            name = f"zerofleet ({result['preset']})"
            if "start_cpu_seconds" not in one:
                raise InvalidRequest(
                    "the result states no start_cpu_seconds, the processor time before its budget; measure it again"
                )
            cpu_s = one["planned"] + one["start_cpu_seconds"]
            yield Judged(name, seed["seed"], cpu_s, *progress, (shares[0], shares[1]), search)


def with_seeds(found: Sequence[Judged]) -> list[Judged]:
    """Return the judgements with the training seed in the names of programs that have several."""
    seeds = {program: {one.seed for one in found if one.program == program} for program in {one.program for one in found}}
    return [replace(one, program=f"{one.program}, seed {one.seed}") if len(seeds[one.program]) > 1 else one for one in found]


def table(found: Iterable[Judged]) -> list[str]:
    """Return the lines of a Markdown table, by processor seconds."""
    lines = [
        "| processor seconds | program | games | samples | updates | policy alone: sign; exact, % | search: sign; exact, % |",
        "| ---: | --- | ---: | ---: | ---: | --- | --- |",
    ]
    for one in sorted(found, key=lambda one: one.cpu_s):
        counts = " | ".join(f"{count:,}" for count in (one.games, one.samples, one.updates))
        policy, search = ("; ".join(map(str, shares or ())) for shares in (one.policy, one.search))
        lines.append(f"| {one.cpu_s:,.0f} | {one.program} | {counts} | {policy} | {search} |")
    return lines


def points(found: Iterable[Judged]) -> list[Point]:
    """Return the curve of each program: the share of the policy's moves that keep the value."""
    curve = []
    for one in found:
        sign = one.policy[0]
        interval = wilson(sign.value * sign.of, sign.of)
        curve.append(Point(one.cpu_s, one.program, sign.value, *interval, seeds=1, interval="judge"))
    return curve


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and draw the plot; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.accuracy", description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=Path, nargs="*", help="files of the peers' rows")
    parser.add_argument("--zerofleet", type=Path, help="file of `zerofleet bench learn --out`")
    parser.add_argument("--plot", type=Path, help="file for the plot, .svg or .png")
    given = parser.parse_args(arguments)
    found = list(of_zerofleet(read_result(given.zerofleet))) if given.zerofleet else []
    for path in given.rows:
        found += of_peers(path.read_text().splitlines())
    found = with_seeds(found)
    sys.stdout.write("".join(f"{line}\n" for line in table(found)))
    if given.plot:
        title = "Connect Four: moves of the policy alone that keep the value"
        learning_chart(points(found), title=title, path=given.plot, x_label="processor seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
