"""Outputs of a network, checked before compiled code takes them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from games.compiled import lean

__all__ = ["CHANCES", "VALUES", "WEIGHTS", "Range", "checked"]

# An array that cannot be written, as of a message, is another type, for which code is compiled anew.
_ABSORBED: Final = ("C", "W")


class Range(NamedTuple):
    """Smallest and largest entry, and their description."""

    least: float
    most: float
    wanted: str


CHANCES = Range(0.0, 1.0, "numbers in [0, 1]")
VALUES = Range(-1.001, 1.001, "numbers in [-1, 1]")  # with the rounding of a mean of scores
WEIGHTS = Range(0.0, float(np.finfo(np.float32).max), "finite numbers from 0 up")


def checked(name: str, output: np.ndarray, within: Range) -> np.ndarray:
    """Return an output of float [B, n] as compiled code takes it, in float32.

    Raises `ValueError` for an entry outside `within`.
    """
    output = np.require(output, np.float32, _ABSORBED)
    leaf = _first_outside(output, within.least, within.most)
    if leaf < len(output):
        raise ValueError(f"the {name} of leaf {leaf} is {output[leaf].tolist()}; want {within.wanted}")
    return output


@lean
def _first_outside(output: np.ndarray, least: float, most: float) -> int:
    """Return the first row with an entry below `least`, above `most` or nan; their number if there is none."""
    for row in range(len(output)):
        within = True
        for i in range(output.shape[1]):
            within &= least <= output[row, i] <= most
        if not within:
            return row
    return len(output)
