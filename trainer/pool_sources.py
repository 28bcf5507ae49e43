"""Pool sources: modules that score the legal moves of a position, so that a model of action values chooses among the best few.

A source is part of the served model, which therefore plays the same pool wherever it is evaluated: in self-play, matches, the
ladder and interactive play. A further source is a class with the members of `PoolSource` and a line in `POOL_SOURCES`.

Axes: B batch, C planes, H x W cells, L listed actions, A actions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Protocol, TypeAlias, cast

import torch
from torch import Tensor, nn

from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from games.chinese_checkers.rhombus.board import LEVELS_TO_GO
from games.core import Game
from trainer.settings import TrainerSettings
from zerofleet.agents.by_game.rhombus.evaluation import cell_values
from zerofleet.errors import ConfigurationError

__all__ = ["POOL_SOURCES", "CellGains", "Listing", "MakePoolSource", "PoolSource", "pool_source"]

_SUREST = 0.99  # bound of a score that is not a result, as in the search agent


class PoolSource(Protocol):
    """Scores of moves: an `nn.Module` in evaluation mode that TorchScript compiles. Its tensors are fixed."""

    def forward(self, planes: Tensor, actions: Tensor) -> Tensor:
        """Return the scores of listed moves for the player to move, float32 [B, L], in [-1, 1].

        `planes`: float [B, C, H, W], seen by the player to move. `actions`: int64 [B, L]; padding is action 0, whose score is
        not used. Of equal scores the action listed first ranks higher.
        """
        ...


MakePoolSource: TypeAlias = Callable[[Game, TrainerSettings], nn.Module]
"""Maker of a source. Raises `ConfigurationError` for a game or settings that it does not support."""

POOL_SOURCES: Mapping[str, str] = {
    "heuristic": "trainer.pool_sources:CellGains",
    "listed": "trainer.pool_sources:Listing",
    "network": "trainer.pool_networks:network_source",
}
"""Module and maker of each source, by the name in `deep_q.pool_by`."""


def pool_source(name: str, game: Game, settings: TrainerSettings) -> nn.Module:
    """Return a source (`PoolSource`); its module is imported now. Raises as its maker does."""
    module, _, member = POOL_SOURCES[name].partition(":")
    make = cast("MakePoolSource", getattr(import_module(module), member))
    return make(game, settings).eval()


class CellGains(nn.Module):
    """Board value of the search agent `rhombus_search` after a move: one ply of its search, without a look at the end."""

    def __init__(self, game: Game, settings: TrainerSettings) -> None:
        """Read the table of cells. Raises `ConfigurationError` for a game other than the rhombus."""
        super().__init__()
        del settings
        if not isinstance(game, ChineseCheckersRhombus):
            raise ConfigurationError(
                "deep_q.pool_by=heuristic takes the board value of chinese_checkers_rhombus, and the game is "
                f"{game.spec().name}; set deep_q.pool_by=values or listed"
            )
        table = cell_values()
        start, target = torch.from_numpy(game.spec().action_cells).long().unbind(1)
        mine, other = torch.from_numpy(table.worth).float()
        self.mine = nn.Parameter(mine, requires_grad=False)  # [81]
        self.other = nn.Parameter(other, requires_grad=False)  # [81]
        self.gains = nn.Parameter(mine[target] - mine[start], requires_grad=False)  # [A]
        self.most, self.surest = float(table.level * LEVELS_TO_GO), _SUREST

    def forward(self, planes: Tensor, actions: Tensor) -> Tensor:
        """See `PoolSource.forward`."""
        boards = planes.float().flatten(2)
        lead = boards[:, 0] @ self.mine.float() - boards[:, 1] @ self.other.float()
        scores = (lead[:, None] + self.gains.float()[actions]) / self.most
        return scores.clamp(-self.surest, self.surest)


class Listing(nn.Module):
    """The moves in the order of their numbers, for games with no more legal moves than the pool holds."""

    def __init__(self, game: Game, settings: TrainerSettings) -> None:
        """Raises `ConfigurationError` for a game with more legal moves than `network.pool`."""
        super().__init__()
        if settings.network.pool < game.spec().max_legal:
            raise ConfigurationError(
                f"deep_q.pool_by=listed takes every legal move, up to {game.spec().max_legal} in {game.spec().name}, and "
                f"network.pool={settings.network.pool}; raise network.pool or set another source"
            )

    def forward(self, planes: Tensor, actions: Tensor) -> Tensor:
        """See `PoolSource.forward`: all scores are 0."""
        return torch.zeros(actions.shape, dtype=torch.float32, device=actions.device)
