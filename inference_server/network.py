"""Interfaces of a backend and of the networks that it loads: raw arrays, without versions or tensor names.

    backend       device    precision                    networks
    torchscript   CPU, GPU  float32, bfloat16, float16   all
    native        CPU       float32, bfloat16x3          residual towers (zerofleet.evaluators.native)
    cuda          GPU       float32, bfloat16, float16   residual towers (inference_server.gpu)

bfloat16x3 is float32 with convolutions as three products of bfloat16 (split.h): 2^-17 of each product is lost.

`inference_server.chosen_backend` selects one for each version.

Axes: B positions of all requests together, L largest number of legal actions, P players, W width of an extra head.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from zerofleet.contracts.manifests import Manifest

__all__ = ["Backend", "Evaluated", "Network", "NetworkOutput", "Pending", "QueueingNetwork", "begin"]

NetworkOutput: TypeAlias = tuple[np.ndarray, ...]
"""In the order of the manifest's heads: policy float16 [B, L], value float32 [B, P], then the extra heads,
[B, W] each: float16 for `opponents`, float32 for `plies_left`."""


class Network(Protocol):
    """A loaded network."""

    @property
    def backend(self) -> str:
        """Name of the backend that evaluates it, such as `torchscript` or `native_avx2`."""
        ...

    @property
    def precision(self) -> str:
        """Number format of its arithmetic, such as `float32`."""
        ...

    def evaluate(self, states: list[np.ndarray], legal: list[np.ndarray]) -> NetworkOutput:
        """Return the output for the concatenated requests; runs on the device thread.

        states  uint8 [B_i, packed_bytes] of each request, encoded for the player to move
        legal   int16 [B_i, L] of each request, ascending, padded with -1

        Output rows are in the order of the requests: B is the sum of all B_i. States may be in shared memory, where a client
        that breaks the protocol changes them meanwhile: any bits must be safe, whatever they are evaluated to. Raises
        `DeviceLost` if no further call can succeed, and any other error for this batch alone.
        """
        ...


class Pending(Protocol):
    """A batch on the device, begun and not yet collected."""

    def wait(self) -> None:
        """Block until the device is done with the batch. May run on another thread than the device thread, and raise."""
        ...

    def collect(self) -> NetworkOutput:
        """Wait, and return the output; called once, on the device thread. Raises as `Network.evaluate`.

        What the batch occupied is free afterwards, whether it succeeds or not.
        """
        ...


@runtime_checkable
class QueueingNetwork(Protocol):
    """A network whose device accepts a batch while it computes another, up to `Backend.slots` of them."""

    def begin(self, states: list[np.ndarray], legal: list[np.ndarray]) -> Pending:
        """Queue a batch on the device and return at once; runs on the device thread. Arguments and errors as `evaluate`.

        The arrays are copied before it returns.
        """
        ...


class Evaluated:
    """Output of a batch that is complete."""

    __slots__ = ("_output",)

    def __init__(self, output: NetworkOutput) -> None:
        self._output = output

    def wait(self) -> None:
        """Return at once."""

    def collect(self) -> NetworkOutput:
        """Return the output."""
        return self._output


def begin(network: Network, states: list[np.ndarray], legal: list[np.ndarray]) -> Pending:
    """Queue a batch on the device where the network can, else evaluate it now; arguments and errors as `Network.evaluate`."""
    if isinstance(network, QueueingNetwork):
        return network.begin(states, legal)
    return Evaluated(network.evaluate(states, legal))


class Backend(Protocol):
    """Loader of stored versions onto one device; `load` may run on any thread."""

    @property
    def slots(self) -> int:
        """Number of batches of all networks together that may be begun and not yet collected."""
        ...

    def load(self, path: Path, manifest: Manifest, *, max_batch: int) -> Network:
        """Return the network of a verified version: loaded, equal to its golden positions, and warmed up.

        `path`: the version's TorchScript, beside its weights. A paced thread (`zerofleet.contracts.pacing`) gives way before
        each step that holds the GIL. Raises `CorruptModel`, and `Unavailable` when memory or the disk fails.
        """
        ...
