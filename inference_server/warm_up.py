"""Warm-up of a loaded network: batches of growing size, before it is routed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from inference_server.network import Network
from zerofleet.contracts.manifests import Manifest
from zerofleet.contracts.pacing import give_way

__all__ = ["growing_sizes", "warm_up"]

_GROWTH = 16


def growing_sizes(max_batch: int) -> list[int]:
    """Return the sizes 1, 16, 256 and so on up to `max_batch`: enough where a size needs no plan of its own."""
    sizes = [1]
    while sizes[-1] * _GROWTH <= max_batch:
        sizes.append(sizes[-1] * _GROWTH)
    return sizes


def warm_up(network: Network, manifest: Manifest, *, sizes: Iterable[int], passes: int) -> None:
    """Evaluate golden positions `passes` times in batches of each of `sizes` rows."""
    states, legal, _, _ = manifest.golden.arrays()
    for rows in sizes:
        block = [np.resize(states, (rows, states.shape[1]))], [np.resize(legal, (rows, legal.shape[1]))]
        for _ in range(passes):
            give_way()
            network.evaluate(*block)
