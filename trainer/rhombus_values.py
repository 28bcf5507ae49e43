"""Linear evaluation of Chinese Checkers on the rhombus in torch: five features of each side, from the planes of a position.

It agrees with `zerofleet.agents.by_game.rhombus.values`, which evaluates in compiled code. Positions have ten pieces a side;
the first plane is that of the player to move, who starts in row 0, column 0.

Cells that a piece reaches are found for all pieces at once, with a board as bits in rows of 11, so that a shift by a step or a
hop that leaves the board ends in columns 9 and 10, which are never free:

    low word    rows 0 to 4, 55 bits        high word    rows 5 to 8

Axes: N positions, 2 sides, 10 pieces, F features, 81 cells.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from games.chinese_checkers.rhombus.board import CELLS, PIECES, SIDE
from zerofleet.agents.by_game.rhombus.values import SCALES

__all__ = ["LinearEvaluation"]

_TOP = 2 * SIDE - 2
_PERCENT = 100.0
_STRIDE = SIDE + 2
_LOW_ROWS = 5
_BITS = _LOW_ROWS * _STRIDE  # of a word
_DIRECTIONS = (_STRIDE, 1, _STRIDE - 1)  # bits from a cell to the next: down, right, down and left; and the opposite ones


class LinearEvaluation(nn.Module):
    """Values of positions for the player who has just moved. Scriptable."""

    def __init__(self, weights: Tensor) -> None:
        """`weights`: float32 [3, F], by phase."""
        super().__init__()
        self.weights = nn.Parameter(weights, requires_grad=False)
        self.scales = nn.Parameter(torch.from_numpy(SCALES / _PERCENT).float(), requires_grad=False)
        self.side, self.cells, self.pieces, self.top = SIDE, CELLS, PIECES, float(_TOP)
        self.bits, self.mask, self.directions = _BITS, (1 << _BITS) - 1, list(_DIRECTIONS)
        cells = torch.arange(CELLS)
        rows, columns = cells // SIDE, cells % SIDE
        places = (rows % _LOW_ROWS) * _STRIDE + columns
        self.places: Tensor  # int64 [81], bit of a cell in its word
        self.is_low: Tensor  # bool [81]
        self.register_buffer("places", places, persistent=False)
        self.register_buffer("is_low", rows < _LOW_ROWS, persistent=False)
        climbed = torch.stack((rows + columns, _TOP - rows - columns))  # [2, 81]
        at = climbed[:, None] == torch.arange(_TOP + 1)[None, :, None]  # [2, 17, 81]
        low_levels, high_levels = self.words(at.flatten(0, 1))
        self.low_levels: Tensor  # int64 [2, 1, 17], cells of a level as a side climbs it
        self.high_levels: Tensor
        self.register_buffer("low_levels", low_levels.reshape(2, 1, -1), persistent=False)
        self.register_buffer("high_levels", high_levels.reshape(2, 1, -1), persistent=False)

    def forward(self, boards: Tensor) -> Tensor:
        """Map planes, float [N, 2, 9, 9], to values in [-1, 1], float32 [N]."""
        boards = boards.float()
        features, fronts, rears = self.features(boards)
        differences = features[:, 0] - features[:, 1]  # of the player to move and the one who has just moved
        approach = fronts.sum(1) + 1.0 < self.top  # levels counted from each side's own start
        passed = rears.sum(1) > self.top
        phase = torch.where(approach, 0, torch.where(passed, 2, 1))
        return torch.tanh((self.weights.float()[phase] * differences).sum(1))

    def features(self, boards: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the features of both sides [N, 2, F], and the levels of their first and last pieces [N, 2]."""
        rows = torch.arange(self.side, device=boards.device).float()
        level = (rows[:, None] + rows[None]).flatten()
        levels = torch.stack((level, self.top - level))  # [2, 81], climbed by each side
        aside = ((rows[:, None] - rows[None]).abs() - 1.0).flatten() ** 2
        cells = boards.flatten(2).topk(self.pieces, dim=2)[1]  # the pieces; their order does not matter
        heights = levels[None].expand(boards.size(0), -1, -1).gather(2, cells)  # [N, 2, 10]
        total, squares = heights.sum(2), (heights**2).sum(2)
        spread = squares / self.pieces - (total / self.pieces) ** 2
        sideways = (boards.flatten(2) * aside).sum(2) / self.pieces
        hops, moves = self.reach(cells, boards.sum(1).flatten(1) > 0.0)
        low, high = (word[..., None] for word in moves)
        ahead = (low & self.low_levels | high & self.high_levels) != 0  # [N, 2, 10, 17], levels to which a piece can move
        climbs = torch.arange(self.top + 1.0, device=boards.device) - heights[..., None]
        advance = torch.where(ahead, climbs, -self.top).flatten(2).amax(2)
        reached = self.count(hops[0], hops[1])
        distance = self.pieces * self.top - total
        features = torch.stack((distance, advance, sideways, spread, reached), dim=2)
        return features / self.scales.float(), heights.amax(2), heights.amin(2)

    def reach(self, cells: Tensor, taken: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Return the cells that each piece reaches by hops, and those by hops or a step, as words, int64 [N, 2, 10] each.

        `cells`: of the pieces, int64 [N, 2, 10]; `taken`: bool [N, 81].
        """
        one = torch.ones_like(cells)
        shifted = torch.bitwise_left_shift(one, self.places[cells])
        low, high = torch.where(self.is_low[cells], shifted, 0), torch.where(self.is_low[cells], 0, shifted)
        over_low, over_high = self.words(taken)
        free_low, free_high = self.words(~taken)
        step_low, step_high = torch.zeros_like(low), torch.zeros_like(low)
        for bits in self.directions:
            for up in [False, True]:
                next_low, next_high = self.shift(low, high, bits, up)
                step_low, step_high = step_low | next_low & free_low, step_high | next_high & free_high
        hop_low, hop_high = torch.zeros_like(low), torch.zeros_like(low)
        while bool(((low | high) != 0).any()):
            found_low, found_high = torch.zeros_like(low), torch.zeros_like(low)
            for bits in self.directions:
                for up in [False, True]:
                    between_low, between_high = self.shift(low, high, bits, up)
                    next_low, next_high = self.shift(between_low & over_low, between_high & over_high, bits, up)
                    found_low, found_high = found_low | next_low, found_high | next_high
            low, high = found_low & free_low & ~hop_low, found_high & free_high & ~hop_high
            hop_low, hop_high = hop_low | low, hop_high | high
        return (hop_low, hop_high), (hop_low | step_low, hop_high | step_high)

    def words(self, cells: Tensor) -> tuple[Tensor, Tensor]:
        """Return the low and high words of sets of cells, bool [N, 81], as int64 [N, 1, 1]."""
        bits = torch.bitwise_left_shift(cells.long(), self.places)
        low = torch.where(self.is_low, bits, 0).sum(1)
        high = torch.where(self.is_low, 0, bits).sum(1)
        return low[:, None, None], high[:, None, None]

    def shift(self, low: Tensor, high: Tensor, bits: int, up: bool) -> tuple[Tensor, Tensor]:
        """Return words with every bit moved to a lower place (`up`) or a higher one."""
        rest = self.bits - bits
        if up:
            moved_low = torch.bitwise_right_shift(low, bits) | torch.bitwise_left_shift(high, rest) & self.mask
            return moved_low, torch.bitwise_right_shift(high, bits)
        moved_high = torch.bitwise_left_shift(high, bits) & self.mask | torch.bitwise_right_shift(low, rest)
        return torch.bitwise_left_shift(low, bits) & self.mask, moved_high

    def count(self, low: Tensor, high: Tensor) -> Tensor:
        """Return the number of cells that a side's pieces reach between them, float32 [N, 2]; words int64 [N, 2, 10]."""
        any_low, any_high = low[:, :, 0], high[:, :, 0]
        for piece in range(1, self.pieces):
            any_low, any_high = any_low | low[:, :, piece], any_high | high[:, :, piece]
        words = torch.where(self.is_low, any_low[..., None], any_high[..., None])  # [N, 2, 81]
        return (torch.bitwise_right_shift(words, self.places) & 1).sum(2).float()
