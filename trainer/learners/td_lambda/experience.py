"""Experience of the learner: the positions of a game from which it learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from games import core
from games.compiled import compiled
from trainer.learners.td_lambda.rule import Episode
from zerofleet.contracts.played import EXPLORATORY
from zerofleet.contracts.records import ValidatedGame
from zerofleet.presets.td_lambda import TdLambdaSettings

__all__ = ["Experience", "read_experience"]


@dataclass(frozen=True, slots=True)
class Experience:
    """Samples of one game: its positions."""

    episode: Episode

    def __len__(self) -> int:
        """Return the number of positions."""
        return len(self.episode.seats)


class _Reading(NamedTuple):
    """Rows of a record from which positions are taken; n moves."""

    positions: np.ndarray  # spec.state_dtype [n + 1, S]
    movers: np.ndarray  # int8 [n]
    exploratory: np.ndarray  # bool [n], moves after which nothing is learned
    learns: np.ndarray  # bool [P]
    first: int  # the first move that a player chose
    end: int  # one past the last move after which the game goes on
    every_ply: bool
    cuts_all: bool  # whether exploratory moves of the other player are cut too


def read_experience(played: ValidatedGame, settings: TdLambdaSettings) -> Experience:
    """Return the positions of a validated game from which its learning seats learn.

    They begin with the first move that a player chose: positions of a random opening are not learned. With successive
    positions of one player (`successor="own"`), each is encoded for the opponent, who is to move; otherwise for the seat that
    learns, which is the first with `successor="first_player"`: a move of either player was then chosen by its values. The
    position after the last move is no position, since its value is 0.
    """
    players, moves = len(played.scores), len(played.movers)
    of_first = settings.successor == "first_player"
    seat = 0 if of_first else played.record.learner_seat - 1
    is_over = played.record.resigned_seat == 0
    reading = _Reading(
        positions=played.states,
        movers=played.movers,
        exploratory=np.zeros(moves, dtype=np.bool_),
        learns=np.array([seat in (-1, one) for one in range(players)]),
        first=int(played.search.ply[0]) if len(played.search.ply) else moves,
        end=moves - 1 if is_over else moves,
        every_ply=settings.successor != "own",
        cuts_all=of_first,
    )
    if settings.exploratory == "cut":
        reading.exploratory[played.search.ply] = (played.search.flags & EXPLORATORY) != 0
    most = max(0, reading.end - reading.first) * (players if reading.every_ply else 1)
    episode = Episode(
        states=np.zeros((most, played.game.spec().packed_bytes), dtype=np.uint8),
        seats=np.zeros(most, dtype=np.int8),
        cut=np.zeros(most, dtype=np.bool_),
        end_cut=np.zeros(players, dtype=np.bool_),
        rewards=np.where(played.scores > 0.0, 1.0, np.where(played.scores < 0.0, 0.0, settings.draw_reward)),
    )
    count = _collect(played.game, reading, episode)
    if is_over:
        episode.end_cut[0 if of_first else played.movers[-1]] = reading.exploratory[-1]
    return Experience(episode._replace(states=episode.states[:count], seats=episode.seats[:count], cut=episode.cut[:count]))


@compiled
def _collect(game: Any, reading: _Reading, out: Episode) -> int:
    """Write the positions after the moves of a reading; return their number."""
    count = 0
    for ply in range(reading.first, reading.end):
        after, mover = reading.positions[ply + 1], int(reading.movers[ply])
        to_move = int(np.int64(core.to_move(game, after)))  # rules return words of any sign, which must not mix
        for seat in range(reading.learns.shape[0]):
            if not reading.learns[seat] or (not reading.every_ply and (seat != mover or to_move == mover)):
                continue
            core.encode(game, after, seat if reading.every_ply else to_move, out.states[count])
            out.seats[count] = seat
            out.cut[count] = (seat == mover or reading.cuts_all) and reading.exploratory[ply]
            count += 1
    return count
