"""Check of a loaded network: its answers to the golden positions."""

from __future__ import annotations

import numpy as np

from inference_server.network import NetworkOutput
from inference_server.tensors import Contract
from zerofleet.contracts.manifests import Manifest, check_golden
from zerofleet.errors import CorruptModel

__all__ = ["check_answers"]

_NUMPY_TYPES = {"FP16": np.float16, "FP32": np.float32}


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
