"""A device that computes nothing and takes a chosen time, behind the protocol of the inference server's backends.

    TimedBackend()                                            answers at once: what is left is the cost of the stack around it
    TimedBackend(batch_s=250e-6, row_s=0.25e-6, slots=2)      answers as a GPU would at 4 M positions a second

A batch takes `batch_s`, for copies and launches, and then `row_s` for each of its rows, for arithmetic. As on a GPU the first
part of a batch overlaps with other batches, and the arithmetic of one follows that of another:

    slots = 1    [250 us][ 1,024 us of 4,096 rows ][250 us][ 1,024 us ]...     3.2 M positions a second
    slots = 2    [250 us][ 1,024 us               ][ 1,024 us         ]...     4 M
                         [250 us] waits            ^ begins at once

The thread that waits for a batch sleeps, as it does while a real device computes, so the time costs no processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from zerofleet.contracts.heads import Output, outputs_of
from zerofleet.contracts.manifests import Manifest

__all__ = ["TimedBackend", "TimedBatch", "TimedNetwork"]

_DTYPES = {"FP16": np.dtype(np.float16), "FP32": np.dtype(np.float32)}


@dataclass(slots=True)
class TimedBackend:
    """Loader of `TimedNetwork`s, which share one device; reads no file of a version."""

    batch_s: float = 0.0
    """Time of a batch before its arithmetic, whatever its size."""
    row_s: float = 0.0
    """Time of the arithmetic of each of its rows."""
    slots: int = 1
    """Number of batches that may be begun and not yet collected."""
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _free_s: float = field(default=0.0, init=False)  # when the arithmetic of the latest batch ends

    def load(self, path: Path, manifest: Manifest, *, max_batch: int) -> TimedNetwork:
        """Return the network of a version, with its heads."""
        heads = outputs_of(
            manifest.heads,
            max_legal=manifest.max_legal,
            num_players=manifest.num_players,
            num_actions=manifest.num_actions,
        )
        return TimedNetwork(self, heads, max_batch)

    def queue(self, rows: int) -> float:
        """Queue a batch now; return the time by `clock` at which it is done."""
        self._free_s = max(self.clock() + self.batch_s, self._free_s) + rows * self.row_s
        return self._free_s

    def wait_until(self, done_s: float) -> None:
        """Sleep until a time by `clock`."""
        if (left_s := done_s - self.clock()) > 0.0:
            self.sleep(left_s)


class TimedBatch:
    """A batch on the device; see `inference_server.network.Pending`."""

    __slots__ = ("_device", "_done_s", "_output")

    def __init__(self, device: TimedBackend, done_s: float, output: tuple[np.ndarray, ...]) -> None:
        self._device, self._done_s, self._output = device, done_s, output

    def wait(self) -> None:
        """Sleep until the device is done with the batch."""
        self._device.wait_until(self._done_s)

    def collect(self) -> tuple[np.ndarray, ...]:
        """Wait, and return the output."""
        self.wait()
        return self._output


class TimedNetwork:
    """Network whose every output is 0, which a search takes for a uniform policy and an even position."""

    backend = "timed"
    precision = "float32"

    def __init__(self, device: TimedBackend, heads: tuple[Output, ...], max_batch: int) -> None:
        self._device = device
        self._zeros = [np.zeros((max_batch, head.width), _DTYPES[head.datatype]) for head in heads]
        for zeros in self._zeros:
            zeros.setflags(write=False)

    def evaluate(self, states: list[np.ndarray], legal: list[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Return zeros for the rows of all requests once the device is done with them; the arrays cannot be written."""
        return self.begin(states, legal).collect()

    def begin(self, states: list[np.ndarray], legal: list[np.ndarray]) -> TimedBatch:
        """Queue the rows of all requests as one batch and return at once."""
        rows = sum(map(len, states))
        if rows > len(self._zeros[0]):
            output = tuple(np.zeros((rows, zeros.shape[1]), zeros.dtype) for zeros in self._zeros)
        else:
            output = tuple(zeros[:rows] for zeros in self._zeros)
        return TimedBatch(self._device, self._device.queue(rows), output)
