"""Served form of the linear evaluation: five features of each side computed from the encoded position, in torch.

It agrees with `zerofleet.agents.by_game.rhombus.values`, which evaluates in compiled code. As for other models of values, the
policy is uniform (docs/decisions/0014-learners.md). Positions have ten pieces a side; the first plane is that of the player to
move, who starts in row 0, column 0.

Axes: B batch, 2 sides, 10 pieces, F features; boards are 9 x 9.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from games.chinese_checkers.rhombus.board import CELLS, PIECES, SIDE
from trainer.exported_module import unpack_planes
from zerofleet.agents.by_game.rhombus.values import SCALES

__all__ = ["LinearModule"]

_TOP = 2 * SIDE - 2
_PERCENT = 100.0


class LinearModule(nn.Module):
    """Linear evaluation as a model of two players. Scriptable."""

    def __init__(self, weights: Tensor) -> None:
        """`weights`: float32 [3, F], by phase."""
        super().__init__()
        self.weights = nn.Parameter(weights, requires_grad=False)
        self.scales = nn.Parameter(torch.from_numpy(SCALES / _PERCENT).float(), requires_grad=False)
        self.side, self.cells, self.pieces, self.top = SIDE, CELLS, PIECES, float(_TOP)

    def forward(self, state: Tensor, legal: Tensor) -> tuple[Tensor, Tensor]:
        """Evaluate packed positions; see `trainer.exported_module.ServingModule.forward`."""
        boards = unpack_planes(state, 2, self.side, self.side).float()
        features, fronts, rears = self.features(boards)
        differences = features[:, 0] - features[:, 1]  # for the player who has just moved
        approach = fronts.sum(1) + 1.0 < self.top  # levels counted from each side's own start
        passed = rears.sum(1) > self.top
        phase = torch.where(approach, 0, torch.where(passed, 2, 1))
        total = (self.weights.float()[phase] * differences).sum(1, keepdim=True)
        mine = -torch.tanh(total)
        listed = (legal >= 0).float()
        policy = listed / listed.sum(1, keepdim=True).clamp(min=1.0)
        return policy.half(), torch.cat((mine, -mine), dim=1)

    def features(self, boards: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the features of both sides [B, 2, F], and the levels of their first and last pieces."""
        rows = torch.arange(self.side, device=boards.device).float()
        level = (rows[:, None] + rows[None]).flatten()
        levels = torch.stack((level, self.top - level))  # [2, 81], climbed by each side
        aside = ((rows[:, None] - rows[None]).abs() - 1.0).flatten() ** 2
        counted, cells = boards.flatten(2).topk(self.pieces, dim=2)  # the pieces; their order does not matter
        pieces = functional.one_hot(cells, self.cells).float() * counted[..., None]  # [B, 2, 10, 81]
        heights = (pieces * levels[None, :, None]).sum(3)  # [B, 2, 10]
        total, squares = heights.sum(2), (heights**2).sum(2)
        spread = squares / self.pieces - (total / self.pieces) ** 2
        sideways = (boards.flatten(2) * aside).sum(2) / self.pieces
        hops, steps = self.reach(pieces, boards.sum(1))
        targets = (hops + steps).clamp(max=1.0)
        climbs = levels[None, :, None] - heights[..., None]  # [B, 2, 10, 81]
        advance = torch.where(targets > 0.0, climbs, -self.top).flatten(2).amax(2).clamp(min=-self.top)
        reached = hops.amax(2).sum(2)
        distance = self.pieces * self.top - total
        features = torch.stack((distance, advance, sideways, spread, reached), dim=2)
        return features / self.scales.float(), heights.amax(2), heights.amin(2)

    def reach(self, pieces: Tensor, taken: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cells that each piece reaches by hops, and those by a step; both 0 or 1, [B, 2, 10, 81].

        `pieces`: [B, 2, 10, 81], `taken`: [B, 9, 9]; 0 or 1.
        """
        boards = pieces.reshape(-1, 2 * self.pieces, self.side, self.side)  # [B, 20, 9, 9]
        free, over = 1.0 - taken[:, None], taken[:, None]
        steps = self.neighbours(boards, over, False) * free
        reached = torch.zeros_like(boards)
        fresh = boards
        while bool((fresh > 0.0).any()):
            fresh = self.neighbours(fresh, over, True) * free * (1.0 - reached)
            reached = reached + fresh
        return reached.reshape(pieces.shape), steps.reshape(pieces.shape)

    def neighbours(self, boards: Tensor, over: Tensor, hops: bool) -> Tensor:
        """Return the cells next to those set in `boards`, or two away with a cell of `over` between; 0 or 1."""
        found = torch.zeros_like(boards)
        for down, right in [(1, 0), (0, 1), (1, -1), (-1, 0), (0, -1), (-1, 1)]:
            if hops:
                moved = self.shifted(boards, 2 * down, 2 * right) * self.shifted(over, down, right)
            else:
                moved = self.shifted(boards, down, right)
            found = torch.maximum(found, moved)
        return found

    def shifted(self, boards: Tensor, down: int, right: int) -> Tensor:
        """Return boards moved by rows and columns, at most two of each; what leaves the board is lost."""
        padded = functional.pad(boards, [2, 2, 2, 2])
        return padded[..., 2 - down : 2 - down + self.side, 2 - right : 2 - right + self.side]
