"""Warm-up of a loaded network, and the comparison of its types with the wire."""

from __future__ import annotations

import time

import numpy as np

from inference_server.network import Network, NetworkOutput
from inference_server.tensors import Contract
from zerofleet.contracts.manifests import Manifest, check_golden
from zerofleet.errors import CorruptModel

__all__ = ["check_answers", "warm_up"]

_NUMPY_TYPES = {"FP16": np.float16, "FP32": np.float32}


def warm_up(network: Network, manifest: Manifest, *, max_batch: int, passes: int, pause_s: float) -> None:
    """Evaluate golden positions `passes` times in batches of 1, 16, 256 and so on rows, up to `max_batch`."""
    states, legal, _, _ = manifest.golden.arrays()
    rows = 1
    while rows <= max_batch:
        block = [np.resize(states, (rows, states.shape[1]))], [np.resize(legal, (rows, legal.shape[1]))]
        for _ in range(passes):
            time.sleep(pause_s)
            network.evaluate(*block)
        rows *= 16


def check_answers(manifest: Manifest, output: NetworkOutput) -> None:
    """Raise `CorruptModel` unless the output for the golden positions matches the exporter's, in the wire types."""
    policy, value, *extra_heads = output
    check_golden(manifest, policy, value, extra_heads)
    for wanted, got in zip(Contract.of(manifest).outputs, output, strict=True):
        if got.dtype != _NUMPY_TYPES[wanted.datatype]:
            raise CorruptModel(
                f"model {manifest.model} version {manifest.version} returns {wanted.name} as {got.dtype},"
                f" want {wanted.datatype}"
            )
