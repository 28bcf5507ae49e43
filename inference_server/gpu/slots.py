"""Slots: batches of one network on a device, each in buffers of its own, so that several are in flight.

    host buffer ──arriving──► device buffer ──computing──► device buffer ──leaving──► host buffer
      (begin)      arrived ┘                   computed ┘                   done ┘     (collect)

Every step is queued by `begin`; each stream waits for the event of the one before. Buffers have the rows of the largest rung
and are allocated once. A batch is padded with the positions of earlier ones, whose answers are not read.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from inference_server.gpu.accelerator import Accelerator, Event, Graph, Streams, require_alive
from inference_server.gpu.ladder import rung_of
from inference_server.network import Evaluated, NetworkOutput, Pending
from zerofleet.contracts.pacing import give_way

__all__ = ["Forward", "Slots", "Widths"]

Forward = Callable[[Tensor, Tensor], tuple[Tensor, ...]]
"""Network: uint8 [B, packed_bytes] and int16 [B, L] to the answers of each head, on the device."""


class Widths(NamedTuple):
    """Widths of a version's tensors."""

    packed_bytes: int
    max_legal: int


@dataclass(eq=False, slots=True)
class _Slot:
    """Buffers of one batch."""

    host: tuple[Tensor, Tensor]  # states uint8 [R, packed_bytes], legal int16 [R, L]; page-locked
    device: tuple[Tensor, Tensor]
    device_answers: tuple[Tensor, ...]  # [R, W] of each head
    host_answers: tuple[Tensor, ...]
    arrived: Event
    computed: Event
    done: Event
    graphs: dict[int, Graph] = field(default_factory=dict)  # by rung


class _Flight:
    """A batch in a slot."""

    def __init__(self, slots: Slots, slot: _Slot, rows: int) -> None:
        self._slots, self._slot, self._rows = slots, slot, rows

    def wait(self) -> None:
        """See `Pending.wait`."""
        self._slots.accelerator.bind()
        self._slot.done.synchronize()

    def collect(self) -> NetworkOutput:
        """See `Pending.collect`."""
        return self._slots.collect(self._slot, self._rows)


class Slots:
    """A network that evaluates up to `count` batches at a time. Loaded by one thread, then used by the device thread."""

    def __init__(
        self, accelerator: Accelerator, forward: Forward, widths: Widths, *, rungs: tuple[int, ...], count: int
    ) -> None:
        """Allocate on the current stream and evaluate zeros once, for the heads' widths; raises what `forward` raises.

        Batches run on the stream `loading` until `enter_service`.
        """
        self.accelerator = accelerator
        self._forward = forward
        self._rungs = rungs
        self._streams = Streams(accelerator.loading, accelerator.loading, accelerator.loading)
        self._plans_of: int | None = threading.get_ident()
        """The thread that has planned the convolutions of every rung; None where graphs hold the plans."""
        with torch.inference_mode():
            self._free = [self._allocated(widths) for _ in range(count)]

    def evaluate(self, states: list[np.ndarray], legal: list[np.ndarray]) -> NetworkOutput:
        """See `Network.evaluate`; a batch beyond the largest rung is evaluated in parts."""
        if sum(map(len, states)) <= self._rungs[-1]:
            return self.begin(states, legal).collect()
        whole, listed = np.concatenate(states), np.concatenate(legal)
        starts = range(0, len(whole), self._rungs[-1])
        parts = [
            self.begin([whole[start : start + self._rungs[-1]]], [listed[start : start + self._rungs[-1]]]).collect()
            for start in starts
        ]
        return tuple(np.concatenate(heads) for heads in zip(*parts, strict=True))

    def begin(self, states: list[np.ndarray], legal: list[np.ndarray]) -> Pending:
        """See `QueueingNetwork.begin`. Needs a free slot; a batch beyond the largest rung is evaluated before it returns."""
        rows = sum(map(len, states))
        if rows > self._rungs[-1]:
            return Evaluated(self.evaluate(states, legal))
        slot = self._free.pop()
        try:
            self.accelerator.bind()
            self._plan_here(slot)
            for parts, buffer in zip((states, legal), slot.host, strict=True):
                np.concatenate(parts, out=buffer.numpy()[:rows])
            self._queue(slot, rung_of(rows, self._rungs))
        except Exception as error:
            self._settle(error)
            self._free.append(slot)
            raise
        return _Flight(self, slot, rows)

    def collect(self, slot: _Slot, rows: int) -> NetworkOutput:
        """Wait for the batch of a slot, return a copy of its answers and free the slot."""
        try:
            slot.done.synchronize()
            return tuple(answers.numpy()[:rows].copy() for answers in slot.host_answers)
        except RuntimeError as error:
            self._settle(error)
            raise
        finally:
            self._free.append(slot)

    def record(self) -> None:
        """Record the network as a graph for each rung and slot; on `RuntimeError`, if it cannot be, no graph is left.

        Called after every rung was evaluated. The largest comes first, so that the others fit into its memory.
        """
        try:
            self._record()
        except RuntimeError:
            for slot in self._free:
                slot.graphs.clear()
            raise
        self._plans_of = None

    def _record(self) -> None:
        pool = self.accelerator.pool()
        with torch.inference_mode():
            for slot in self._free:
                for rung in reversed(self._rungs):
                    give_way()
                    slot.graphs[rung] = self.accelerator.capture(functools.partial(self._compute, slot, rung), pool)
                for answers in slot.device_answers:  # those of the evaluations before; a graph without effect must be noticed
                    answers.fill_(torch.nan)

    def enter_service(self) -> None:
        """Wait for the work of the load; later batches run on the streams of the service."""
        self.accelerator.loading.synchronize()
        self._streams = self.accelerator.serving

    def _allocated(self, widths: Widths) -> _Slot:
        give_way()
        rows, device = self._rungs[-1], self.accelerator.device
        host = (
            self.accelerator.host_buffer((rows, widths.packed_bytes), torch.uint8),
            self.accelerator.host_buffer((rows, widths.max_legal), torch.int16).fill_(-1),
        )
        on_device = (
            torch.empty_like(host[0], device=device).copy_(host[0]),
            torch.empty_like(host[1], device=device).copy_(host[1]),
        )
        answers = self._forward(on_device[0][: self._rungs[0]], on_device[1][: self._rungs[0]])
        return _Slot(
            host,
            on_device,
            tuple(torch.zeros((rows, answer.shape[1]), dtype=answer.dtype, device=device) for answer in answers),
            tuple(self.accelerator.host_buffer((rows, answer.shape[1]), answer.dtype) for answer in answers),
            self.accelerator.event(),
            self.accelerator.event(),
            self.accelerator.event(),
        )

    def _queue(self, slot: _Slot, rung: int) -> None:
        """Queue the three steps of a batch whose positions are in the slot's host buffers."""
        on, streams = self.accelerator.on, self._streams
        with torch.inference_mode():
            with on(streams.arriving):
                for device, host in zip(slot.device, slot.host, strict=True):
                    device[:rung].copy_(host[:rung], non_blocking=True)
                slot.arrived.record(streams.arriving)
            with on(streams.computing):
                streams.computing.wait_event(slot.arrived)
                graph = slot.graphs.get(rung)
                if graph is None:
                    self._compute(slot, rung)
                else:
                    graph.replay()
                slot.computed.record(streams.computing)
            with on(streams.leaving):
                streams.leaving.wait_event(slot.computed)
                for host, device in zip(slot.host_answers, slot.device_answers, strict=True):
                    host[:rung].copy_(device[:rung], non_blocking=True)
                slot.done.record(streams.leaving)

    def _compute(self, slot: _Slot, rung: int) -> None:
        answers = self._forward(slot.device[0][:rung], slot.device[1][:rung])
        for buffer, answer in zip(slot.device_answers, answers, strict=True):
            buffer[:rung].copy_(answer)

    def _plan_here(self, slot: _Slot) -> None:
        """Evaluate every rung on this thread, once: cuDNN's plans of convolutions belong to the thread that made them."""
        if self._plans_of in (None, threading.get_ident()):
            return
        with torch.inference_mode(), self.accelerator.on(self._streams.computing):
            for rung in self._rungs:
                self._compute(slot, rung)
        self._plans_of = threading.get_ident()

    def _settle(self, error: Exception) -> None:
        """Wait until the device has left all buffers; raises `DeviceLost` if it accepts no more work."""
        require_alive(self.accelerator.device, tuple(self._streams), error)
