"""Games by line: the sequences of moves that occur most often, with their results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from games.positions import move_names
from zerofleet.strength.behaviour.finished import FinishedGame
from zerofleet.strength.behaviour.tables import Cell, Column, count_of
from zerofleet.strength.matches.scoreboard import DRAW_TOLERANCE

__all__ = ["Lines"]

_REST = "all other lines"
_WON, _DRAWN, _LOST = range(3)


class Lines:
    """First moves of games, most frequent first, and the rest in a last row."""

    name = "lines"
    kind: Literal["curve", "bars"] = "bars"

    def __init__(self, *, seat: int, top: int, plies: int) -> None:
        """Count the first `plies` moves and the results of a seat; `top`: most lines in rows of their own."""
        self.title = f"Lines, results of seat {seat + 1}"
        self.columns = (
            Column("line", "line"),
            Column("actions", "actions"),
            Column("games", "games"),
            Column("share", "share", "% of games"),
            Column("won", "won"),
            Column("drawn", "drawn"),
            Column("lost", "lost"),
        )
        self._seat, self._top, self._plies = seat, top, plies
        self._counts: Counter[tuple[int, ...]] = Counter()
        self._results: dict[tuple[int, ...], list[int]] = {}
        self._names: dict[tuple[int, ...], str] = {}

    def add(self, finished: FinishedGame) -> None:
        """Count a game."""
        line = finished.moves[: self._plies]
        self._counts[line] += 1
        if line not in self._names:
            self._names[line] = " ".join(move_names(finished.game, line, finished.seed))
        score = float(finished.scores[self._seat])
        result = _WON if score > DRAW_TOLERANCE else _LOST if score < -DRAW_TOLERANCE else _DRAWN
        self._results.setdefault(line, [0, 0, 0])[result] += 1

    def rows(self) -> Sequence[tuple[Cell, ...]]:
        """See `Collector.rows`."""
        total = self._counts.total()
        ranked = sorted(self._counts, key=lambda line: (-self._counts[line], line))
        rows = [
            self._row(self._names[line], " ".join(map(str, line)), self._results[line], total) for line in ranked[: self._top]
        ]
        if rest := ranked[self._top :]:
            results = [sum(self._results[line][kind] for line in rest) for kind in (_WON, _DRAWN, _LOST)]
            rows.append(self._row(f"{_REST}, {len(rest):,}", "", results, total))
        return rows

    def _row(self, name: str, actions: str, results: Sequence[int], total: int) -> tuple[Cell, ...]:
        count = sum(results)
        return name, actions, count, count_of(count, total), *results
