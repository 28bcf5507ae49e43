"""Contract of a table: it counts one finished game after another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from zerofleet.strength.behaviour.finished import FinishedGame
from zerofleet.strength.behaviour.tables import BehaviourTable, Cell, Column

__all__ = ["Collector", "Reading", "collect", "table_of"]


@dataclass(frozen=True, slots=True)
class Reading:
    """Settings of the tables."""

    seat: int = 0
    """Seat whose results are counted, from 0."""
    top: int = 20
    """Most rows of a table of lines or openings."""
    plies: int = 9
    """First plies of a line."""
    bins: int = 13
    """Bins of a histogram over [-1, 1], the outer ones centred on its ends; odd, so that one is centred on 0."""


class Collector(Protocol):
    """Table that grows by games."""

    name: str
    kind: Literal["curve", "bars"]

    @property
    def title(self) -> str:
        """Heading of the table."""
        ...

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of the rows."""
        ...

    def add(self, finished: FinishedGame) -> None:
        """Count a game."""
        ...

    def rows(self) -> Sequence[tuple[Cell, ...]]:
        """Return the rows of the games so far; none without games."""
        ...


class CollectorMaker(Protocol):
    """Factory of an empty table."""

    def __call__(self) -> Collector:
        """Return a table without games."""
        ...


def table_of(collector: Collector, *, games: int) -> BehaviourTable:
    """Return the table of the games that a collector has counted."""
    rows = tuple(tuple(row) for row in collector.rows())
    return BehaviourTable(collector.name, collector.title, collector.columns, rows, games, collector.kind, _notes(games))


def collect(make: CollectorMaker, games: Iterable[FinishedGame], *, versions: Sequence[int] | None = None) -> BehaviourTable:
    """Return the table of some games.

    Args:
        make: Factory of the table.
        games: Finished games of one game.
        versions: Versions to tell apart, each with rows of its own, ascending; none: every version there is. None: all games
            together, whatever their version.
    """
    parts: dict[int, Collector] = {}
    empty = make()
    count = 0
    for finished in games:
        version = finished.version if versions is not None else 0
        if versions and version not in versions:
            continue
        parts.setdefault(version, make()).add(finished)
        count += 1
    columns, rows = empty.columns, []
    if versions is not None:
        columns = (Column("version", "version"), *columns)
    for version in sorted(parts):
        rows += [(version, *row) if versions is not None else tuple(row) for row in parts[version].rows()]
    return BehaviourTable(empty.name, empty.title, columns, tuple(rows), count, empty.kind, _notes(count))


def _notes(games: int) -> tuple[str, ...]:
    return () if games else ("no games, so the table is empty",)
