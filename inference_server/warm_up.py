"""Warm-up of a loaded network: batches of growing size, before it is routed."""

from __future__ import annotations

import numpy as np

from inference_server.network import Network
from zerofleet.contracts.manifests import Manifest
from zerofleet.contracts.pacing import give_way

__all__ = ["warm_up"]


def warm_up(network: Network, manifest: Manifest, *, max_batch: int, passes: int) -> None:
    """Evaluate golden positions `passes` times in batches of 1, 16, 256 and so on rows, up to `max_batch`."""
    states, legal, _, _ = manifest.golden.arrays()
    rows = 1
    while rows <= max_batch:
        block = [np.resize(states, (rows, states.shape[1]))], [np.resize(legal, (rows, legal.shape[1]))]
        for _ in range(passes):
            give_way()
            network.evaluate(*block)
        rows *= 16
