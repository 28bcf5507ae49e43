"""Outputs of the value head: expected scores of all players from the numbers of its last layer.

`NetworkSettings.value_output` selects one:

    players            one tanh per player
    mover              one tanh v for the player to move; the other player's score is -v
    win_probability    one sigmoid p, the probability that the player to move wins: v = 2 p - 1
    win_or_loss        the same probability as a softmax over two numbers
    points             one relu y per player, in points from 0 to 3: a score of 2/3 y - 1, limited to 1 outside of training
    none               no value: 0 for every player

Axes: B batch, P players.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from games.core import GameSpec
from zerofleet.errors import ConfigurationError

__all__ = ["NoOutput", "draw_points_bias", "value_output", "value_width"]

_MEAN_POINTS = 4.0 / 3.0  # of three players who share 3 + 1 points
_OF_TWO_PLAYERS = {"mover": 1, "win_probability": 1, "win_or_loss": 2}


class NoOutput(nn.Module):
    """Head without parameters: zeros, which give equal probabilities or drawn values."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs

    def forward(self, x: Tensor) -> Tensor:
        """Map features of any shape to zeros, float32 [B, outputs]."""
        return torch.zeros(x.shape[0], self.outputs, device=x.device)


class Players(nn.Module):
    """One tanh per player."""

    def forward(self, x: Tensor) -> Tensor:
        """Map float32 [B, P] to scores of the same shape."""
        return torch.tanh(x)


class Mover(nn.Module):
    """Score of the player to move, and its negative."""

    def forward(self, x: Tensor) -> Tensor:
        """Map float32 [B, 1] to scores [B, 2]."""
        value = torch.tanh(x)
        return torch.cat([value, -value], dim=1)


class WinProbability(nn.Module):
    """Scores from the probability that the player to move wins."""

    def forward(self, x: Tensor) -> Tensor:
        """Map float32 [B, 1] to scores [B, 2]."""
        value = 2.0 * torch.sigmoid(x) - 1.0
        return torch.cat([value, -value], dim=1)


class WinOrLoss(nn.Module):
    """Scores from a softmax over won and lost."""

    def forward(self, x: Tensor) -> Tensor:
        """Map float32 [B, 2] to scores of the same shape."""
        chance = torch.softmax(x, dim=1)
        return chance - chance.flip(1)


class Points(nn.Module):
    """Scores from points; in training they are not limited, so that too many points have a gradient."""

    def forward(self, x: Tensor) -> Tensor:
        """Map float32 [B, P] to scores of the same shape."""
        value = torch.relu(x) * (2.0 / 3.0) - 1.0
        return value if self.training else value.clamp(max=1.0)


def value_width(spec: GameSpec, kind: str) -> int:
    """Return the number of outputs of the value head's last layer; raises `ConfigurationError` for a game of other players."""
    if kind in _OF_TWO_PLAYERS and spec.num_players != 2:
        raise ConfigurationError(
            f"network.value_output={kind} states one player's score, of which the other's is the negative; {spec.name} has "
            f"{spec.num_players} players: use value_output=players"
        )
    return _OF_TWO_PLAYERS.get(kind, spec.num_players)


def value_output(kind: str) -> nn.Module:
    """Return the last step of the value head."""
    return {
        "players": Players,
        "mover": Mover,
        "win_probability": WinProbability,
        "win_or_loss": WinOrLoss,
        "points": Points,
        "none": nn.Identity,
    }[kind]()


@torch.no_grad()
def draw_points_bias(head: nn.Module) -> None:
    """Set the biases of a head of points to the mean score: a relu that begins below zero has no gradient and stays there."""
    for layer in reversed(list(head.modules())):
        if isinstance(layer, nn.Linear):
            nn.init.constant_(layer.bias, _MEAN_POINTS)
            return
