"""Linear evaluation of Chinese Checkers on the rhombus in torch: five features of each side, from the planes of a position.

It agrees with `zerofleet.agents.by_game.rhombus.values`, which evaluates in compiled code. Positions have ten pieces a side;
the first plane is that of the player to move, who starts in row 0, column 0. Cells that a piece reaches are bits in the two
words of `games.chinese_checkers.rhombus.board`, found for all pieces at once; a hop stays in the word of its piece.

Axes: N positions, 2 sides, 10 pieces, F features, 81 cells.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from games.chinese_checkers.rhombus.board import BOARD, CELLS, HOPS, PIECES, SIDE, STEPS, level, words_of
from zerofleet.agents.by_game.rhombus.values import SCALES

__all__ = ["LinearEvaluation"]

_TOP = 2 * SIDE - 2
_PERCENT = 100.0
_OFFSETS = (SIDE, 1, SIDE - 1)  # from a cell to the next along an axis of HOPS; also the shift of a hop in its word


class LinearEvaluation(nn.Module):
    """Values of positions for the player who has just moved. Scriptable."""

    def __init__(self, weights: Tensor) -> None:
        """`weights`: float32 [3, F], by phase."""
        super().__init__()
        self.weights = nn.Parameter(weights, requires_grad=False)
        self.scales = nn.Parameter(torch.from_numpy(SCALES / _PERCENT).float(), requires_grad=False)
        self.pieces, self.top, self.offsets = PIECES, float(_TOP), list(_OFFSETS)
        levels = [[level(cell) for cell in range(CELLS)], [_TOP - level(cell) for cell in range(CELLS)]]
        level_words = [[words_of(np.flatnonzero(np.equal(side, n)).tolist()) for n in range(_TOP + 1)] for side in levels]
        self.levels: Tensor  # int64 [2, 81], levels that a side has climbed on a cell
        self.level_words: Tensor  # int64 [2, 1, 17, 2], cells of each level as a side climbs it, by word
        self.aside: Tensor  # int64 [81], square of the distance from the middle, less one
        self.board: Tensor  # int64 [2], all cells, by word
        self.steps: Tensor  # int64 [81, 2], by word
        self.hops: Tensor  # int64 [3, 2], by axis and word
        self.register_buffer("levels", torch.tensor(levels), persistent=False)
        self.register_buffer("level_words", torch.tensor(level_words)[:, None], persistent=False)
        self.register_buffer(
            "aside", torch.tensor([(abs(c // SIDE - c % SIDE) - 1) ** 2 for c in range(CELLS)]), persistent=False
        )
        for name, words in (("board", BOARD), ("steps", STEPS), ("hops", HOPS)):
            self.register_buffer(name, torch.from_numpy(words.astype(np.int64)), persistent=False)

    def forward(self, boards: Tensor) -> Tensor:
        """Map planes, float [N, 2, 9, 9], to values in [-1, 1], float32 [N]."""
        features, fronts, rears = self.features(boards.float().flatten(2))
        differences = features[:, 0] - features[:, 1]  # of the player to move and the one who has just moved
        approach = fronts.sum(1) + 1.0 < self.top  # levels counted from each side's own start
        passed = rears.sum(1) > self.top
        phase = torch.where(approach, 0, torch.where(passed, 2, 1))
        return torch.tanh((self.weights.float()[phase] * differences).sum(1))

    def features(self, boards: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the features of both sides [N, 2, F], and the levels of their first and last pieces [N, 2].

        `boards`: float [N, 2, 81].
        """
        cells = boards.topk(self.pieces, dim=2)[1]  # the pieces; their order does not matter
        heights = self.levels.float()[None].expand(boards.size(0), -1, -1).gather(2, cells)  # [N, 2, 10]
        total, squares = heights.sum(2), (heights**2).sum(2)
        spread = squares / self.pieces - (total / self.pieces) ** 2
        sideways = (boards * self.aside).sum(2) / self.pieces
        hops, moves = self.reach(cells, boards.sum(1) > 0.0)
        ahead = ((moves[..., None, :] & self.level_words) != 0).any(4)  # [N, 2, 10, 17], levels to which a piece can move
        climbs = torch.arange(self.top + 1.0, device=boards.device) - heights[..., None]
        advance = torch.where(ahead, climbs, -self.top).flatten(2).amax(2)
        reached = self.count(hops)
        distance = self.pieces * self.top - total
        features = torch.stack((distance, advance, sideways, spread, reached), dim=2)
        return features / self.scales.float(), heights.amax(2), heights.amin(2)

    def reach(self, cells: Tensor, occupied: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cells that each piece reaches by hops, and those by hops or a step, by word, int64 [N, 2, 10, 2] each.

        `cells`: of the pieces, int64 [N, 2, 10]; `occupied`: bool [N, 81].
        """
        bits = occupied.long() << (torch.arange(occupied.size(1), device=cells.device) // 2)
        taken = torch.stack((bits[:, 0::2].sum(1), bits[:, 1::2].sum(1)), 1)  # [N, 2]
        free = self.board & ~taken
        is_odd = cells % 2 == 1
        landings = torch.where(is_odd, free[:, 1, None, None], free[:, 0, None, None])
        axes: list[Tensor] = []
        for axis, offset in enumerate(self.offsets):
            even = self.hops[axis, 0] & (taken[:, offset % 2] >> (offset // 2))  # starts over an occupied cell
            odd = self.hops[axis, 1] & (taken[:, (offset + 1) % 2] >> ((offset + 1) // 2))
            axes.append(torch.where(is_odd, odd[:, None, None], even[:, None, None]))
        reached = torch.zeros_like(cells)
        fresh = torch.ones_like(cells) << (cells // 2)
        while bool((fresh != 0).any()):
            found = torch.zeros_like(cells)
            for starts, offset in zip(axes, self.offsets):  # noqa: B905 - TorchScript has no `strict`
                found = found | ((fresh & starts) << offset) | ((fresh >> offset) & starts)
            fresh = found & landings & ~reached
            reached = reached | fresh
        hops = torch.stack((torch.where(is_odd, 0, reached), torch.where(is_odd, reached, 0)), 3)
        return hops, hops | (self.steps[cells] & free[:, None, None])

    def count(self, words: Tensor) -> Tensor:
        """Return the number of cells that a side's pieces have between them, float32 [N, 2]; `words`: int64 [N, 2, 10, 2]."""
        joined = words[:, :, 0]
        for piece in range(1, self.pieces):
            joined = joined | words[:, :, piece]
        bits = joined[..., None] >> torch.arange((self.levels.size(1) + 1) // 2, device=words.device)
        return (bits & 1).sum((2, 3)).float()
