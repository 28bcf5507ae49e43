"""Positions a second through real workers and servers whose device computes nothing or answers like a GPU.

    python -m benchmarks.stack --workers 1 2 4 --transport shared_memory --seconds 6 --rounds 3
    python -m benchmarks.stack --workers 1 --device gpu --in-flight 3    # 4 M positions a second, three batches at once
    python -m benchmarks.stack --workers 2 --transport grpc --front-ends 2
    python -m benchmarks.stack --preset gpu --cache 0 --simulations 100        # nearly every simulation asks the device

The lanes of a self-play worker search Connect Four and send each block of leaves to an inference server in another process;
worker i uses server i modulo the number of servers. The numbers of workers take turns in each round, since other work on the
machine disturbs them; medians over the rounds are printed.

The device `gpu` takes 250 us for a batch and 250 ns for each of its rows. Where two or more batches are in flight, the 250 us
of one overlap with the rows of another.

Without a network the games are alike, so that a block's cache answers more than in a run: `--cache 0` turns it off.

The rate in wall-clock time depends on the cores and on other work. The processor time of a process for a million positions
depends on them less; from it follow the limit of a process on a core of its own, and upper bounds for machines with more cores.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.stack.driver import Plan, Stack
from benchmarks.stack.figures import Turn, Usage, expected_rate, medians
from benchmarks.stack.server import publish
from zerofleet.storage.model_store import DirectoryStore

# Microseconds a batch, nanoseconds a row, batches at once: a GPU has as many as `inference_server.backend.GPU_SLOTS`.
_DEVICES = {"free": (0.0, 0.0, 1), "gpu": (250.0, 250.0, 2)}


def measure(plans: list[Plan], *, seconds: float, rounds: int) -> list[list[Turn]]:
    """Return the turns of each stack; the stacks take turns."""
    found: list[list[Turn]] = [[] for _ in plans]
    with tempfile.TemporaryDirectory(prefix="zf-stack-") as directory:
        store = DirectoryStore(Path(directory) / "models")
        publish(store)
        for _ in range(rounds):
            for plan, turns in zip(plans, found, strict=True):
                with Stack(plan, store.root, Path(directory)) as stack:
                    turns.append(stack.measure(seconds))
    return found


def report(plan: Plan, turns: list[Turn], expected: list[tuple[int, int]]) -> str:
    """Return the lines about a stack; `expected`: workers and cores of other machines."""
    turn = medians(turns)
    usage = {kind: Usage(seconds) for kind, seconds in turn.seconds_per_million.items()}
    rates = sorted(round(each.positions_per_s) for each in turns)
    lines = [
        f"{', '.join(f'{count} x {kind}' for kind, count in plan.processes.items())}, {plan.transport}, {plan.lanes} lanes of"
        f" {plan.slots}: {turn.positions_per_s:,.0f} positions/s in wall-clock time ({rates[0]:,} to {rates[-1]:,}),"
        f" {turn.simulations_per_position:.2f} simulations a position"
    ]
    for kind, used in usage.items():
        lines.append(
            f"  {kind}: {used.seconds_per_million:.3f} processor seconds a million positions, limit {used.limit:,.0f} a second"
        )
    for workers, cores in expected:
        wanted = {**plan.processes, "worker": workers}
        device = plan.servers * 1e9 / plan.row_ns if plan.row_ns else float("inf")
        rate, first = expected_rate(usage, wanted, cores=cores, device_limit=device)
        lines.append(f"  arithmetic: {workers} workers on {cores} cores at most {rate:,.0f} positions/s, by the {first}")
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.stack", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, nargs="+", default=[1])
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--front-ends", type=int, default=0)
    parser.add_argument("--transport", choices=("shared_memory", "grpc"), default="shared_memory")
    parser.add_argument("--device", choices=sorted(_DEVICES), default="free")
    parser.add_argument("--in-flight", type=int, default=0, help="batches on the device at once; 0: 1, with gpu 2")
    parser.add_argument("--max-batch", type=int, default=4096)
    parser.add_argument("--slots", type=int, default=512, help="games of a block")
    parser.add_argument("--lanes", type=int, default=3)
    parser.add_argument("--preset", default="laptop")
    parser.add_argument("--simulations", type=int, default=0, help="simulations a move; 0: those of the preset")
    parser.add_argument("--cache", type=int, help="entries of a block's evaluation cache")
    parser.add_argument("--pin", action="store_true", help="keep each process on one core")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--rounds", type=int, default=3)
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    given = _parser().parse_args(arguments)
    batch_us, row_ns, in_flight = _DEVICES[given.device]
    plan = Plan(
        servers=given.servers,
        front_ends=given.front_ends,
        transport=given.transport,
        max_batch=given.max_batch,
        batch_us=batch_us,
        row_ns=row_ns,
        in_flight=given.in_flight or in_flight,
        slots=given.slots,
        lanes=given.lanes,
        preset=given.preset,
        simulations=given.simulations,
        cache=given.cache,
        pins=given.pin,
    )
    plans = [replace(plan, workers=workers) for workers in given.workers]
    for each, turns in zip(plans, measure(plans, seconds=given.seconds, rounds=given.rounds), strict=True):
        sys.stdout.write(report(each, turns, [(1, 2), (12, 16)]) + "\n")
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    sys.stdout.write(f"{os.cpu_count()} cores, load average {load}\n")


if __name__ == "__main__":
    main()
