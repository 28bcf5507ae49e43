"""Evaluation of residual towers on small boards by a compiled kernel, without torch."""

from zerofleet.evaluators.native.folded import Unsupported
from zerofleet.evaluators.native.network import NativeNetwork, load_native

__all__ = ["NativeNetwork", "Unsupported", "load_native"]
