"""Interface between search and networks: a batch of leaves in, policies and values out.

Axes: B leaves, L maximum legal actions of a position, P players, A actions. Layout and semantics are those of the wire
(`docs/protocol.md`), so no conversion is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType, Protocol

import numpy as np

from zerofleet.errors import InvalidRequest

__all__ = ["Evaluation", "Evaluator", "LeafBatch", "ModelVersion", "empty_evaluation"]

ModelVersion = NewType("ModelVersion", int)

_STATES, _LEGAL = np.dtype(np.uint8), np.dtype(np.int16)


@dataclass(frozen=True, slots=True)
class LeafBatch:
    """Positions to evaluate. B may be 0. The arrays may be views that the next search step overwrites.

    Raises `InvalidRequest` for arrays of other types or shapes. No evaluator converts them: 256 or 0.5 as a byte of a state
    would make it another position.
    """

    states: np.ndarray  # uint8 [B, packed_bytes], encoded for the player to move
    legal: np.ndarray  # int16 [B, L], ascending, padded with -1
    extra_heads: int = 0  # number of extra heads requested, the first ones of the model's manifest
    head_width: int = 0  # columns of each; 0: one for each action of the game

    def __post_init__(self) -> None:
        states, legal = self.states, self.legal
        if states.dtype != _STATES or legal.dtype != _LEGAL or states.ndim != 2 or legal.ndim != 2 or len(states) != len(legal):
            raise InvalidRequest(
                f"the batch has states {states.dtype} {list(states.shape)} and legal actions {legal.dtype} {list(legal.shape)};"
                " want uint8 [positions, bytes] and int16 [positions, actions]"
            )

    def __len__(self) -> int:
        return len(self.states)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Outputs of a network for a batch."""

    policy: np.ndarray  # float16 [B, L], sums to 1 over the listed actions, 0 at padding
    value: np.ndarray  # float32 [B, P], expected score in [-1, 1]; index 0 is the player to move, then seat order
    version: ModelVersion | None  # of the network; None if merged from several by `evaluate_by_version`
    extra_heads: tuple[np.ndarray, ...] = ()  # requested extra heads, [B, ...] each: see docs/protocol.md


def empty_evaluation(batch: LeafBatch, version: ModelVersion) -> Evaluation:
    """Return the evaluation of a batch without positions, which needs no server."""
    nothing = np.zeros((0, 0), np.float32)
    return Evaluation(np.zeros(batch.legal.shape, np.float16), nothing, version, (nothing,) * batch.extra_heads)


class Evaluator(Protocol):
    """Evaluator of leaves: the client of a server, or a fake."""

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """Evaluate every leaf with exactly this model version.

        Raises `ModelNotFound`, `Overloaded` (after its own back-off), `Unavailable`, `InvalidRequest`.
        Cancellation: the server may still compute the batch; evaluate again.
        """
        ...
