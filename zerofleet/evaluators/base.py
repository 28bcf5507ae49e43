"""The seam between search and networks: a batch of leaves in, policies and values out.

Axes: B leaves, L most legal actions of any position, P players, A actions. Layout and meaning are those of the wire
(`docs/protocol.md`), so nothing is converted on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType, Protocol

import numpy as np

__all__ = ["Evaluation", "Evaluator", "LeafBatch", "ModelVersion"]

ModelVersion = NewType("ModelVersion", int)


@dataclass(frozen=True, slots=True)
class LeafBatch:
    """Positions that wait for an evaluation. B may be 0. The arrays may be views that the next search step overwrites."""

    states: np.ndarray  # uint8 [B, packed_bytes], encoded for the player to move
    legal: np.ndarray  # int16 [B, L], ascending, padded with -1
    extra_heads: int = 0  # extra heads wanted beside policy and value, the first ones of the model's manifest

    def __len__(self) -> int:
        return len(self.states)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a network says of a batch."""

    policy: np.ndarray  # float16 [B, L], sums to 1 over the listed actions, 0 at padding
    value: np.ndarray  # float32 [B, P], expected score in [-1, 1]; index 0 is the player to move, then seat order
    version: ModelVersion | None  # that answered; None where several did, put together by `evaluate_by_version`
    extra_heads: tuple[np.ndarray, ...] = ()  # the extra heads asked for, [B, ...] each: see docs/protocol.md


class Evaluator(Protocol):
    """Whoever evaluates leaves: a server over gRPC, or a fake."""

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """Evaluate every leaf with exactly that model version.

        Raises `ModelNotFound`, `Overloaded` (after its own backoff), `Unavailable`, `InvalidRequest`.
        Cancellation: the server may still compute the batch; nothing is lost here, evaluate again.
        """
        ...
