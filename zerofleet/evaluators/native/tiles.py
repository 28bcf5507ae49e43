"""Tiles of a board for Winograd's minimal filtering, and the weights of its points (see tower.c)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["POINT_ROWS", "Tile", "Tiling", "tiling", "transformed"]

_LARGEST = 4  # cells a side
_SMALLEST = 2
_POINTS = {2: (0, 1, 2, 5), 3: (0, 1, 2, 3, 5), 4: (0, 1, 2, 3, 4, 5)}
POINT_ROWS = np.array(  # kernel at the points 0, 1, -1, 2, -2 and infinity, scaled as for tiles of 4 (Lavin and Gray 2016)
    [[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]], np.float64
) / 24  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tile:
    """Tile of a board: the cells it reads and writes. Cells outside the board are the zero cell, and -1."""

    rows: int  # cells a side + 2
    columns: int
    inputs: tuple[int, ...]  # 36, by row and column of the 6 x 6 cells around it; unused ones are the zero cell
    outputs: tuple[int, ...]  # 16, by row and column
    rank: tuple[int, ...]  # 36: place among the tiles that have this point

    @property
    def points(self) -> list[int]:
        """Return its points, by row and column."""
        return [y * 6 + x for y in _POINTS[self.rows - 2] for x in _POINTS[self.columns - 2]]


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tiles of a board, and for each point the number of tiles that have it."""

    tiles: tuple[Tile, ...]
    count: tuple[int, ...]  # 36

    @property
    def products(self) -> int:
        """Number of products a position for each pair of channels; 9 a cell without tiles."""
        return sum(self.count)

    @property
    def first(self) -> tuple[int, ...]:
        """Number of tiles' points before each point, counted point by point; 36."""
        return tuple(sum(self.count[:point]) for point in range(36))

    def slots(self, tile: Tile) -> list[int]:
        """Return the places of a tile's points in this count, by row and column of the tile; 36, unused ones 0."""
        used = [self.first[point] + tile.rank[point] for point in tile.points]
        return used + [0] * (36 - len(used))


def tiling(height: int, width: int) -> Tiling:
    """Return the tiles of a board of at least one cell."""
    count = [0] * 36
    tiles = []
    for top, tall in _spans(height):
        for left, wide in _spans(width):
            rank = [0] * 36
            for point in (y * 6 + x for y in _POINTS[tall] for x in _POINTS[wide]):
                rank[point] = count[point]
                count[point] += 1
            inputs = [
                _cell(top - 1 + y, left - 1 + x, height, width, height * width)
                if y < tall + 2 and x < wide + 2
                else height * width
                for y in range(6)
                for x in range(6)
            ]
            outputs = [
                _cell(top + y, left + x, height, width, -1) if y < tall and x < wide else -1 for y in range(4) for x in range(4)
            ]
            tiles.append(Tile(tall + 2, wide + 2, tuple(inputs), tuple(outputs), tuple(rank)))
    return Tiling(tuple(tiles), tuple(count))


def _spans(length: int) -> list[tuple[int, int]]:
    """Return start and size of each tile in one direction, of sizes as equal as possible; a single cell has a tile of 2."""
    number = -(-length // _LARGEST)
    spans, start = [], 0
    for i in range(number):
        size = (length - start) // (number - i) + ((length - start) % (number - i) > 0)
        spans.append((start, max(size, _SMALLEST)))
        start += size
    return spans


def _cell(y: int, x: int, height: int, width: int, outside: int) -> int:
    return y * width + x if 0 <= y < height and 0 <= x < width else outside


def transformed(kernels: np.ndarray) -> np.ndarray:
    """Return the weights of every point, float64 [36, inputs, outputs], from kernels [outputs, inputs, 3, 3]."""
    points = np.einsum("pi,ocij,qj->pqco", POINT_ROWS, kernels.astype(np.float64), POINT_ROWS, optimize=True)
    return np.asarray(points.reshape(36, *points.shape[2:]))
