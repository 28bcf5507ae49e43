"""Walk through a finished game with the rules: keys of its positions, and wins in one that were taken or overlooked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from games import core, positions
from games.compiled import lean
from games.core import Game, State
from zerofleet.search import PlayedGame

__all__ = ["GameWalk", "walk", "warm_up"]

_NO_WIN, _TAKEN, _OVERLOOKED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class GameWalk:
    """Facts about the positions of a game in which a player chose a move, the opening excluded."""

    keys: np.ndarray  # uint64 [n], key of each position
    wins_taken: int
    """Moves that ended the game with a win for their player, whose score then exceeds that of every other."""
    wins_overlooked: int
    """Moves that did not, although another legal move would have. Counted in games of perfect information."""


def walk(played: PlayedGame) -> GameWalk:
    """Return the facts about a game that was played from its start, without a given position."""
    game, spec = played.game, played.game.spec()
    state = positions.new_state(game, played.seed)
    keys = np.zeros(len(played.moves), dtype=np.uint64)
    wins = np.zeros(len(played.moves), dtype=np.int8)
    scores = np.zeros(spec.num_players, dtype=np.float32)
    legal = np.zeros(spec.max_legal, dtype=np.int16)
    sees_wins = spec.information == "perfect"
    _walk(game, (state, state.copy(), legal, scores), (played.moves, played.opening_plies), sees_wins, (keys, wins))
    return GameWalk(
        keys=keys[played.opening_plies :],
        wins_taken=int(np.count_nonzero(wins == _TAKEN)),
        wins_overlooked=int(np.count_nonzero(wins == _OVERLOOKED)),
    )


def warm_up(game: Game) -> None:
    """Load the compiled code, or compile it."""
    nothing = np.zeros(0, dtype=np.int32)
    scores = (0.0,) * game.spec().num_players
    walk(PlayedGame(game, 0, (), 0, nothing, (), scores, None, False, None))


@lean
def _walk(
    game: Any,
    workspace: tuple[State, State, np.ndarray, np.ndarray],
    line: tuple[np.ndarray, int],
    sees_wins: bool,
    out: tuple[np.ndarray, np.ndarray],
) -> None:
    """Play the moves (int32 [n]) in place; write the key of each position and its win in one from `first` on.

    `workspace`: the starting position, another state, int16 [L] and float32 [P]; `line`: moves and `first`; `out`: uint64 [n]
    and int8 [n].
    """
    state, after, legal, scores = workspace
    moves, first = line
    keys, wins = out
    for ply in range(moves.size):
        if ply >= first:
            keys[ply] = core.key(game, state)
            if sees_wins:
                wins[ply] = _win_in_one(game, (state, after, legal, scores), moves[ply])
        core.play(game, state, moves[ply])


@lean
def _win_in_one(game: Any, workspace: tuple[State, State, np.ndarray, np.ndarray], action: int) -> int:
    """Return _TAKEN or _OVERLOOKED for playing `action` in a state that offers a win in one, else _NO_WIN.

    `workspace`: the state, which is not changed, another state, int16 [L] and float32 [P].
    """
    state, after, legal, scores = workspace
    mover = core.to_move(game, state)
    found = _NO_WIN
    for i in range(core.legal_actions(game, state, legal)):
        if found == _OVERLOOKED and legal[i] != action:
            continue
        positions.copy_state(state, after)
        core.play(game, after, legal[i])
        if core.is_over(game, after):
            core.scores(game, after, scores)
            if _wins(scores, mover):
                if legal[i] == action:
                    return _TAKEN
                found = _OVERLOOKED
    return found


@lean
def _wins(scores: np.ndarray, mover: int) -> bool:
    """Return whether `mover` scored more than every other player."""
    for player in range(scores.size):  # noqa: SIM110  (numba has no generator in `all`)
        if player != mover and scores[player] >= scores[mover]:
            return False
    return True
