"""Evaluations of a network by the compiled kernel, with each instruction set, and by TorchScript, in turns of one process.

    python benchmarks/served_network.py --blocks 2 --channels 32 --batch 64 256 512 --rounds 9

Figures are positions a second of processor time, so that other processes disturb them little; the ratio is the median over
rounds of the rate to that of TorchScript in float32, with its quartiles. `--block 6 24` measures the kernel with blocks of 6
and of 24 positions, and the ratio of the second is to the first with the same instruction set. Below them stand the largest
differences to the network in float64, on positions of random games; probabilities are rounded to half precision in both.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from games.core import make
from inference_server.backend import TorchBackend
from trainer.export import Lineage, export_network
from trainer.network import Network, new_network
from zerofleet.contracts.encodings import sample_positions
from zerofleet.contracts.model_checks import WEIGHTS_FILE
from zerofleet.evaluators.native import library, load_native
from zerofleet.presets import NetworkSettings
from zerofleet.service.allocator import keep_freed_memory
from zerofleet.storage.model_store import DirectoryStore

_TURN_S = 0.25
_BASE = "torchscript float32"
_GAMES = 64


class Evaluates(Protocol):
    """A loaded network."""

    def evaluate(self, states: list[np.ndarray], legal: list[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Return policy, value and extra heads of the requests."""
        ...


def with_random_norms(network: Network) -> Network:
    """Return the network with other norms than the identity, and outputs far from zero, as after training."""
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                for tensor, low, high in (
                    (module.weight, 0.5, 1.2),
                    (module.bias, -0.2, 0.2),
                    (module.running_mean, -0.3, 0.3),
                    (module.running_var, 0.5, 1.5),
                ):
                    assert tensor is not None  # noqa: S101 - these norms have all four
                    tensor.copy_(low + (high - low) * torch.rand(tensor.shape, generator=draw))
            if isinstance(module, torch.nn.Linear):
                module.weight.mul_(4)
    return network


def rate(network: Evaluates, states: np.ndarray, legal: np.ndarray, clock: Callable[[], float]) -> float:
    """Return the positions a second of a clock in one turn."""
    began, positions = clock(), 0
    while (spent := clock() - began) < _TURN_S:
        network.evaluate([states], [legal])
        positions += len(states)
    return positions / spent


def measured(
    networks: dict[str, Evaluates],
    bases: dict[str, str],
    states: np.ndarray,
    legal: np.ndarray,
    *,
    rounds: int,
    clock: Callable[[], float],
) -> list[str]:
    """Return a line of each network: its rate, and the ratio to that of its base, by default TorchScript."""
    rates: dict[str, list[float]] = {name: [] for name in networks}
    for turn in range(rounds + 1):
        for name, network in list(networks.items())[:: -1 if turn % 2 else 1]:
            rates[name].append(rate(network, states, legal, clock))
    lines = []
    for name, found in rates.items():
        base = rates[bases.get(name, _BASE)]
        low, middle, high = statistics.quantiles([a / b for a, b in zip(found[1:], base[1:], strict=True)], n=4)
        lines.append(
            f"batch {len(states)}  {name:30} {statistics.median(found[1:]):9.0f}  {middle:.2f} ({low:.2f} to {high:.2f})"
        )
    return lines


def main() -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(description="Measure the evaluation of a network by each backend and instruction set.")
    parser.add_argument("--game", default="connect_four")
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--batch", type=int, nargs="+", default=[64, 256, 512])
    parser.add_argument("--rounds", type=int, default=9, help="turns of each, after a first one that is left out")
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="several: by the wall clock, each to the first")
    parser.add_argument("--block", type=int, nargs="+", default=[0], help="positions of a block of the kernel; 0: as served")
    given = parser.parse_args()
    found = library.find()
    if found.library is None:
        sys.stderr.write(f"error: {found.reason}\n")
        return 1
    are_several = len(given.threads) > 1
    torch.set_num_threads(given.threads[0])
    keep_freed_memory()
    game = make(given.game)
    settings = NetworkSettings(blocks=given.blocks, channels=given.channels)
    trained = with_random_norms(new_network(game.spec(), settings, seed=0)).eval()
    states, legal = sample_positions(game, games=_GAMES, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        store = DirectoryStore(Path(folder))
        version = export_network(store, game, trained, settings, lineage=Lineage())
        path, manifest = store.directory(given.game, version) / "model.pt", store.verify(given.game, version)
        networks: dict[str, Evaluates] = {}
        bases: dict[str, str] = {}
        for known in found.instructions:
            first = ""
            for block, threads in itertools.product(given.block, given.threads):
                name = f"native {known.name}" + (f", blocks of {block}" if block else "") + f", threads {threads}" * are_several
                networks[name] = load_native(
                    path.with_name(WEIGHTS_FILE), manifest, game.spec(), threads=threads, instructions=known.name, block=block
                )
                if first:
                    bases[name] = first
                first = first or name
        for precision in ("float32", "bfloat16"):
            backend = TorchBackend("cpu", precision, given.threads[0])
            networks[f"torchscript {precision}"] = backend.load(path, manifest, max_batch=max(given.batch))
        exact = torch.jit.load(str(path)).double()  # type: ignore[no-untyped-call]
    clock, unit = (time.perf_counter, "second") if are_several else (time.process_time, "processor second")
    sys.stdout.write(f"{given.blocks} x {given.channels}, threads: {given.threads}, positions a {unit}, ratio\n")
    for batch in given.batch:
        some = (np.resize(states, (batch, states.shape[1])), np.resize(legal, (batch, legal.shape[1])))
        sys.stdout.write("".join(f"{line}\n" for line in measured(networks, bases, *some, rounds=given.rounds, clock=clock)))
        sys.stdout.flush()
    with torch.inference_mode():
        wanted = [each.double().numpy() for each in exact(torch.from_numpy(states), torch.from_numpy(legal))]
    for name, network in networks.items():
        got = network.evaluate([states], [legal])
        policy, value = (np.abs(own.astype(np.float64) - right).max() for own, right in zip(got[:2], wanted[:2], strict=True))
        sys.stdout.write(f"{len(states)} positions  {name:30} probability {policy:.1e}  value {value:.1e}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
