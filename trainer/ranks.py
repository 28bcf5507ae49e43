"""Ranks: the processes that train one network together, as started by torchrun; usually one.

    torchrun --nproc-per-node 2 -m trainer --game othello --preset gpu

torchrun sets the place of each process in its environment. Rank 0 is the trainer: it alone takes games, draws batches,
writes checkpoints and publishes. The others (`trainer.follower`) share its steps.
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
    """Place of this process among the ranks."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """Number among the ranks of this machine, which selects the GPU."""


ALONE = Place()


def place_in(environment: Mapping[str, str]) -> Place:
    """Return the place in torchrun's variables; without them, `ALONE`. Raises `ConfigurationError` for invalid ones."""
    if environment.get("WORLD_SIZE", "1") == "1":
        return ALONE
    missing = [name for name in ("RANK", "LOCAL_RANK") if not environment.get(name, "").isdecimal()]
    missing += [name for name in ("MASTER_ADDR", "MASTER_PORT") if not environment.get(name)]
    size = environment["WORLD_SIZE"]
    if missing or not size.isdecimal() or int(environment["RANK"]) >= int(size):
        raise ConfigurationError(
            f"WORLD_SIZE is {size!r}, but {', '.join(missing) or 'RANK'} is missing or does not fit; start the ranks with "
            "torchrun, or remove WORLD_SIZE from the environment to train with one process"
        )
    return Place(int(environment["RANK"]), int(size), int(environment["LOCAL_RANK"]))


def choose_device(name: str, place: Place = ALONE) -> torch.device:
    """Return the device of a setting. Raises `ConfigurationError` when it does not exist."""
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise ConfigurationError("device is set to cuda, but torch finds no GPU here; set it to cpu or auto")
    if not available or name == "cpu":
        return torch.device("cpu")
    if place.size == 1:
        return torch.device("cuda")
    if place.local_rank >= (count := torch.cuda.device_count()):
        raise ConfigurationError(
            f"no GPU is left for local rank {place.local_rank}, torch finds {count} here; "
            f"set torchrun's --nproc-per-node to {count}, or device to cpu"
        )
    return torch.device("cuda", place.local_rank)


class Ranks:
    """Collective operations of a learner; this base class is the null object for a single process."""

    place = ALONE
    asked_to_end = False
    """Whether another rank has received a stop signal, so that all should end."""

    @property
    def size(self) -> int:
        """Number of ranks, this one included."""
        return self.place.size

    def invite(self, texts: Sequence[bytes]) -> None:
        """Send this learner to the others as a copy (`trainer.follower.invitation`)."""

    def view(self, network: Network) -> Network:
        """Return the network to call in a step: the same parameters, normalised over the batch of all ranks."""
        return network

    def turn(self) -> AbstractContextManager[None]:
        """Exclude other collective operations for the duration of a step."""
        return nullcontext()

    def share(self, drawn: Drawn) -> Drawn:
        """Send every other rank its part of a batch, and return this rank's. Rank 0 alone draws."""
        return drawn

    def add_up(self, tensor: Tensor) -> None:
        """Replace the tensor by the sum over all ranks."""

    def sum_step(self, gradients: Sequence[Tensor], figures: Tensor) -> None:
        """Replace gradients and figures by their sums over all ranks, bit-identical on each."""
