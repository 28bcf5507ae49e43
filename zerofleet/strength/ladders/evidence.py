"""What a match says of its players' strength: points where two meet, placements where more do."""

from __future__ import annotations

from collections import Counter

from zerofleet.strength.matches import Scoreboard
from zerofleet.strength.ratings import Placement, Tally

__all__ = ["evidence"]


def evidence(board: Scoreboard, groups: int | None = None) -> list[Tally | Placement]:
    """Return the complete groups of a match, or its first `groups`, as `rate` takes them; empty before the first.

    Only complete groups, in which everybody has sat everywhere: the advantage of a seat must not pass for strength.
    """
    counted = board.groups if groups is None else min(groups, board.groups)
    if not counted:
        return []
    if board.terms.game.spec().num_players == 2:
        first, second = board.terms.players
        standing = board.standing(counted)
        return [Tally(first.name, second.name, standing.share * standing.games, standing.games)]
    alike = Counter(Placement.of(result.players, result.scores) for result in board.counted_results(counted))
    return [Placement(one.players, one.places, games) for one, games in alike.items()]
