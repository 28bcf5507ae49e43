"""Openings of a match: random positions a few plies from the start, no two alike.

Two deterministic players make the same game of the same opening every time, so a second one would be no evidence at all.
A deal is part of an opening: all games of a group have the same one, and other groups have others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from games import core, positions
from games.core import Game

__all__ = ["Opening", "draw_openings", "position_key"]

# Draws in a row that give nothing new before the supply counts as used up. One left among a hundred is then missed with
# a chance of 4e-5.
FRUITLESS_DRAWS = 1_000


@dataclass(frozen=True, slots=True)
class Opening:
    """How a group of games begins."""

    seed: int
    """Decides what chance decides: the deal, and any luck of the players' search."""
    moves: tuple[int, ...]


def draw_openings(game: Game, *, plies: int, seed: int) -> Iterator[Opening]:
    """Yield random openings of `plies` plies, in which nobody has won yet, until no new position is found.

    Positions are told apart by `position_key`. The same arguments give the same openings.
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
    """Return the key of the position after an opening, with everything that was dealt; raises `IllegalMove`."""
    state = positions.replay(game, opening.moves, opening.seed)
    if game.spec().information == "hidden":  # the rules' own key may be of what one player sees
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
