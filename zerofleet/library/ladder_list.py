"""Ladder of a run as commands and pages show it: ratings of its champions among the classical rungs, and their games.

Ratings are those of the gatekeeper: from its journal, by its own code. A rating that no games against rungs anchor has no
number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from zerofleet.contracts.promotions import Champion, Rung
from zerofleet.library.overview import LadderRow
from zerofleet.library.times import time_of
from zerofleet.library.values import Value
from zerofleet.strength.ratings import Placement, Tally

__all__ = ["Ladder", "LadderPlayer", "Meeting", "ladder_of"]

_MODEL = "model:"


class Meeting(Value):
    """Rated games of a player against another one."""

    opponent: str
    games: int
    share: float | None
    """Share of the points in [0, 1]; None in games of more than two players, where places count."""


class LadderPlayer(LadderRow):
    """Player of the ladder with its games."""

    version: int | None
    """Model version; None for a rung."""
    promoted_at: datetime | None
    """Time of its first promotion."""
    meetings: tuple[Meeting, ...]


class Ladder(Value):
    """Ladder of a run."""

    players: tuple[LadderPlayer, ...]
    """Players with rated games, strongest first; those that are not anchored last."""
    is_anchored: bool
    """Whether a version of the model is anchored by games against rungs."""
    champion: int | None


def ladder_of(rungs: Sequence[Rung], results: Iterable[Tally | Placement], history: Sequence[Champion]) -> Ladder:
    """Return the ladder of standings, all rated games, and every promotion, oldest first.

    Games with a version that has no standing any more, as only the latest ones have, count for no rating and are left out.
    """
    standing = {rung.name for rung in rungs}
    meetings = _meetings(one for one in results if standing.issuperset(_players(one)))
    promoted = {one.version: time_of(one.promoted_at_ms) for one in reversed(history)}
    champion = history[-1].version if history else None
    players = tuple(_player(rung, meetings.get(rung.name, ()), promoted, champion) for rung in rungs if rung.games)
    return Ladder(
        players=players,
        is_anchored=any(one.version is not None and one.elo is not None for one in players),
        champion=champion,
    )


def _player(
    rung: Rung, meetings: Sequence[Meeting], promoted: dict[int, datetime | None], champion: int | None
) -> LadderPlayer:
    version = int(rung.name.removeprefix(_MODEL)) if rung.name.startswith(_MODEL) else None
    elo, low, high = (rung.elo, rung.elo_low, rung.elo_high) if rung.anchored else (None, None, None)
    return LadderPlayer(
        name=rung.name,
        elo=elo,
        elo_low=low,
        elo_high=high,
        games=rung.games,
        is_champion=version is not None and version == champion,
        version=version,
        promoted_at=None if version is None else promoted.get(version),
        meetings=tuple(meetings),
    )


def _players(result: Tally | Placement) -> tuple[str, ...]:
    return (result.first, result.second) if isinstance(result, Tally) else result.players


def _meetings(results: Iterable[Tally | Placement]) -> dict[str, list[Meeting]]:
    """Return the meetings of each player, in the order of the results."""
    games: dict[tuple[str, str], int] = {}
    points: dict[tuple[str, str], float | None] = {}
    for one in results:
        if isinstance(one, Tally):
            pairs: list[tuple[str, str, float | None]] = [
                (one.first, one.second, one.points),
                (one.second, one.first, one.games - one.points),
            ]
        else:
            names = sorted(set(one.players))
            pairs = [(first, second, None) for first in names for second in names if first != second]
        for first, second, gained in pairs:
            known = points.get((first, second), 0.0)
            games[first, second] = games.get((first, second), 0) + one.games
            points[first, second] = None if known is None or gained is None else known + gained
    found: dict[str, list[Meeting]] = {}
    for (first, second), number in games.items():
        gained = points[first, second]
        share = None if gained is None or not number else gained / number
        found.setdefault(first, []).append(Meeting(opponent=second, games=number, share=share))
    return found
