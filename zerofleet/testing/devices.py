"""A device that computes nothing and takes a chosen time, behind the protocol of the inference server's backends.

    TimedBackend()                                     answers at once: what is left is the cost of the stack around a device
    TimedBackend(batch_s=250e-6, row_s=0.25e-6)        answers as a GPU would at 4 M positions a second: a time for each batch,
                                                       and one for each of its rows

The device thread sleeps while a batch is on the device, as it does while a real one computes, so the time costs no processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zerofleet.contracts.heads import Output, outputs_of
from zerofleet.contracts.manifests import Manifest

__all__ = ["TimedBackend", "TimedNetwork"]

_DTYPES = {"FP16": np.dtype(np.float16), "FP32": np.dtype(np.float32)}


@dataclass(frozen=True, slots=True)
class TimedBackend:
    """Loader of `TimedNetwork`s; reads no file of a version."""

    batch_s: float = 0.0
    """Time of a batch, whatever its size."""
    row_s: float = 0.0
    """Time of each of its rows."""
    slots: int = 1
    """Number of batches that may be begun and not yet collected; each is evaluated when it begins."""
    sleep: Callable[[float], None] = time.sleep

    def load(self, path: Path, manifest: Manifest, *, max_batch: int) -> TimedNetwork:
        """Return the network of a version, with its heads."""
        heads = outputs_of(
            manifest.heads,
            max_legal=manifest.max_legal,
            num_players=manifest.num_players,
            num_actions=manifest.num_actions,
        )
        return TimedNetwork(self, heads, max_batch)


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
        """Return zeros for the rows of all requests after the time of a batch of that size; the arrays cannot be written."""
        rows = sum(map(len, states))
        if (device_s := self._device.batch_s + rows * self._device.row_s) > 0.0:
            self._device.sleep(device_s)
        if rows > len(self._zeros[0]):
            return tuple(np.zeros((rows, zeros.shape[1]), zeros.dtype) for zeros in self._zeros)
        return tuple(zeros[:rows] for zeros in self._zeros)
