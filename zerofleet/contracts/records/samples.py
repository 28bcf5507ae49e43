"""Synthetic finished games for tests and demonstrations: legal moves, plausible search results, no network."""

from __future__ import annotations

import numpy as np

from games import core
from games.core import Game
from zerofleet.contracts.played import FULL_SEARCH, TARGET_UNIT, PlayedGame, SearchedMove

__all__ = ["random_game"]


def random_game(game: Game, seed: int, *, version: int = 1, with_targets: bool = True) -> PlayedGame:
    """Return a game of uniformly random moves, each with random visits (and targets) over all legal actions."""
    spec = game.spec()
    rng = np.random.default_rng(seed)
    state = np.zeros(spec.state_size, dtype=spec.state_dtype)
    legal = np.empty(spec.max_legal, dtype=np.int16)
    moves: list[int] = []
    searched: list[SearchedMove] = []
    core.reset(game, state, int(np.uint64(seed).astype(np.int64)))
    while not core.is_over(game, state):
        actions = legal[: core.legal_actions(game, state, legal)].astype(np.int32)
        searched.append(_search(rng, actions, ply=len(moves), version=version, players=spec.num_players, target=with_targets))
        moves.append(int(rng.choice(actions)))
        core.play(game, state, moves[-1])
    scores = np.zeros(spec.num_players, dtype=np.float32)
    core.scores(game, state, scores)
    return PlayedGame(
        game=game,
        seed=seed,
        versions=(version,) * spec.num_players,
        opening_plies=0,
        moves=np.array(moves, dtype=np.int32),
        searched=tuple(searched),
        scores=tuple(scores.tolist()),
        resigned_seat=None,
        resignation_control=False,
        tag=None,
    )


def _search(
    rng: np.random.Generator, actions: np.ndarray, *, ply: int, version: int, players: int, target: bool
) -> SearchedMove:
    weights = rng.integers(1, 1000, len(actions))
    units = weights * TARGET_UNIT // weights.sum()
    units[0] += TARGET_UNIT - units.sum()
    value = rng.uniform(-1, 1)
    return SearchedMove(
        ply=ply,
        model_version=version,
        actions=actions,
        visits=rng.integers(1, 100, len(actions)).astype(np.int32),
        target=units.astype(np.uint16) if target else np.empty(0, dtype=np.uint16),
        root_value=np.array([value if seat == 0 else -value / (players - 1) for seat in range(players)], dtype=np.float32),
        flags=FULL_SEARCH,
    )
