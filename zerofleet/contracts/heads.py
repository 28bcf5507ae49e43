"""Heads of a network on the wire: names, order, types and sizes of a model's output tensors.

Every model returns `policy__0` and `value__1`. Extra heads follow in the order of its manifest, as `head__2`, `head__3` and
so on:

    opponents    FP16 [B, A]   probability that an opponent chooses the action in this round; sums to 1
    plies_left   FP32 [B, 1]   remaining plies as a share of the maximum length of a game, in [0, 1]

A model of action values has a pool of moves among which it chooses, and two heads of the listed moves, in their order:

    pool           FP32 [B, L]   score by which the pool ranks a move, in (0, 1]; 0 outside the pool and at padding
    action_values  FP32 [B, L]   1 / (1 + exp(-2 Q)) for the value Q of a move of the pool; 0 outside the pool

A network in training may also have auxiliary heads, which shape its trunk and are not exported.

Axes: B positions, L maximum legal actions, A actions, P players.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zerofleet.contracts.naming import POLICY_TENSOR, VALUE_TENSOR, head_tensor
from zerofleet.errors import CorruptModel

__all__ = ["AUXILIARY_HEADS", "BASE_HEADS", "EXTRA_HEADS", "MOVE_HEADS", "Output", "outputs_of"]

BASE_HEADS = ("policy", "value")
EXTRA_HEADS = ("opponents", "plies_left")
AUXILIARY_HEADS = ("reply",)
MOVE_HEADS = ("pool", "action_values")


class Output(NamedTuple):
    """Output tensor of a model, [B, width]."""

    name: str
    datatype: str  # FP16 or FP32
    width: int

    @property
    def row_bytes(self) -> int:
        """Size of a row."""
        return (2 if self.datatype == "FP16" else 4) * self.width


def outputs_of(heads: Sequence[str], *, max_legal: int, num_players: int, num_actions: int) -> tuple[Output, ...]:
    """Return the output tensors of a model with these heads; raises `CorruptModel` for unknown heads."""
    extra = tuple(heads[2:])
    if tuple(heads[:2]) != BASE_HEADS or not set(extra) <= {*EXTRA_HEADS, *MOVE_HEADS} or len(set(extra)) < len(extra):
        raise CorruptModel(
            f"a model has heads {', '.join(heads)}; want {', '.join(BASE_HEADS)},"
            f" then some of {', '.join((*EXTRA_HEADS, *MOVE_HEADS))}, once each"
        )
    kinds = {"opponents": ("FP16", num_actions), "plies_left": ("FP32", 1)} | dict.fromkeys(MOVE_HEADS, ("FP32", max_legal))
    return (
        Output(POLICY_TENSOR, "FP16", max_legal),
        Output(VALUE_TENSOR, "FP32", num_players),
        *(Output(head_tensor(index), *kinds[name]) for index, name in enumerate(extra)),
    )
