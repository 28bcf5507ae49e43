"""Conversion of match results to rating evidence: points for two players, placements for more."""

from __future__ import annotations

from collections import Counter

from zerofleet.strength.matches import Scoreboard
from zerofleet.strength.ratings import Placement, Tally

__all__ = ["evidence"]


def evidence(board: Scoreboard, groups: int | None = None) -> list[Tally | Placement]:
    """Return the complete groups of a match, or its first `groups`, as input of `rate`; empty before the first.

    Only complete groups, which cover every seating, count: a seat's advantage must not pass for strength.
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
