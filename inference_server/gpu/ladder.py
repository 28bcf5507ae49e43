"""Ladder of batch sizes: a batch is padded up to the next rung, so that no other size ever reaches the device.

cuDNN plans a convolution for each size of batch, for milliseconds, and a CUDA graph has one size. Above 256 rows two
rungs in each octave, so that at most a third of a batch is padding; below, where the device is idle anyway, one in four.
"""

from __future__ import annotations

__all__ = ["rung_of", "rungs"]

_LADDER = (8, 32, 128, 256)


def rungs(max_batch: int) -> tuple[int, ...]:
    """Return the sizes of batches, ascending; the last one is `max_batch`."""
    sizes, octave = list(_LADDER), _LADDER[-1]
    while octave < max_batch:
        sizes += [octave * 3 // 2, octave * 2]
        octave *= 2
    return (*(size for size in sizes if size < max_batch), max_batch)


def rung_of(rows: int, sizes: tuple[int, ...]) -> int:
    """Return the least of `sizes` that holds `rows`; raises `ValueError` for more than the last."""
    for size in sizes:
        if rows <= size:
            return size
    raise ValueError(f"got a batch of {rows} rows, want at most {sizes[-1]}")
