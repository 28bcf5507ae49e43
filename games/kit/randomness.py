"""Seeded random numbers inside compiled code: SplitMix64 on a caller's uint64 word.

Each game of a block has its own word of state, so its draws never depend on its neighbours.
Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators"; gamma variates by Marsaglia and
Tsang 2000, "A simple method for generating gamma variables".
"""

from __future__ import annotations

import math

import numpy as np

from games.compiled import compiled

__all__ = ["gamma", "gumbel", "mix64", "next_u64", "normal", "uniform", "uniform_int"]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_DOUBLE = 1.0 / 9007199254740992.0  # 2**-53


@compiled
def mix64(x: np.uint64) -> np.uint64:
    """Return `x` mixed by a bijection on 64 bits (the finaliser of SplitMix64)."""
    z = np.uint64(x)
    z = (z ^ (z >> np.uint64(30))) * _MIX1
    z = (z ^ (z >> np.uint64(27))) * _MIX2
    return z ^ (z >> np.uint64(31))


@compiled
def next_u64(word: np.ndarray) -> np.uint64:
    """Advance the generator `word` (uint64 [1]) and return 64 random bits."""
    word[0] += _GAMMA
    return mix64(word[0])


@compiled
def uniform(word: np.ndarray) -> float:
    """Return a float in [0, 1)."""
    return (next_u64(word) >> np.uint64(11)) * _DOUBLE


@compiled
def uniform_int(word: np.ndarray, bound: int) -> int:
    """Return an integer in [0, bound)."""
    return int(uniform(word) * bound)


@compiled
def normal(word: np.ndarray) -> float:
    """Return a standard normal variate (Box and Muller)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(word)))
    return radius * math.cos(2.0 * math.pi * uniform(word))


@compiled
def gamma(word: np.ndarray, shape: float) -> float:
    """Return a gamma variate with the given shape (> 0) and scale 1."""
    boost = 1.0
    if shape < 1.0:
        boost = (1.0 - uniform(word)) ** (1.0 / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(word)
        v = (1.0 + c * x) ** 3
        if v > 0.0:
            u = 1.0 - uniform(word)
            if math.log(u) < 0.5 * x * x + d - d * v + d * math.log(v):
                return boost * d * v


@compiled
def gumbel(word: np.ndarray) -> float:
    """Return a standard Gumbel variate."""
    u = uniform(word)
    while u <= 0.0:
        u = uniform(word)
    return -math.log(-math.log(u))
