"""Positions of a run's own games for a judge: spread over the plies of the newest stored games, from their first search on.

Random games hardly reach the positions that a trained network meets; these are the ones that it plays in.
"""

from __future__ import annotations

from dataclasses import dataclass

from games.core import Game
from zerofleet.errors import InvalidRequest, RecordRejected
from zerofleet.library.stored_games import newest, read_game
from zerofleet.storage.game_log import GameLog
from zerofleet.strength.accuracy import Position, played_positions

__all__ = ["StoredPositions", "positions_of_stored_games"]


@dataclass(frozen=True, slots=True)
class StoredPositions:
    """Different positions of stored games, ascending by ply."""

    positions: list[Position]
    oldest: int
    """Number of the oldest game of those that were read."""
    newest: int


def positions_of_stored_games(log: GameLog, game: Game, *, count: int, seed: int, first_ply: int = 0) -> StoredPositions:
    """Return up to `count` positions of as many of the newest games, so that few are of one game.

    Those of random openings are left out. The same games and arguments give the same positions. Raises `InvalidRequest` for a
    game with hidden information, whose moves alone name no position, and for a log without a readable searched game.
    """
    if game.spec().information != "perfect":
        raise InvalidRequest(f"{game.spec().name} has hidden information, so moves alone name no position; it cannot be judged")
    played: list[list[int]] = []
    first: list[int] = []
    numbers: list[int] = []
    for logged in newest(log, count):
        try:
            stored = read_game(logged)
        except RecordRejected:  # damaged, or of another release
            continue
        if len(stored.search.ply):
            played.append(list(stored.record.moves))
            first.append(max(first_ply, int(stored.search.ply[0])))
            numbers.append(logged.index)
    if not played:
        raise InvalidRequest("the run has no stored game with a search to take positions from; let it play, or omit --stored")
    return StoredPositions(
        played_positions(game, played, count=count, seed=seed, first=first), oldest=min(numbers), newest=max(numbers)
    )
