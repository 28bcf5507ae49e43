"""Number of positions that the kernel processes together, from the sizes of a network and of the second-level cache.

Answers do not depend on it, to the last bit. A layer's weights are read once for a block, and all layers follow one another for
a block before the next one begins: larger blocks read weights less often, and keep fewer of their activations in the cache.
docs/results/speed.md has the figures behind the constants.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

__all__ = ["Sizes", "block_of", "second_level_cache"]

# Multiples of the rows of a register tile, so that few tiles are cut. At least 6, so that the weights of a large network are
# read once for 6 positions.
_BLOCKS = (48, 24, 12, 6)
_TILED_BLOCKS = (32, 16)
_ACTIVATIONS_BYTES = 512 << 10
_LARGE_NETWORK_BYTES = 32 << 20  # of all weights; smaller networks lost with larger blocks
_CACHES = 3  # second-level caches that the activations of a larger block may take


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of a network as the kernel holds it."""

    position: int
    """Activations of one position: features twice, and the tiles before and after their products."""
    layer: int
    """Weights of the largest convolution."""
    network: int
    """Weights of all convolutions."""


def block_of(sizes: Sizes, *, tiled: bool, cache_bytes: int = 0) -> int:
    """Return the number of positions of a block.

    tiled        products are those of AMX, 16 rows each
    cache_bytes  second-level cache of a processor; 0: not known

    Activations of a block take at most 512 KiB, or are those of the smallest block. Where the weights of a layer exceed the
    cache, and those of the network 32 MiB, the bound is three times the cache.
    """
    bound = _ACTIVATIONS_BYTES
    if 0 < cache_bytes < sizes.layer and sizes.network > _LARGE_NETWORK_BYTES:
        bound = max(bound, _CACHES * cache_bytes)
    blocks = _TILED_BLOCKS if tiled else _BLOCKS
    return next((block for block in blocks if block * sizes.position <= bound), blocks[-1])


def second_level_cache() -> int:
    """Return the bytes of a processor's second-level cache; 0 where the system does not know it, as in some containers."""
    try:
        return max(0, os.sysconf("SC_LEVEL2_CACHE_SIZE"))
    except (ValueError, OSError):  # a C library without the name, or a kernel without the value
        return 0
