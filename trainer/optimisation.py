"""Optimisation: learning-rate schedule, weight decay by parameter, and the weight average used for candidates."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping
from typing import Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trainer.network import Network
from trainer.optimisers import SGD, AdamW
from zerofleet.presets import TrainSettings

__all__ = [
    "WeightAverage",
    "estimate_statistics",
    "fall",
    "learning_rate",
    "load_momentum",
    "make_optimizer",
    "momentum_of",
    "set_rate",
]


_MOMENTUM = "momentum_buffer"  # torch's name


def learning_rate(settings: TrainSettings, step: int, progress: float = 0.0) -> float:
    """Return the rate of a step, numbered from 0: linear warm-up, then the schedule.

    `progress`: share of the planned training that has passed, in [0, 1], for a schedule over the plan.
    """
    warm = min(1.0, (step + 1) / (settings.warmup_steps + 1))
    if settings.schedule == "constant":
        return settings.learning_rate * warm
    done = progress if settings.schedule_over == "plan" else min(1.0, step / settings.schedule_steps)
    return settings.learning_rate * warm * fall(done, floor=settings.schedule_floor, shape=settings.schedule)


def fall(done: float, *, floor: float, shape: Literal["cosine", "linear"] = "cosine") -> float:
    """Return the factor of a rate that falls from 1 to `floor`, evenly or by half a cosine; `done`: share passed, in [0, 1]."""
    above_floor = 0.5 * (1.0 + math.cos(math.pi * done)) if shape == "cosine" else 1.0 - done
    return floor + (1.0 - floor) * above_floor


def set_rate(optimizer: Optimizer, rate: float) -> None:
    """Set the learning rate of all parameters."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def make_optimizer(network: Network, settings: TrainSettings) -> Optimizer:
    """Return the optimiser; matrices and convolutions are decayed, biases and batch norms are not."""
    parameters = list(network.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    if settings.optimizer == "sgd":
        return SGD(groups, lr=settings.learning_rate, momentum=settings.momentum, nesterov=settings.momentum > 0)
    return AdamW(groups, lr=settings.learning_rate, fused=True)


def momentum_of(optimizer: SGD, network: nn.Module) -> dict[str, Tensor]:
    """Return the momentum of each parameter that has one, by name: before the first step none has."""
    found = {name: optimizer.state[parameter].get(_MOMENTUM) for name, parameter in network.named_parameters()}
    return {name: momentum for name, momentum in found.items() if momentum is not None}


def load_momentum(optimizer: SGD, network: nn.Module, momenta: Mapping[str, Tensor]) -> None:
    """Set what `momentum_of` returned."""
    for name, parameter in network.named_parameters():
        if name in momenta:
            optimizer.state[parameter][_MOMENTUM] = momenta[name].to(parameter.device, copy=True)


class WeightAverage:
    """Exponential average of a network's weights; the decay ramps up, so that the first weights are forgotten quickly.

    Averaged weights play better than the last ones at the same rate (Polyak and Juditsky 1992). Their batch norms need
    separate statistics: see `estimate_statistics`.
    """

    def __init__(self, network: Network, decay: float) -> None:
        self.weights = [parameter.detach().clone() for parameter in network.parameters()]
        self.updates = 0
        self._decay = decay

    @torch.no_grad()
    def update(self, network: Network) -> None:
        """Include the weights after a step."""
        self.updates += 1
        decay = min(self._decay, (1 + self.updates) / (10 + self.updates))
        now: list[Tensor] = list(network.parameters())
        torch._foreach_lerp_(self.weights, now, 1.0 - decay)

    @torch.no_grad()
    def network(self, like: Network) -> Network:
        """Return a network with the averaged weights and the buffers of `like`."""
        averaged = copy.deepcopy(like)
        for parameter, weight in zip(averaged.parameters(), self.weights, strict=True):
            parameter.copy_(weight)
        return averaged


@torch.no_grad()
def estimate_statistics(network: Network, planes: Iterable[Tensor]) -> None:
    """Set the batch norms' statistics to the mean over batches of planes, and the network to evaluation mode.

    The running statistics of training belong to the weights of the last steps, not to their average. `network` may be a view
    (`trainer.compiled_tower`), which has the statistics in common with its network, but not the mode.
    """
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # selects a cumulative mean
    network.train()
    for batch in planes:
        network(batch)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    network.eval()
