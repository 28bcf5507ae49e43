"""Step of a trainer's network with the compiled kernel and with torch alone, in alternating turns of one process.

    python benchmarks/training_step.py --blocks 2 --channels 32 --batch 256 --rounds 40

A step is the forward pass, the backward pass, the clipping of the gradient and the optimiser, on random positions; batches are
not assembled. Figures are processor time, so that other processes disturb them little; the ratio is the median over pairs of
neighbouring steps, with its quartiles.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from games.core import make
from trainer.compiled_tower import backend_name, obstacle, with_compiled_units
from trainer.network import Network, new_network
from trainer.optimisation import make_optimizer
from zerofleet.presets import NetworkSettings, TrainSettings
from zerofleet.service.allocator import keep_freed_memory

_WARM_UP_STEPS = 3


def stepper(network: Network, called: Network, planes: Tensor) -> Callable[[], None]:
    """Return a step of `network` through its view `called`."""
    settings = TrainSettings()
    optimizer = make_optimizer(network, settings)

    def step() -> None:
        logits, value, _ = called(planes)
        loss = logits.square().mean() + value.square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), settings.gradient_clip)
        optimizer.step()

    return step


def seconds_of(step: Callable[[], None]) -> float:
    """Return the processor time of a step."""
    began = time.process_time()
    step()
    return time.process_time() - began


def main() -> int:
    """Measure and print one line; return the exit code."""
    parser = argparse.ArgumentParser(description="Measure a training step with the compiled kernel and with torch.")
    parser.add_argument("--game", default="connect_four")
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=40, help="pairs of steps")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    keep_freed_memory()
    spec = make(given.game).spec()
    network = new_network(spec, NetworkSettings(blocks=given.blocks, channels=given.channels), seed=0)
    network = network.to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    if reason := obstacle(network, torch.device("cpu"), spec.planes[1:]):
        sys.stderr.write(f"error: {reason}\n")
        return 1
    other = copy.deepcopy(network)
    draw = torch.Generator().manual_seed(0)
    planes = (torch.rand((given.batch, *spec.planes), generator=draw) < 0.4).float().to(memory_format=torch.channels_last)
    steps = [stepper(network, network, planes), stepper(other, with_compiled_units(other), planes)]
    for step in steps * _WARM_UP_STEPS:
        step()
    spent: list[list[float]] = [[], []]
    for turn in range(given.rounds):
        for which in (turn % 2, 1 - turn % 2):
            spent[which].append(seconds_of(steps[which]))
    low, middle, high = statistics.quantiles([a / b for a, b in zip(*spent, strict=True)], n=4)
    torchs, own = (statistics.median(times) * 1e3 for times in spent)
    sys.stdout.write(
        f"{given.blocks} x {given.channels}, batch {given.batch}: torch {torchs:.1f} ms, {backend_name()} {own:.1f} ms, "
        f"ratio {middle:.2f} ({low:.2f} to {high:.2f})\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
