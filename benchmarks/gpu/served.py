"""Served rate: evaluations a second through workers, transport and inference server, by number of workers.

    python -m benchmarks.gpu.served --preset gpu --blocks 4 --channels 64 --workers 4 8 12 --seconds 30

Each row is a measurement of `zerofleet bench serve` with a network of the given size; its ratio is to the bare loop of the same
server's settings, with batches of up to 1,024 or, if that is more, their `inference.max_batch`. `benchmarks.gpu.ceiling` has
larger ones.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import games
from benchmarks.network_options import command_line
from zerofleet.cli.bench.serve import run
from zerofleet.errors import Unavailable

__all__ = ["main", "row", "with_network"]

HEADINGS = ("workers", "served a second", "bare loop a second", "ratio", "mean batch", "device busy", "cores server / workers")


@contextmanager
def with_network(blocks: int, channels: int) -> Iterator[None]:
    """Set the size of the network of all services started meanwhile, over that of their preset."""
    wanted = {"ZEROFLEET_NETWORK__BLOCKS": str(blocks), "ZEROFLEET_NETWORK__CHANNELS": str(channels)}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def row(figures: Mapping[str, Any]) -> str:
    """Return the row of a measurement, in Markdown."""
    cells = (
        str(figures["workers"]),
        f"{figures['served_positions_per_second']:,}",
        f"{figures['raw_positions_per_second']:,} (batch {figures['raw_best_batch']:,})",
        f"{figures['ratio']:.1%}",
        f"{figures['mean_batch']:,.0f}",
        f"{figures['device_busy_share']:.1%}",
        f"{figures['server_cores']:.2f} / {figures['worker_cores']:.2f}",
    )
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None, *, serve: Callable[..., dict[str, Any]] = run) -> int:
    """Measure and print a table, or a line of JSON for each number of workers; return the exit code.

    `serve` measures as `zerofleet.cli.bench.serve.run` does.
    """
    parser = command_line("served", __doc__.splitlines()[0])
    parser.add_argument("--preset", default="gpu")
    parser.add_argument("--workers", type=int, nargs="+", default=[4, 8, 12], help="numbers of worker processes")
    parser.add_argument("--seconds", type=float, default=30.0, help="length of each measurement")
    given = parser.parse_args(arguments)
    game = games.make(given.game)
    server = ["--device", given.device, "--precision", given.precision, "--backend", given.backend]
    size = f"{given.blocks}x{given.channels}"
    if not given.json:
        sys.stdout.write(f"{given.game}, preset {given.preset}, network {size}, device {given.device}\n\n")
        sys.stdout.write(f"| {' | '.join(HEADINGS)} |\n|{' ---: |' * len(HEADINGS)}\n")
    for workers in given.workers:
        try:
            with with_network(given.blocks, given.channels):
                figures = serve(game, given.preset, given.seconds, workers=workers, arguments=server)
        except Unavailable as error:
            sys.stderr.write(f"error: {workers} workers: {error}\n")
            return 1
        figures["network"] = size  # the figures name that of the preset
        sys.stdout.write((json.dumps(figures) if given.json else row(figures)) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
