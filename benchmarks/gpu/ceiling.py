"""Ceiling in one process: evaluations a second of the served network on a device, by batch size, without requests.

    python -m benchmarks.gpu.ceiling --blocks 4 --channels 64 --batches 256 1024 4096 16384 --device cuda

The network is loaded and evaluated as the inference server does, copies to the device and back included. The batch sizes take
turns, so that other load and the card's clock affect all. Weights are random, which costs as much as trained ones.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

import games
from benchmarks.network_options import command_line
from benchmarks.random_network import random_network
from inference_server.network import Network
from zerofleet.contracts.encodings import sample_positions
from zerofleet.service import logs

__all__ = ["Rate", "main", "measure"]

SAMPLED_GAMES = 64


@dataclass(frozen=True, slots=True)
class Rate:
    """Throughput at one batch size."""

    batch: int
    evaluations_per_second: float
    """Median over the rounds."""
    ms_per_batch: float
    slowest: float
    """Evaluations a second in the slowest round."""
    fastest: float


def measure(
    network: Network,
    positions: tuple[np.ndarray, np.ndarray],
    batches: Sequence[int],
    *,
    rounds: int,
    seconds: float,
    clock_s: Callable[[], float] = time.perf_counter,
) -> list[Rate]:
    """Return the rate at each batch size.

    Args:
        network: The network.
        positions: States uint8 [N, packed_bytes] and legal actions int16 [N, L]; a batch repeats them as needed.
        batches: Batch sizes.
        rounds: Turns of each size, after a first one that is left out.
        seconds: Shortest turn.
        clock_s: Clock of the turns, in seconds.
    """
    found: dict[int, list[float]] = {rows: [] for rows in batches}
    for _ in range(rounds + 1):
        for rows, rates in found.items():
            states, legal = (np.resize(array, (rows, array.shape[1])) for array in positions)
            began_s, count = clock_s(), 0
            while True:
                network.evaluate([states], [legal])
                count += 1
                elapsed_s = clock_s() - began_s
                if elapsed_s >= seconds:
                    break
            rates.append(rows * count / elapsed_s)
    return [_rate(rows, rates[1:]) for rows, rates in found.items()]


def _rate(rows: int, rates: Sequence[float]) -> Rate:
    middle = statistics.median(rates)
    return Rate(rows, round(middle), round(rows / middle * 1e3, 3), round(min(rates)), round(max(rates)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print a table, or JSON; return the exit code."""
    parser = command_line("ceiling", __doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, nargs="+", default=[256, 512, 1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="shortest turn of a batch size")
    given = parser.parse_args(arguments)
    logs.configure("warning", "auto", "ceiling")
    game = games.make(given.game)
    positions = sample_positions(game, games=SAMPLED_GAMES, seed=0)
    size = {"blocks": given.blocks, "channels": given.channels}
    device = {"device": given.device, "precision": given.precision, "backend": given.backend}
    with random_network(game, **size, **device, max_batch=max(given.batches)) as network:
        found = measure(network, positions, given.batches, rounds=given.rounds, seconds=given.seconds)
        about = {"game": given.game, **size, "device": given.device, "backend": network.backend, "precision": network.precision}
    if given.json:
        sys.stdout.write(json.dumps(about | {"rates": [asdict(rate) for rate in found]}) + "\n")
        return 0
    sys.stdout.write(", ".join(f"{name} {value}" for name, value in about.items()) + "\n\n")
    sys.stdout.write("| batch | evaluations a second | range | ms a batch |\n| ---: | ---: | ---: | ---: |\n")
    for rate in found:
        spread = f"{rate.slowest:,.0f} to {rate.fastest:,.0f}"
        sys.stdout.write(f"| {rate.batch:,} | {rate.evaluations_per_second:,.0f} | {spread} | {rate.ms_per_batch:.3f} |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
