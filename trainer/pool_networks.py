"""Pool source `network`: moves ranked by a frozen version of values, alone or with the board value of the search agent.

    score = (1 - k) W + k V        V value of the position after the move, W board value there, for the player who moves

The positions after all listed moves are made in torch, so the source is part of the served model. A move that fills the goal
has the score 1 by the rules. The version is one of the learner `outcome`, or the linear evaluation of `sarsa_lambda`. For
Chinese Checkers on the rhombus, where an action is 81 from + to in the mover's view.

Axes: B batch, C planes, H x W cells, L listed actions, A actions, N positions after moves.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from games.chinese_checkers.rhombus.board import CELLS, PIECES, SIDE, level
from games.core import Game
from trainer.export import exported_network, stored_weights
from trainer.exported_module import serving_module
from trainer.network import Network
from trainer.pool_sources import CellGains
from trainer.rhombus_values import LinearEvaluation
from trainer.settings import TrainerSettings
from zerofleet.agents.by_game.rhombus.values import LINEAR
from zerofleet.contracts.naming import model_name
from zerofleet.errors import ConfigurationError, ModelNotFound
from zerofleet.presets.combined import CombinedSettings
from zerofleet.storage.model_store.opening import open_model_store

__all__ = ["NetworkScores", "network_source", "stored_values"]

_SUREST = 0.99  # bound of a score that is not a result, as in the search agent
_GOAL = 13  # lowest level of the goal
_CHUNK = 4096  # positions in one evaluation


class NetworkScores(nn.Module):
    """Scores of moves by the positions after them; see `trainer.pool_sources.PoolSource`. Scriptable."""

    def __init__(self, values: nn.Module, game: ChineseCheckersRhombus, *, mix: float, board_values: nn.Module) -> None:
        """Make a source.

        Args:
            values: V; maps planes, float [N, 2, 9, 9], to values for the player who has just moved, float32 [N].
            game: The game, which has the rule against spoiling.
            mix: k, share of V.
            board_values: Source of W.
        """
        super().__init__()
        self.start: Tensor  # int64 [A]
        self.target: Tensor  # int64 [A]
        self.goal: Tensor  # float [81], 1 in the goal of the player who moves
        self.values = values
        self.board_values = board_values
        self.mix, self.spoils = mix, game.anti_spoiling
        self.side, self.pieces, self.chunk, self.surest = SIDE, float(PIECES), _CHUNK, _SUREST
        start, target = torch.from_numpy(game.spec().action_cells).long().unbind(1)
        self.register_buffer("start", start.clone(), persistent=False)
        self.register_buffer("target", target.clone(), persistent=False)
        goal = torch.tensor([float(level(cell) >= _GOAL) for cell in range(CELLS)])
        self.register_buffer("goal", goal, persistent=False)
        for parameter in self.values.parameters():
            parameter.requires_grad = False

    def forward(self, planes: Tensor, actions: Tensor) -> Tensor:
        """See `PoolSource.forward`. Padding, action 0, leads from a cell to itself and is not evaluated."""
        flat = actions.flatten()
        places = torch.nonzero(flat > 0).flatten()
        values = torch.zeros(flat.shape, dtype=torch.float32, device=planes.device)
        boards = planes.flatten(2)
        for first in range(0, places.size(0), self.chunk):
            part = places[first : first + self.chunk]
            values[part] = self.after(boards, flat[part], torch.div(part, actions.size(1), rounding_mode="floor"))
        won = values > 1.0
        values = values.clamp(-self.surest, self.surest).reshape(actions.shape)
        if self.mix < 1.0:
            board = self.board_values(planes, actions).float()
            values = self.mix * values + (1.0 - self.mix) * board
        return torch.where(won.reshape(actions.shape), torch.ones_like(values), values)

    def after(self, boards: Tensor, moves: Tensor, rows: Tensor) -> Tensor:
        """Return the values of moves for their player, float32 [N]: 2 for a move that fills the goal.

        `boards`: float [B, 2, 81]; `moves`: actions, int64 [N]; `rows`: positions that they belong to, int64 [N].
        """
        mine = boards[rows, 0].scatter(1, self.start[moves][:, None], 0.0).scatter(1, self.target[moves][:, None], 1.0)
        other = boards[rows, 1]
        seen = torch.stack((other.flip(1), mine.flip(1)), 1).reshape(-1, 2, self.side, self.side)  # by the player to move
        value: Tensor = self.values(seen)
        goal = self.goal.to(mine.dtype)
        inside = mine @ goal
        taken = (mine + other) @ goal if self.spoils else inside
        full = (taken == self.pieces) & (inside > 0.0)
        return torch.where(full, torch.full_like(value, 2.0), value)


def network_source(game: Game, settings: TrainerSettings) -> nn.Module:
    """Return the source of the settings `combined` (`trainer.pool_sources.MakePoolSource`)."""
    if not isinstance(game, ChineseCheckersRhombus):
        raise ConfigurationError(
            "the pool by a network makes the positions after moves of chinese_checkers_rhombus, and the game is "
            f"{game.spec().name}; set deep_q.pool_by=values or listed"
        )
    chosen = settings.combined
    return NetworkScores(stored_values(game, chosen), game, mix=chosen.mix, board_values=CellGains(game, settings))


class _NetworkValues(nn.Module):
    """Values by a network of the learner `outcome`, as `NetworkScores` reads them."""

    def __init__(self, network: Network, game: Game) -> None:
        super().__init__()
        self.network = serving_module(network, game.spec()).network

    def forward(self, seen: Tensor) -> Tensor:
        values: Tensor = self.network(seen.to(self.network.unit.dtype))[1][:, 1].float()
        return values


def stored_values(game: Game, chosen: CombinedSettings) -> nn.Module:
    """Return V of the frozen version, which is verified.

    Raises `ConfigurationError` without a version or for another network, `ModelNotFound`, `CorruptModel`, `VersionSkew`.
    """
    if not (chosen.models and chosen.version):
        raise ConfigurationError(
            "the pool by a network needs a trained version of the learner outcome or sarsa_lambda; set "
            f"combined.models=runs/outcome/models and combined.version=7, got models={chosen.models!r} and "
            f"version={chosen.version}"
        )
    store, model = open_model_store(chosen.models), model_name(game)
    if chosen.version not in store.versions(model):
        stored = ", ".join(map(str, store.versions(model))) or "none"
        raise ModelNotFound(
            f"version {chosen.version} of {model} is not in {store.location}, which has of it: {stored}; set combined.models "
            "and combined.version to a version of the learner outcome or sarsa_lambda for the same parameters of the game"
        )
    manifest = store.verify(model, chosen.version, game=game)
    if manifest.network.get("kind") == LINEAR:
        return LinearEvaluation(stored_weights(store, model, chosen.version)["weights"])
    if manifest.network.get("value_output") not in ("win_probability", "win_or_loss", "mover"):
        raise ConfigurationError(
            f"version {chosen.version} in {store.location} has network {manifest.network}; want one of the learner outcome "
            "or sarsa_lambda"
        )
    return _NetworkValues(exported_network(store, game, manifest), game)
