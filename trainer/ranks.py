"""Ranks: the processes that train one network together, as torchrun starts them; most often there is one.

    torchrun --nproc-per-node 2 -m trainer --game othello --preset gpu

torchrun tells each process its place in the environment. Rank 0 is the trainer: it alone takes games, draws batches, writes
checkpoints and publishes. The others (`trainer.follower`) help with its steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.batches import Drawn
from trainer.network import Network
from zerofleet.errors import ConfigurationError

__all__ = ["ALONE", "Place", "Ranks", "choose_device", "place_in"]


@dataclass(frozen=True, slots=True)
class Place:
    """Which of the ranks this process is."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """Its number among those of this machine, which chooses the GPU."""


ALONE = Place()


def place_in(environment: Mapping[str, str]) -> Place:
    """Return the place that torchrun's variables name; without them a process is alone. Raises `ConfigurationError`."""
    if environment.get("WORLD_SIZE", "1") == "1":
        return ALONE
    missing = [name for name in ("RANK", "LOCAL_RANK") if not environment.get(name, "").isdigit()]
    missing += [name for name in ("MASTER_ADDR", "MASTER_PORT") if not environment.get(name)]
    size = environment["WORLD_SIZE"]
    if missing or not size.isdigit() or int(environment["RANK"]) >= int(size):
        raise ConfigurationError(
            f"WORLD_SIZE is {size!r}, but {', '.join(missing) or 'RANK'} says nothing that fits; start the ranks with "
            "torchrun, or remove WORLD_SIZE from the environment to train with one process"
        )
    return Place(int(environment["RANK"]), int(size), int(environment["LOCAL_RANK"]))


def choose_device(name: str, place: Place = ALONE) -> torch.device:
    """Return the device a setting means; raises `ConfigurationError` when there is no such one."""
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise ConfigurationError("device is set to cuda, but torch sees no GPU here; set it to cpu or auto")
    if not available or name == "cpu":
        return torch.device("cpu")
    if place.size == 1:
        return torch.device("cuda")
    if place.local_rank >= (count := torch.cuda.device_count()):
        raise ConfigurationError(
            f"local rank {place.local_rank} has no GPU of its own, torch sees {count} here; "
            f"set torchrun's --nproc-per-node to {count}, or device to cpu"
        )
    return torch.device("cuda", place.local_rank)


class Ranks:
    """What a learner does together with others. This is the case in which there are none: nothing."""

    place = ALONE
    asked_to_end = False
    """Whether one of the others was asked to end, so that all should."""

    @property
    def size(self) -> int:
        """How many there are, this one included."""
        return self.place.size

    def invite(self, texts: Sequence[bytes]) -> None:
        """Send the others what makes them copies of this learner (`trainer.follower.invitation`)."""

    def view(self, network: Network) -> Network:
        """Return what a learner calls in a step: the same parameters, normalised over the batch of all ranks."""
        return network

    def turn(self) -> AbstractContextManager[None]:
        """Hold what all ranks do together from the beginning to the end of a step."""
        return nullcontext()

    def share(self, drawn: Drawn) -> Drawn:
        """Give each of the others its part of a batch, and return one's own. Rank 0 alone draws."""
        return drawn

    def sum_step(self, gradients: Sequence[Tensor], figures: Tensor) -> None:
        """Replace gradients and figures by their sums over all ranks, which are bit by bit the same on each of them."""
