"""Interfaces of a backend and of the networks that it loads: raw arrays, without versions or tensor names.

    backend       device    precision                    networks
    torchscript   CPU, GPU  float32, bfloat16, float16   all
    native        CPU       float32, bfloat16x3          residual towers (zerofleet.evaluators.native)

bfloat16x3 is float32 with convolutions as three products of bfloat16 (split.h): 2^-17 of each product is lost.

`inference_server.chosen_backend` selects one for each version.

Axes: B positions of all requests together, L largest number of legal actions, P players, W width of an extra head.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np

from zerofleet.contracts.manifests import Manifest

__all__ = ["Backend", "Network", "NetworkOutput"]

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
        that breaks the protocol changes them meanwhile: any bits must be safe, whatever they are evaluated to.
        """
        ...


class Backend(Protocol):
    """Loader of stored versions onto one device; `load` may run on any thread."""

    def load(self, path: Path, manifest: Manifest, *, max_batch: int) -> Network:
        """Return the network of a verified version: loaded, equal to its golden positions, and warmed up.

        `path`: the version's TorchScript, beside its weights. A paced thread (`zerofleet.contracts.pacing`) gives way before
        each step that holds the GIL. Raises `CorruptModel`, and `Unavailable` when memory or the disk fails.
        """
        ...
