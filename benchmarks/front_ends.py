"""Positions a second through front ends, with a device that costs nothing: the cost of gRPC, batching and frames alone.

    python benchmarks/front_ends.py --front-ends 1 2 4 --rows 256 --clients 2 --in-flight 4 --seconds 6 --rounds 3

A server whose network answers with a constant runs in a process of its own, once for each number of front ends; 1 is the server
without front ends. Client processes keep requests of `--rows` positions of Connect Four in flight over gRPC. The numbers take
turns in each round, since other work on the machine disturbs them; the medians over the rounds are printed.

Wall-clock rates depend on the number of cores: with fewer than the processes need, front ends cannot show a gain. The processor
time of the device's process for a million positions does not: it is the part that cannot be split, and its inverse the limit of
one interpreter.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

from games.core import make
from inference_server.server import open_server
from inference_server.settings import ServerSettings
from zerofleet.contracts.encodings import sample_positions
from zerofleet.contracts.manifests import Manifest
from zerofleet.evaluators.base import LeafBatch, ModelVersion
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.presets import InferenceSettings
from zerofleet.service import logs
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.testing.models import manifest_of, sample_files, uniform_golden

_GAME = make("connect_four")
_MODEL = "connect_four"
_WARM_UP_S = 1.0


class ConstantNetwork:
    """Network without computation: zeros of the right shape."""

    backend = "constant"
    precision = "float32"

    def __init__(self, manifest: Manifest) -> None:
        self._players = manifest.num_players

    def evaluate(self, states: list[np.ndarray], legal: list[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Return zeros for all requests."""
        rows = sum(map(len, states))
        return np.zeros((rows, legal[0].shape[1]), np.float16), np.zeros((rows, self._players), np.float32)


class ConstantBackend:
    """Backend that loads `ConstantNetwork`."""

    slots = 1

    def load(self, path: Path, manifest: Manifest, *, max_batch: int) -> ConstantNetwork:
        """Return the network of a version."""
        return ConstantNetwork(manifest)


async def _serve(store: DirectoryStore, front_ends: int) -> None:
    """Serve version 1 until standard input ends; write the address first."""
    part = InferenceSettings(max_batch=4096, max_delay_us=0, front_ends=front_ends)
    given = {"address": "127.0.0.1:0", "model_store": store.root, "inference": part, "max_queue_positions": 1 << 20}
    settings = ServerSettings.model_validate(given)
    async with open_server(settings, ConstantBackend()) as server:
        await server.plane.registry.serve(_MODEL, [1])
        sys.stdout.write(f"{server.address}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


async def _load(target: str, rows: int, in_flight: int) -> None:
    """Keep requests in flight for the number of seconds of each line of standard input; write the positions evaluated."""
    states, legal = sample_positions(_GAME, games=64, seed=0)
    batch = LeafBatch(np.resize(states, (rows, states.shape[1])), np.resize(legal, (rows, legal.shape[1])))
    async with KServeEvaluator(target, _MODEL, timeout_s=60.0) as evaluator:
        while line := await asyncio.to_thread(sys.stdin.readline):
            ends_s = time.perf_counter() + float(line)

            async def lane(ends_s: float = ends_s) -> int:
                asked = 0
                while time.perf_counter() < ends_s:
                    await evaluator.evaluate(batch, version=ModelVersion(1))
                    asked += rows
                return asked

            found = await asyncio.gather(*(lane() for _ in range(in_flight)))
            sys.stdout.write(json.dumps(sum(found)) + "\n")
            sys.stdout.flush()


def _publish(store: DirectoryStore) -> None:
    store.publish(_MODEL, sample_files(), manifest_of(_GAME, uniform_golden(_GAME)))


def _started(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, __file__, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


class _Stack:
    """Server with a number of front ends, and its clients."""

    def __init__(self, store: Path, front_ends: int, given: argparse.Namespace) -> None:
        self._server = _started("--serve", str(store), "--front-ends", str(front_ends))
        target = "" if self._server.stdout is None else self._server.stdout.readline().strip()
        load = ("--load", target, "--rows", str(given.rows), "--in-flight", str(given.in_flight))
        self._clients = [_started(*load) for _ in range(given.clients)]
        device = psutil.Process(self._server.pid)
        self._parts = {"device": [device], "front ends": device.children()}
        self._parts["clients"] = [psutil.Process(client.pid) for client in self._clients]
        self.measure(_WARM_UP_S)

    def measure(self, seconds: float) -> dict[str, float]:
        """Return positions a second of wall-clock time, and processor seconds of each part for a million positions."""
        before = self._processor_s()
        began_s = time.perf_counter()
        for client in self._clients:
            if client.stdin is not None:
                client.stdin.write(f"{seconds}\n")
                client.stdin.flush()
        positions = sum(json.loads(client.stdout.readline()) for client in self._clients if client.stdout is not None)
        took_s = time.perf_counter() - began_s
        used = {part: 1e6 * (after - before[part]) / positions for part, after in self._processor_s().items()}
        return {"positions per second": positions / took_s, **used}

    def close(self) -> None:
        """End all processes."""
        for process in (*self._clients, self._server):
            process.communicate()

    def _processor_s(self) -> dict[str, float]:
        return {part: sum(sum(one.cpu_times()[:2]) for one in found) for part, found in self._parts.items()}


def _measure(given: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="zf-fronts-") as directory:
        store = DirectoryStore(Path(directory) / "models")
        _publish(store)
        found: dict[int, list[dict[str, float]]] = {count: [] for count in given.front_ends}
        for _ in range(given.rounds):
            for count, measured in found.items():
                stack = _Stack(store.root, count, given)
                try:
                    measured.append(stack.measure(given.seconds))
                finally:
                    stack.close()
    sys.stdout.write(f"{given.clients} clients x {given.in_flight} requests of {given.rows} rows, {os.cpu_count()} cores\n")
    for count, measured in found.items():
        medians = {name: statistics.median(each[name] for each in measured) for name in measured[0]}
        figures = ", ".join(f"{name} {value:,.2f} s" for name, value in list(medians.items())[1:])
        limit = 1e6 / medians["device"]
        sys.stdout.write(
            f"front ends {count}: {medians['positions per second']:,.0f} positions/s; processor time a million positions:"
            f" {figures}; limit of the device's process {limit:,.0f} positions/s\n"
        )
    sys.stdout.write(f"load average {', '.join(f'{load:.1f}' for load in os.getloadavg())}\n")


def main() -> None:
    """Measure, or be one of the processes that are measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--front-ends", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--in-flight", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", metavar="STORE", help=argparse.SUPPRESS)
    parser.add_argument("--load", metavar="TARGET", help=argparse.SUPPRESS)
    given = parser.parse_args()
    logs.configure("warning", "json", "front_ends")  # standard output is for figures
    if given.serve:
        asyncio.run(_serve(DirectoryStore(Path(given.serve)), given.front_ends[0]))
    elif given.load:
        asyncio.run(_load(given.load, given.rows, given.in_flight))
    else:
        _measure(given)


if __name__ == "__main__":
    main()
