"""Openings of a match: distinct random positions a few plies from the start.

Deterministic players repeat the same game from the same opening, so that a second one is no evidence. A deal is part of an
opening: all games of a group share it, and other groups have other deals.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from games import core, positions
from games.core import Game

__all__ = ["Opening", "draw_openings", "position_key"]

# Consecutive draws without a new opening after which the supply counts as exhausted. One remaining opening in a hundred is
# then missed with probability 4e-5.
FRUITLESS_DRAWS = 1_000


@dataclass(frozen=True, slots=True)
class Opening:
    """Start of a group of games."""

    seed: int
    """Seed of chance events: the deal, and the random numbers of the players' search."""
    moves: tuple[int, ...]


def draw_openings(game: Game, *, plies: int, seed: int) -> Iterator[Opening]:
    """Yield random openings of `plies` plies that lead to distinct unfinished positions, until no new one is found.

    Positions are distinguished by `position_key`. The same arguments give the same openings.
    """
    rng = np.random.default_rng([seed, plies])
    seen: set[int] = set()
    fruitless = 0
    while fruitless < FRUITLESS_DRAWS:
        opening = _draw(game, plies, rng)
        if opening is None or (key := position_key(game, opening)) in seen:
            fruitless += 1
            continue
        fruitless = 0
        seen.add(key)
        yield opening


def position_key(game: Game, opening: Opening) -> int:
    """Return the key of the position after an opening, deal included; raises `IllegalMove`."""
    state = positions.replay(game, opening.moves, opening.seed)
    if game.spec().information == "hidden":  # the key of the rules may cover one player's view only
        return int.from_bytes(hashlib.blake2b(state.tobytes(), digest_size=8).digest(), "little")
    return int(core.key(game, state))


def _draw(game: Game, plies: int, rng: np.random.Generator) -> Opening | None:
    """Return a random opening, or None if its moves ended the game."""
    seed = int(rng.integers(1 << 62))
    state = positions.new_state(game, seed)
    moves = []
    for _ in range(plies):
        legal = positions.legal(game, state)
        moves.append(legal[int(rng.integers(len(legal)))])
        core.play(game, state, moves[-1])
        if core.is_over(game, state):
            return None
    return Opening(seed, tuple(moves))
