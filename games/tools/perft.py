"""Perft: counts of move sequences, the classical test of move generation and of its speed.

Every sequence is played to its last move, without bulk counting. A finished game has no continuations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from games import core
from games.compiled import compiled, lean
from games.core import Game, State
from games.positions import copy_state, legal, new_state

__all__ = ["PlyCount", "count_sequences", "perft"]


_PARTS_FROM_PLY = 2


@dataclass(frozen=True, slots=True)
class PlyCount:
    """Number of sequences after a number of plies."""

    ply: int
    total: int
    finished: int
    """Number among `total` in which the game is over."""


def perft(game: Game, depth: int, seed: int = 0) -> list[int]:
    """Return the numbers of sequences of 1, 2, .. `depth` legal moves from the starting position."""
    return [count.total for count in count_sequences(game, depth, seed)]


def count_sequences(
    game: Game, depth: int, seed: int = 0, *, progress: Callable[[int, int], None] | None = None
) -> list[PlyCount]:
    """Count the legal move sequences of 1, 2, .. `depth` plies from the starting position.

    Args:
        game: The rules.
        depth: Length of the longest sequences.
        seed: Determines the starting position in games with a random start.
        progress: Called after each part with the parts done and the total; interrupts take effect between parts.
    """
    spec = game.spec()
    stack = np.zeros((depth + 1, spec.state_size), dtype=spec.state_dtype)
    listed = np.empty((depth + 1, spec.max_legal), dtype=np.int16)
    counts = np.zeros((depth + 1, 2), dtype=np.int64)
    parts_from = min(_PARTS_FROM_PLY, depth)
    parts = [new_state(game, seed)]
    for ply in range(parts_from):
        counts[ply] += len(parts), _count_finished(game, np.stack(parts)) if parts else 0
        parts = [child for parent in parts for child in _children(game, parent)]
    for done, part in enumerate(parts, start=1):
        stack[parts_from] = part
        _count(game, stack, listed, counts, parts_from)
        if progress is not None:
            progress(done, len(parts))
    return [PlyCount(ply, int(counts[ply, 0]), int(counts[ply, 1])) for ply in range(1, depth + 1)]


def _children(game: Game, state: State) -> list[State]:
    """Return the position after each legal move."""
    children = []
    for action in legal(game, state):
        child = state.copy()
        core.play(game, child, action)
        children.append(child)
    return children


@lean
def _count(game: Game, stack: np.ndarray, listed: np.ndarray, counts: np.ndarray, ply: int) -> None:
    """Count the sequence ending in stack[ply] and all its continuations.

    Args:
        game: The rules.
        stack: spec.state_dtype [depth + 1, S], one position per ply.
        listed: int16 [depth + 1, L], buffer for legal actions.
        counts: int64 [depth + 1, 2], sequences and finished sequences.
        ply: Length of the sequence.
    """
    counts[ply, 0] += 1
    over = core.is_over(game, stack[ply])
    if over:
        counts[ply, 1] += 1
    if over or ply + 1 == stack.shape[0]:
        return
    for i in range(core.legal_actions(game, stack[ply], listed[ply])):
        copy_state(stack[ply], stack[ply + 1])
        core.play(game, stack[ply + 1], listed[ply, i])
        _count(game, stack, listed, counts, ply + 1)


@compiled
def _count_finished(game: Game, layer: np.ndarray) -> int:
    """Return the number of finished positions in `layer` [N, S]."""
    finished = 0
    for i in range(layer.shape[0]):
        if core.is_over(game, layer[i]):
            finished += 1
    return finished
