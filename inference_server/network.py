"""Interface of a loaded network on the device: raw arrays, without versions or tensor names.

Axes: B positions of all requests together, L largest number of legal actions, P players, W width of an extra head.
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
        """Return the output for the concatenated requests; runs on the device thread.

        states  uint8 [B_i, packed_bytes] of each request, encoded for the player to move
        legal   int16 [B_i, L] of each request, ascending, padded with -1

        Output rows are in the order of the requests: B is the sum of all B_i.
        """
        ...
