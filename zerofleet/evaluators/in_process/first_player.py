"""Perceptrons that read every position in the view of the first player (`td_lambda.successor=first_player`).

Positions arrive in the view of their player to move. For the second player to move, the bits of the first player's view are
bits of this one or their complements (`games.views`). The first layer is linear, so that one with exchanged rows reads them as
they arrive.
"""

from __future__ import annotations

import numpy as np

from games.core import GameSpec
from games.views import first_to_move
from zerofleet.evaluators.in_process.inputs import folded, input_table
from zerofleet.evaluators.in_process.kernels import Perceptron, values

__all__ = ["FirstPlayerPerceptron"]


class FirstPlayerPerceptron:
    """Values of a network whose output V is the first player's chance: 2 V - 1 for the first player, 1 - 2 V for the second."""

    def __init__(self, net: Perceptron, spec: GameSpec) -> None:
        """Copy weights of any type; raises `ValueError` for a game without the other player's view (`GameSpec.other_view`)."""
        if spec.other_view is None:
            raise ValueError(f"{spec.name} has no view of the other player")
        self._planes = spec.planes
        rows, bias = folded(input_table(spec), net.hidden, net.hidden_bias)
        self.of_first = _single(net, rows, bias)
        """Network for the first player to move, float32."""
        cells = spec.planes[1] * spec.planes[2]
        of_planes, exchanged = rows.reshape(spec.planes[0], cells, -1), np.zeros((spec.planes[0], cells, rows.shape[1]))
        bias = bias.copy()
        for plane, (source, inverted) in enumerate(zip(spec.other_view.sources, spec.other_view.inverted, strict=True)):
            exchanged[source] += -of_planes[plane] if inverted else of_planes[plane]
            if inverted:
                bias += of_planes[plane].sum(axis=0)
        self.of_second = _single(net, exchanged.reshape(rows.shape), bias)
        """Network for the second player to move, float32."""

    def __call__(self, states: np.ndarray) -> np.ndarray:
        """Return the values of positions (uint8 [B, packed_bytes]) for their players to move, float32 [B], in [-1, 1]."""
        channels, height, width = self._planes
        bits = np.unpackbits(states, axis=1, count=channels * height * width, bitorder="little")
        first = first_to_move(bits.reshape(-1, channels, height, width))
        mine = np.empty(len(states), dtype=np.float32)
        for net, chosen, sign in ((self.of_first, first, 1.0), (self.of_second, ~first, -1.0)):
            chances = np.empty(int(chosen.sum()), dtype=np.float32)
            values(net, np.ascontiguousarray(states[chosen]), chances)
            mine[chosen] = np.float32(sign) * (2.0 * chances - 1.0)
        return mine


def _single(net: Perceptron, rows: np.ndarray, bias: np.ndarray) -> Perceptron:
    arrays = net._replace(hidden=rows, hidden_bias=bias)
    return Perceptron(*(np.ascontiguousarray(array, dtype=np.float32) for array in arrays))
