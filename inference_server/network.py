"""The seam to the device: what a loaded network takes and returns. Raw arrays, no versions, no names of tensors.

Axes: B positions of all requests together, L most legal actions, P players, W numbers of an extra head.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np

__all__ = ["Network", "NetworkOutput"]

NetworkOutput: TypeAlias = tuple[np.ndarray, ...]
"""In the order of the manifest's heads: policy float16 [B, L], value float32 [B, P], then the extra heads,
[B, W] each: float16 for `opponents`, float32 for `plies_left`."""


class Network(Protocol):
    """A loaded network."""

    def evaluate(self, states: list[np.ndarray], legal: list[np.ndarray]) -> NetworkOutput:
        """Return the output for requests put one after another; runs on the device thread.

        states  uint8 [B_i, packed_bytes] of each request, encoded for the player to move
        legal   int16 [B_i, L] of each request, ascending, padded with -1

        The rows of the output are those of all requests, in order: B is the sum of all B_i.
        """
        ...
