"""Process group: ranks that train one network together, over torch.distributed (gloo between CPUs, nccl between GPUs).

Rank 0 sends orders; the others wait for one, carry it out with rank 0, and wait for the next.

    WAIT   heartbeat                              after a while without another order
    JOIN   become a copy of rank 0's learner      once, before the first step
    STEP   train on a part of a batch
    END    shut down

Every operation succeeds or fails on all ranks: the others detect a dead or hanging rank within the time-out, raise
`Unavailable` and end, and torchrun restarts them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from enum import IntEnum
from typing import Self

import numpy as np
import structlog
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from games.core import GameSpec
from trainer.batches import Drawn, Whole, from_rows, to_rows
from trainer.meeting import meet
from trainer.network import Network
from trainer.norms import with_global_norms
from trainer.ranks import Place, Ranks
from zerofleet.errors import Unavailable

__all__ = ["Order", "ProcessGroup", "open_ranks", "part_of"]

BEAT_EVERY_S = 2.0  # maximum delay before a stop signal of another rank reaches rank 0
BEATS_PER_TIMEOUT = 4
_HEADER = 3 + len(Whole._fields)  # an order and up to all numbers of `STEP`

log = structlog.get_logger()


class Order(IntEnum):
    """Order of rank 0 to the others."""

    WAIT = 0
    JOIN = 1
    STEP = 2
    END = 3


def part_of(count: int, rank: int, size: int) -> tuple[int, int]:
    """Return the half-open range of a rank's rows of a batch; parts differ by at most one row."""
    return rank * count // size, (rank + 1) * count // size


class ProcessGroup(Ranks):
    """Membership of this process among several ranks."""

    def __init__(self, place: Place, *, timeout_s: float) -> None:
        self.place = place
        self.beat_every_s = min(BEAT_EVERY_S, timeout_s / BEATS_PER_TIMEOUT)
        self.leaving = False
        """Whether this rank received a stop signal; sent to rank 0 with the next order."""
        self._timeout_s = timeout_s
        self._turn = threading.Lock()
        self._ordered_at = time.monotonic()
        self._flat: Tensor | None = None

    @classmethod
    def join(cls, place: Place, device: torch.device, *, timeout_s: float) -> Self:
        """Connect to the other ranks; return once all have joined. Raises `Unavailable` after the time-out."""
        group = cls(place, timeout_s=timeout_s)
        backend = "gloo"
        if device.type == "cuda":
            torch.cuda.set_device(device)
            backend = "cpu:gloo,cuda:nccl"
        timeout = timedelta(seconds=timeout_s)
        with group._together("meeting"):
            store, _, _ = next(rendezvous("env://", place.rank, place.size, timeout=timeout))
            own = meet(store, place, timeout_s=timeout_s)
            dist.init_process_group(backend, store=own, rank=place.rank, world_size=place.size, timeout=timeout)
        return group

    def leave(self) -> None:
        """Close the connections."""
        with suppress(RuntimeError):  # the connections may be broken already
            dist.destroy_process_group()

    # Operations of rank 0.

    def invite(self, texts: Sequence[bytes]) -> None:
        """See `Ranks.invite`."""
        with self.turn():
            self._order(Order.JOIN, *map(len, texts))
            with self._together("sending the learner"):
                for text in texts:
                    dist.broadcast(torch.frombuffer(bytearray(text), dtype=torch.uint8), src=0)

    def beat(self) -> None:
        """Send a heartbeat if no order was sent for a while, and await the replies."""
        with self.turn():
            if time.monotonic() - self._ordered_at >= self.beat_every_s / 2:
                self._order(Order.WAIT)
                self.answer()

    def end(self) -> None:
        """Order every rank to end."""
        with self.turn():
            self._order(Order.END)
            self.answer()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """See `Ranks.turn`."""
        with self._turn:
            yield

    def share(self, drawn: Drawn) -> Drawn:
        """See `Ranks.share`; call it inside `turn`."""
        rows, count = to_rows(drawn), len(drawn.turns)
        self._order(Order.STEP, rows.shape[1], drawn.progress, *drawn.whole)
        parts = [self._padded(rows[slice(*part_of(count, rank, self.size))], count) for rank in range(self.size)]
        with self._together("sending a batch"):
            dist.scatter(torch.empty_like(parts[0]), parts, src=0)
        begin, end = part_of(count, 0, self.size)
        return drawn.part(begin, end)

    # Operations of the other ranks.

    def next_order(self) -> tuple[Order, list[float]]:
        """Wait for an order; rank 0 sends several within the time-out."""
        header = torch.zeros(_HEADER, dtype=torch.float64)
        with self._together("waiting for rank 0"):
            dist.broadcast(header, src=0)
        kind, *numbers = header.tolist()
        return Order(int(kind)), numbers

    def receive_texts(self, sizes: Sequence[float]) -> list[bytes]:
        """Carry out `JOIN`: return the texts of the given sizes."""
        texts = [torch.empty(int(size), dtype=torch.uint8) for size in sizes]
        with self._together("receiving the learner"):
            for text in texts:
                dist.broadcast(text, src=0)
        return [text.numpy().tobytes() for text in texts]

    def receive_part(self, spec: GameSpec, numbers: Sequence[float]) -> Drawn:
        """Receive the batch of `STEP`: return this rank's part."""
        width, progress, positions, *weights = numbers
        whole = Whole(int(positions), *weights)
        begin, end = part_of(whole.positions, self.place.rank, self.size)
        part = torch.empty(self._most_rows(whole.positions), int(width), dtype=torch.uint8)
        with self._together("receiving a batch"):
            dist.scatter(part, src=0)
        return from_rows(part.numpy()[: end - begin], spec, whole, progress)

    # Collective operations.

    def view(self, network: Network) -> Network:
        """See `Ranks.view`."""
        return with_global_norms(network, self)

    def sum_step(self, gradients: Sequence[Tensor], figures: Tensor) -> None:
        """See `Ranks.sum_step`: one message for all tensors, since networks are small and latency dominates."""
        tensors = [*gradients, figures, figures.new_tensor([float(self.leaving)])]
        sizes = [tensor.numel() for tensor in tensors]
        if self._flat is None or len(self._flat) != sum(sizes):
            self._flat = figures.new_empty(sum(sizes))
        pieces = torch.split(self._flat, sizes)
        views = [piece.view(tensor.shape) for piece, tensor in zip(pieces, tensors, strict=True)]
        torch._foreach_copy_(views, tensors)
        self.add_up(self._flat)
        torch._foreach_copy_(tensors, views)
        self.asked_to_end = self.asked_to_end or bool(tensors[-1] > 0)

    def gather(self, tensor: Tensor) -> Tensor:
        """See `Exchange.gather`."""
        everyone = tensor.new_empty(self.size, *tensor.shape)
        with self._together("gathering moments"):
            dist.all_gather(list(everyone), tensor.contiguous())
        return everyone

    def add_up(self, tensor: Tensor) -> None:
        """See `Ranks.add_up` and `Exchange.add_up`."""
        with self._together("adding up"):
            dist.all_reduce(tensor)

    def answer(self) -> None:
        """Carry out `WAIT` and `END`: confirm presence, and share whether this rank received a stop signal."""
        said = torch.tensor([float(self.leaving)])
        self.add_up(said)
        self.asked_to_end = self.asked_to_end or bool(said > 0)

    def _order(self, kind: Order, *numbers: float) -> None:
        """Send an order; float64 holds counts up to 2^53 exactly."""
        header = torch.tensor([kind, *numbers, *[0.0] * (_HEADER - 1 - len(numbers))], dtype=torch.float64)
        with self._together("giving an order"):
            dist.broadcast(header, src=0)
        self._ordered_at = time.monotonic()

    def _most_rows(self, count: int) -> int:
        return -(-count // self.size)

    def _padded(self, rows: np.ndarray, count: int) -> Tensor:
        """Return rows as a message, padded so that all messages of a batch have the same length."""
        padded = np.zeros((self._most_rows(count), rows.shape[1]), np.uint8)
        padded[: len(rows)] = rows
        return torch.from_numpy(padded)

    @contextmanager
    def _together(self, what: str) -> Iterator[None]:
        """Raise `Unavailable` for a failed collective operation, with this rank and the consequences."""
        try:
            yield
        except RuntimeError as error:
            raise Unavailable(
                f"rank {self.place.rank} of {self.size} lost another one while {what}: {str(error).splitlines()[0]}; an "
                f"unresponsive rank is given up after {self._timeout_s:g} s (rank_timeout_s). All ranks end now; "
                "torchrun --max-restarts starts them again from the last checkpoint"
            ) from error


@asynccontextmanager
async def open_ranks(
    place: Place, device: torch.device, *, timeout_s: float, on_asked_to_end: Callable[[], None]
) -> AsyncIterator[Ranks]:
    """Lead the ranks as rank 0 while the block runs; a single process needs no group.

    `on_asked_to_end` is called when another rank has received a stop signal. At the normal end of the block all ranks end;
    when it raises, the others detect the loss of this rank. A lost rank ends the block with `Unavailable`.
    Cancellation: as when the block raises.
    """
    if place.size == 1:
        yield Ranks()
        return
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1, thread_name_prefix="ranks") as thread:
        group = await loop.run_in_executor(thread, lambda: ProcessGroup.join(place, device, timeout_s=timeout_s))
        log.info("ranks.gathered", ranks=place.size, device=str(device))

        async def beat() -> None:
            while True:
                await loop.run_in_executor(thread, group.beat)
                if group.asked_to_end:
                    on_asked_to_end()
                await asyncio.sleep(group.beat_every_s)

        try:
            async with asyncio.TaskGroup() as tasks:
                beating = tasks.create_task(beat())
                yield group
                beating.cancel()
            await loop.run_in_executor(thread, group.end)
        finally:
            group.leave()
