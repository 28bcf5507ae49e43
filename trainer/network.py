"""Network: a trunk, and heads for policy, value and optional further predictions.

    planes ── reading ── trunk ── neck ──┬─ policy ────────────────► logits of every action
                                         ├─ value ─── output ──────► expected score of each player
                                         └─ extra heads ───────────► by settings:
                                                  opponents: logits of the others' choices in this round
                                                  plies_left: plies to come as a share of the longest game
                                                  reply: logits of the next player's move; not exported

The trunk is a residual tower, AlphaZero's architecture (Silver et al. 2018) at any size for any planes, a tower of plain
convolutions, or a perceptron for encodings without a board. The reading (`games.reading`) and the neck, dense layers behind a
board, are optional. `trainer.exported_module` wraps a network in the wire format; `trainer.q_networks` values moves.

Axes: B batch, C planes, H x W cells, A actions, P players.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from games.core import GameSpec
from trainer.convolutions import PlainTower, board_after
from trainer.dense import draw_initial_weights
from trainer.heads import DenseHead, MovesHead, PlaneHead, PliesLeftHead
from trainer.reading import channels_read, reading_of
from trainer.tower import Perceptron, Tower
from trainer.values import NoOutput, draw_points_bias, value_output, value_width
from zerofleet.errors import ConfigurationError
from zerofleet.presets import Q_KINDS, NetworkSettings

__all__ = ["Network", "new_network", "with_todays_names"]

_MANY_ACTIONS = 2048  # beyond it a dense policy head would have most weights of a small network

_FORMER_NAMES = {
    "stem": "trunk.stem",
    "stem_norm": "trunk.stem_norm",
    "blocks": "trunk.blocks",
    "policy_conv": "policy.conv",
    "policy_norm": "policy.norm",
    "policy_out": "policy.out",
    "value_conv": "value.conv",
    "value_norm": "value.norm",
    "value_hidden": "value.hidden.0",
    "value_out": "value.out",
}
_FORMER = re.compile(rf"^(|network\.|average\.|optimizer\.)({'|'.join(_FORMER_NAMES)})\.")


class Network(nn.Module):
    """Policy logits, values and extra heads from planes, from the point of view of the player to move."""

    def __init__(self, spec: GameSpec, settings: NetworkSettings) -> None:
        """Build random weights. Raises `ConfigurationError` when the settings do not fit the game."""
        super().__init__()
        _require_possible(spec, settings)
        self.heads: tuple[str, ...] = settings.heads
        self.policy_activation: str = settings.policy_activation
        self.unit: Tensor  # float []; its type is that of the weights, also without any policy or value head
        self.register_buffer("unit", torch.ones(()), persistent=False)
        shape = _board(spec, settings)
        widths = settings.hidden if settings.kind == "perceptron" else settings.dense

        def head(outputs: int, channels: int, hidden: int = 0) -> DenseHead | PlaneHead:
            if widths:
                return DenseHead(widths[-1], outputs)
            return PlaneHead(shape, channels, outputs, hidden=hidden, bias=settings.convolution_bias)

        self.reading = reading_of(spec, flat=settings.kind == "perceptron")
        self.trunk = _trunk(spec, settings)
        self.neck = Perceptron(math.prod(shape), settings.dense, settings) if settings.dense else nn.Identity()
        self.policy = (
            MovesHead(settings.channels, cells)
            if (cells := _cells_of_moves(spec, settings)) is not None
            else NoOutput(spec.num_actions)
            if settings.policy_head == "none"
            else head(spec.num_actions, settings.policy_channels)
        )
        self.value = (
            NoOutput(spec.num_players)
            if settings.value_output == "none"
            else head(value_width(spec, settings.value_output), settings.value_channels, settings.value_hidden)
        )
        self.value_output = value_output(settings.value_output)
        self.extra = nn.ModuleList(
            PliesLeftHead(head(1, settings.value_channels))
            if name == "plies_left"
            else head(spec.num_actions, settings.policy_channels)
            for name in settings.heads
        )
        draw_initial_weights(self, settings.initial_weights)
        if settings.value_output == "points":
            draw_points_bias(self.value)
        self.register_load_state_dict_pre_hook(_before_loading)  # type: ignore[no-untyped-call]

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Evaluate positions.

        `planes`: float [B, C, H, W]. Returns `logits` float32 [B, A] of all actions, legal or not; `value` float32 [B, P]
        in [-1, 1], index 0 the player to move, then in seat order (in training, values of points may exceed 1); and the
        outputs of the extra heads, in the order of `heads`: `opponents` and `reply` logits float32 [B, A], `plies_left`
        float32 [B, 1] in [0, 1].
        """
        x = self.neck(self.trunk(self.reading(planes)))
        extra: list[Tensor] = []
        for head in self.extra:
            extra.append(head(x).float())  # noqa: PERF401 - the loop is unrolled by TorchScript
        return self.policy(x).float(), self.value_output(self.value(x).float()), extra


def new_network(spec: GameSpec, settings: NetworkSettings, *, seed: int) -> Network:
    """Return a randomly initialised network, determined by the seed; the global generator is not used."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Network(spec, settings)


def _require_possible(spec: GameSpec, settings: NetworkSettings) -> None:
    """Raise `ConfigurationError` for settings that do not fit the game."""
    if settings.kind in Q_KINDS:
        raise ConfigurationError(
            f"network.kind={settings.kind} estimates the values of moves and has no policy head; want residual, convolutional "
            "or perceptron, or a learner of action values, which builds it with trainer.q_networks"
        )
    if "reply" in settings.heads and spec.information != "perfect":
        raise ConfigurationError(
            f"network.heads lists reply, which needs perfect information; {spec.name} has {spec.information} moves or "
            "information, for which opponents is meant"
        )
    if settings.convolution_bias and _is_hexagonal(spec, settings):
        raise ConfigurationError(
            f"network.convolution_bias does not fit the hexagonal kernels of {spec.name}, which have none; set "
            "hex_kernels=false too, or leave the bias to the norms"
        )


def _is_hexagonal(spec: GameSpec, settings: NetworkSettings) -> bool:
    return settings.kind == "residual" and settings.hex_kernels and spec.lattice == "hexagonal"


def _board(spec: GameSpec, settings: NetworkSettings) -> tuple[int, int, int]:
    """Return the shape of the trunk's features, for a trunk with a board."""
    _, height, width = spec.planes
    if settings.kind == "convolutional":
        height, width = board_after(height, width, settings.convolutions)
    return settings.channels, height, width


def _trunk(spec: GameSpec, settings: NetworkSettings) -> Tower | Perceptron | PlainTower:
    if settings.kind == "perceptron":
        return Perceptron(spec.num_inputs, settings.hidden, settings)
    if settings.kind == "convolutional":
        return PlainTower(channels_read(spec), settings.channels, settings.convolutions)
    return Tower(
        channels_read(spec),
        settings.channels,
        settings.blocks,
        hexagonal=_is_hexagonal(spec, settings),
        bias=settings.convolution_bias,
        pooled=settings.global_pooling,
        squeeze=settings.squeeze,
    )


def _cells_of_moves(spec: GameSpec, settings: NetworkSettings) -> np.ndarray | None:
    """Return the cells by which the policy head scores actions; None for a dense head."""
    if settings.policy_head in ("dense", "none"):
        return None
    obstacle = _obstacle(spec, settings)
    if obstacle is None and (settings.policy_head == "moves" or spec.num_actions > _MANY_ACTIONS):
        return spec.action_cells
    if settings.policy_head == "moves":
        raise ConfigurationError(f"policy_head=moves does not fit {spec.name}: {obstacle}; use policy_head=dense")
    return None


def _obstacle(spec: GameSpec, settings: NetworkSettings) -> str | None:
    """Return the reason why actions cannot be scored by their cells; None when they can."""
    if settings.kind == "perceptron":
        return "a perceptron has no cells"
    if settings.dense:
        return "behind the layers of network.dense there are no cells"
    if _board(spec, settings)[1:] != spec.planes[1:]:
        return "behind convolutions without padding the board lacks cells"
    if spec.action_cells is None:
        return "its actions do not lead from a cell to a cell"
    joined = spec.action_cells[(spec.action_cells >= 0).all(axis=1)]
    if len(np.unique(joined, axis=0)) < len(joined):
        return "some of its actions join the same two cells"
    return None if len(joined) else "none of its actions leads from a cell to a cell"


def with_todays_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return stored tensors with parameter names of earlier releases replaced by the current ones.

    Names may have one of the prefixes of a checkpoint (`average.stem.weight`).
    """
    return {
        _FORMER.sub(lambda match: f"{match[1]}{_FORMER_NAMES[match[2]]}.", name, count=1): tensor
        for name, tensor in tensors.items()
    }


def _before_loading(network: nn.Module, tensors: dict[str, Any], *_: Any) -> None:
    renamed = with_todays_names(tensors)
    tensors.clear()
    tensors.update(renamed)
