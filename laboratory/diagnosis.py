"""Diagnosis of self-play: how games end, how sharp the targets are, how varied the positions, which wins are overlooked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from games import core
from games.compiled import compiled
from games.core import Game
from trainer.replay import AcceptedGame
from trainer.samples import Samples
from zerofleet.contracts.records import decode_record, validate

__all__ = ["Diagnosis"]

MOST_REPLAYED = 1_000  # games between two judgements that are searched for overlooked wins


class Diagnosis:
    """Statistics of the games since the last call of `take`, and of all positions ever."""

    def __init__(self, game: Game) -> None:
        self._game = game
        spec = game.spec()
        self._listed = np.empty(spec.max_legal, np.int16)
        self._scores = np.empty(spec.num_players, np.float32)
        self._shows_wins = spec.information == "perfect"
        self._ever: set[int] = set()
        self._clear()

    def note(self, games: Sequence[AcceptedGame]) -> None:
        """Count finished games and their samples."""
        for one in games:
            record = decode_record(one.payload)
            self._games += 1
            self._resigned += bool(record.resigned_seat)
            self._plies += len(record.moves)
            self._note_samples(one)
            if self._shows_wins and self._replayed < MOST_REPLAYED:
                self._replayed += 1
                played = validate(record)
                moves = np.array(record.moves[:], np.int64)
                offered, missed = _wins_in_one(
                    played.game, played.states, played.movers, moves, played.search.ply, (self._listed, self._scores)
                )
                self._wins += offered
                self._overlooked += missed

    def take(self) -> dict[str, Any]:
        """Return the statistics and start anew; shares and means without games are None."""
        new = len(self._ever) - self._known
        found = {
            "games": self._games,
            "resigned_share": self._resigned / self._games if self._games else None,
            "plies_per_game": self._plies / self._games if self._games else None,
            "samples": self._samples,
            "target_entropy_nat": self._entropy / self._samples if self._samples else None,
            "distinct_positions": len(self._now),
            "new_positions": new,
            "distinct_positions_ever": len(self._ever),
            "wins_in_one": self._wins if self._shows_wins else None,
            "wins_in_one_overlooked": self._overlooked if self._shows_wins else None,
            "wins_in_one_overlooked_share": self._overlooked / self._wins if self._wins else None,
        }
        self._clear()
        return found

    def _clear(self) -> None:
        self._games = self._resigned = self._plies = self._samples = self._replayed = 0
        self._wins = self._overlooked = 0
        self._entropy = 0.0
        self._known = len(self._ever)
        self._now: set[int] = set()

    def _note_samples(self, one: AcceptedGame) -> None:
        samples = cast("Samples", one.samples)  # those of the learner `alphazero`, the only one of a trial
        policy = samples.policy.astype(np.float64)
        self._samples += len(samples)
        self._entropy -= float((policy * np.log(np.where(policy > 0.0, policy, 1.0))).sum())
        keys = [hash(state.tobytes()) for state in samples.states]
        self._now.update(keys)
        self._ever.update(keys)


@compiled
def _wins_in_one(
    game: Any,
    states: np.ndarray,
    movers: np.ndarray,
    moves: np.ndarray,
    plies: np.ndarray,
    scratch: tuple[np.ndarray, np.ndarray],
) -> tuple[int, int]:
    """Return the number of searched plies with a move that wins at once, and of those at which another was played.

    A move wins when it ends the game with a score above 0 for its player. `scratch`: int16 [L] and float32 [P].
    """
    listed, scores = scratch
    after = states[0].copy()
    offered, missed = 0, 0
    for ply in plies:
        mover = movers[ply]
        wins = False
        won = False
        for i in range(core.legal_actions(game, states[ply], listed)):
            after[:] = states[ply]
            core.play(game, after, listed[i])
            if core.is_over(game, after):
                core.scores(game, after, scores)
                if scores[mover] > 0.0:
                    wins = True
                    won = won or listed[i] == moves[ply]
        offered += wins
        missed += wins and not won
    return offered, missed
