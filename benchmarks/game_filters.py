"""Time of filtered lists of games over a large run: each filter until 50 games are found or none is left.

    python -m benchmarks.large_run --source runs/connect_four-laptop --target runs/large/million
    python -m benchmarks.game_filters --runs runs/large

Requests go to a freshly started `zerofleet ui` whose first list of games was answered before. The run is only read.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

from benchmarks.pages import API, Server, started

__all__ = ["main"]

WANTED = 50
FILTERS = (
    "model=300",
    "result=draw",
    "worker=worker-3",
    "max_plies=7",
    "model=1",
    "ending=resigned",
    "worker=nobody",
    "ending=soft_resigned",
)


def _row(server: Server, home: str, condition: str) -> str:
    """Return the row of a filter: requests, games, times."""
    walls, found, searched, before, used_s = [], 0, 0, "", server.processor_s
    while True:
        began_s = time.perf_counter()
        with urlopen(f"{server.address}{home}?limit={WANTED - found}&{condition}{before}", timeout=120) as reply:  # noqa: S310
            answer = json.load(reply)
        walls.append(1000 * (time.perf_counter() - began_s))
        found, searched = found + len(answer["games"]), searched + answer["searched"]
        if answer["next_before"] is None or found >= WANTED:
            break
        before = f"&before={answer['next_before']}"
    times = f"{statistics.median(walls):.0f} | {max(walls):.0f} | {sum(walls) / 1000:.2f} | {server.processor_s - used_s:.2f}"
    return f"| `{condition}` | {found} | {searched:,} | {len(walls)} | {times} |"


def _rows(runs: Path) -> Iterator[str]:
    home = f"{API}/runs/{next(runs.glob('*/run.json')).parent.name}/games"
    with started(runs) as server:
        server.ask(home)
        for condition in FILTERS:
            yield _row(server, home, condition)
        yield f"\npeak memory {server.peak_mib:.0f} MiB"


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description="Measure filtered lists of games over a large run.")
    parser.add_argument("--runs", type=Path, required=True, help="folder with the large run alone")
    given = parser.parse_args()
    sys.stdout.write("| filter | found | searched | requests | median ms | longest ms | wall s | processor s |\n")
    sys.stdout.write("| --- |" + " ---: |" * 7 + "\n")
    for row in _rows(given.runs):
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()
    sys.stdout.write(f"\nload {' '.join(f'{one:.1f}' for one in os.getloadavg())}\n")


if __name__ == "__main__":
    main()
