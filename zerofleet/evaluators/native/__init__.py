"""Evaluation of residual towers on small boards by a compiled kernel, without torch."""

from zerofleet.evaluators.native.network import NativeNetwork, load_native
from zerofleet.evaluators.native.plan import Unsupported

__all__ = ["NativeNetwork", "Unsupported", "load_native"]
