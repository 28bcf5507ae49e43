"""Follower: a rank that shares the steps of rank 0, without stream, store or gatekeeper.

It becomes a copy of rank 0's learner, settings included, through a checkpoint sent over the wire, and remains one: in each
step it adds the gradients of its part of the batch, and the sum is the same on every rank.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import structlog
import torch

from games import core
from games.core import Game
from games.positions import parameters_text
from trainer.checkpoint import pack, restore, unpack
from trainer.learner import Learner
from trainer.learners.contract import Accounts
from trainer.network import new_network
from trainer.process_group import Order, ProcessGroup
from trainer.ranks import Place, choose_device
from trainer.settings import TrainerSettings
from trainer.window import SampleWindow
from zerofleet.errors import InvalidRequest
from zerofleet.presets import NetworkSettings, TrainSettings
from zerofleet.service.allocator import keep_freed_memory
from zerofleet.service.lifecycle import Service

__all__ = ["Follower", "follow", "invitation", "settings_of_follower"]

log = structlog.get_logger()


def settings_of_follower(settings: TrainerSettings, place: Place) -> TrainerSettings:
    """Return the settings of a rank other than 0; only the first rank of a machine keeps the metrics port."""
    return settings.model_copy(update={"announce": None, "metrics_port": 0 if place.local_rank else settings.metrics_port})


def invitation(game: Game, settings: TrainerSettings, learner: Learner, accounts: Accounts) -> list[bytes]:
    """Return the texts that make another process a copy of a learner: settings, and the two files of a checkpoint."""
    shared = {
        "game": game.spec().name,
        "parameters": parameters_text(game),
        "network": settings.network.model_dump(),
        "train": settings.train.model_dump(),
        "seed": settings.seed,
    }
    return [json.dumps(shared).encode(), *pack(game, settings.network, learner, accounts)]


async def follow(service: Service, settings: TrainerSettings, place: Place) -> None:
    """Follow rank 0 until it ends. On a stop signal the rank notifies rank 0 and continues until all end.

    Raises `Unavailable` when another rank is lost, `VersionSkew` when rank 0 runs other code.
    Cancellation: the current step fails on every rank.
    """
    loop = asyncio.get_running_loop()
    device = choose_device(settings.device, place)
    keep_freed_memory()
    ended = asyncio.Event()
    with ThreadPoolExecutor(1, thread_name_prefix="learner") as thread:
        group = await loop.run_in_executor(thread, lambda: ProcessGroup.join(place, device, timeout_s=settings.rank_timeout_s))

        async def leave() -> None:
            group.leaving = True
            await ended.wait()

        def ready() -> None:
            loop.call_soon_threadsafe(service.ready)

        service.on_drain("follower", leave)
        try:
            await loop.run_in_executor(thread, Follower(group, device, on_joined=ready).run)
        finally:
            ended.set()
            group.leave()


class Follower:
    """Executor of rank 0's orders; synchronous, for one thread."""

    def __init__(self, group: ProcessGroup, device: torch.device, *, on_joined: Callable[[], object] = lambda: None) -> None:
        """`on_joined` is called in this thread once this rank is a copy of rank 0."""
        self._on_joined = on_joined
        self._group = group
        self._device = device
        self._game: Game | None = None
        self.learner: Learner | None = None

    def run(self) -> None:
        """Carry out orders until the last one. Raises as `follow` does."""
        while self.obey():
            pass

    def obey(self) -> bool:
        """Carry out one order; return whether another will follow."""
        order, numbers = self._group.next_order()
        if order is Order.JOIN:
            self._join(self._group.receive_texts(numbers[:3]))
        elif order is Order.STEP:
            self._step(numbers)
        else:
            self._group.answer()
        return order is not Order.END

    def _join(self, texts: list[bytes]) -> None:
        """Become a copy of rank 0's learner."""
        shared = json.loads(texts[0])
        game = core.make(shared["game"], **shared["parameters"])
        network = NetworkSettings.model_validate(shared["network"])
        train = TrainSettings.model_validate(shared["train"])
        torch.set_num_threads(train.threads)
        learner = Learner(
            game.spec(),
            new_network(game.spec(), network, seed=shared["seed"]),
            train,
            SampleWindow(game.spec(), train),
            seed=shared["seed"],
            device=self._device,
            ranks=self._group,
        )
        restore(learner, game, network, *unpack(texts[1], texts[2], where="rank 0"))
        self._game, self.learner = game, learner
        self._on_joined()
        place = self._group.place
        log.info("follower.joined", rank=place.rank, ranks=place.size, device=str(self._device), step=learner.state.step)

    def _step(self, numbers: list[float]) -> None:
        if self._game is None or self.learner is None:
            raise InvalidRequest("rank 0 ordered a step before it sent its learner")
        self.learner.train_on(self._group.receive_part(self._game.spec(), numbers))
