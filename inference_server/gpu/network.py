"""Network on a device with streams, whatever evaluates it there."""

from __future__ import annotations

import numpy as np

from inference_server.gpu.slots import Slots
from inference_server.network import NetworkOutput, Pending

__all__ = ["DeviceNetwork"]


class DeviceNetwork:
    """A version in slots; see `Network` and `QueueingNetwork`. Free of reference cycles, as `TorchNetwork` is."""

    def __init__(self, slots: Slots, *, backend: str, precision: str) -> None:
        self.backend = backend
        self.precision = precision
        self.slots = slots

    def evaluate(self, states: list[np.ndarray], legal: list[np.ndarray]) -> NetworkOutput:
        """See `Network.evaluate`."""
        return self.slots.evaluate(states, legal)

    def begin(self, states: list[np.ndarray], legal: list[np.ndarray]) -> Pending:
        """See `QueueingNetwork.begin`."""
        return self.slots.begin(states, legal)
