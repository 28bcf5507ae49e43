"""Check of a loaded network: its answers to the golden positions, exact or in reduced precision."""

from __future__ import annotations

import numpy as np

from inference_server.network import NetworkOutput
from inference_server.tensors import Contract
from zerofleet.contracts.manifests import Manifest, check_golden
from zerofleet.errors import CorruptModel

__all__ = ["check_answers", "is_near"]

# Largest error of reduced precision in a probability (or another number in [0, 1]) and in a value. A trained 2 x 32 network
# in bfloat16 was off by up to 0.03 and 0.04 (0.001 and 0.005 on average), with the same best move in 99.6 % of positions.
REDUCED_POLICY_TOLERANCE = 0.05
REDUCED_VALUE_TOLERANCE = 0.1

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


def is_near(output: NetworkOutput, exact: NetworkOutput, *, share: float = 1.0) -> bool:
    """Return whether output is as close to the exact one as reduced precision, or a `share` of its errors; false for a nan."""
    policy, value, *extra_heads = (np.abs(got - want).max() for got, want in zip(output, exact, strict=True))
    near = value <= share * REDUCED_VALUE_TOLERANCE
    return bool(near and all(off <= share * REDUCED_POLICY_TOLERANCE for off in (policy, *extra_heads)))
