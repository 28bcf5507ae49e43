"""Identity of an encoding: fingerprint of the output of `encode` for a fixed set of positions.

A network is valid only for the planes it was trained on. A manual version number can be forgotten; the fingerprint changes
whenever the planes of any sampled position change.
"""

from __future__ import annotations

import hashlib

import numpy as np

from games import core
from games.core import Game

__all__ = ["encoder_fingerprint", "sample_positions"]

_FINGERPRINT_GAMES = 4
_FINGERPRINT_DIGITS = 16

_known: dict[tuple[object, ...], str] = {}


def sample_positions(game: Game, *, games: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return every unfinished position of some seeded random games, from the point of view of the player to move.

    `states` uint8 [N, packed_bytes] and `legal` int16 [N, L], padded with -1.
    """
    spec = game.spec()
    rng = np.random.default_rng(seed)
    states, legal = [], []
    for index in range(games):
        state = np.zeros(spec.state_size, spec.state_dtype)
        core.reset(game, state, seed + index)
        while not core.is_over(game, state):
            actions = np.full(spec.max_legal, -1, np.int16)
            planes = np.zeros(spec.packed_bytes, np.uint8)
            count = core.legal_actions(game, state, actions)
            core.encode(game, state, core.to_move(game, state), planes)
            states.append(planes)
            legal.append(actions)
            core.play(game, state, int(actions[rng.integers(count)]))
    return np.stack(states), np.stack(legal)


def encoder_fingerprint(game: Game) -> str:
    """Return the 16 hex digits of the encoding of this game with these parameters; computed once per process."""
    identity = (type(game), *game._asdict().values())
    if identity not in _known:
        states, _ = sample_positions(game, games=_FINGERPRINT_GAMES, seed=0)
        _known[identity] = hashlib.sha256(states.tobytes()).hexdigest()[:_FINGERPRINT_DIGITS]
    return _known[identity]
