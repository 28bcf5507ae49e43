"""Search for stored games that fit a query, newest first, in steps of bounded cost.

    search = GameSearch(query, spec)
    while not search.is_over:
        search.advance(log)      # one read of about a megabyte
    search.found(log)            # GameList; its `next_before` is the `before` of the query that goes on

Games are numbered in order of arrival, and a search looks at descending numbers, each once. So queries that follow one another
by `next_before` neither miss nor repeat a game, however many arrive meanwhile; those are newer than the first query.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from games.core import GameSpec
from zerofleet.contracts.endings import ending_of
from zerofleet.contracts.records import SCHEMA, GameHeader, decode_header, decode_record
from zerofleet.errors import RecordRejected
from zerofleet.library.game_query import DRAW, GameQuery
from zerofleet.library.stored_games import GameList, GameRow, ending_of_record, read_game, summarise
from zerofleet.storage.game_log import GameLog, LoggedGame

__all__ = ["BOUNDS", "Bounds", "GameSearch"]

BLOCK_GAMES = 2_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """Greatest cost of one search, exceeded by one read at most."""

    games: int | None
    size_bytes: int | None
    duration_s: float | None


BOUNDS = Bounds(games=50_000, size_bytes=64 << 20, duration_s=0.25)
"""Bounds of an answer of the pages."""


class GameSearch:
    """Search with its state; for one thread at a time."""

    def __init__(
        self, query: GameQuery, spec: GameSpec, *, bounds: Bounds = BOUNDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin a search among games of a run, all of them with `spec`. Raises `InvalidRequest`."""
        query.require_player(spec.num_players)
        self._query = query
        self._spec = spec
        self._bounds = bounds
        self._clock = clock
        self._began_s = clock()
        self._before = query.before
        self._rows: list[GameRow] = []
        self._searched = 0
        self._unreadable = 0
        self._read_bytes = 0
        self._is_at_end = False

    @property
    def is_over(self) -> bool:
        """Whether the games are found, none is left, or a bound is reached."""
        return self._is_at_end or len(self._rows) >= self._query.limit or self._is_exhausted

    @property
    def searched(self) -> int:
        """Number of games looked at."""
        return self._searched

    @property
    def _is_exhausted(self) -> bool:
        bounds = self._bounds
        return bool(
            (bounds.games is not None and self._searched >= bounds.games)
            or (bounds.size_bytes is not None and self._read_bytes >= bounds.size_bytes)
            or (bounds.duration_s is not None and self._searched and self._clock() - self._began_s >= bounds.duration_s)
        )

    def advance(self, log: GameLog) -> None:
        """Look at the next games, at most those of one read."""
        before = log.end_index if self._before is None else min(self._before, log.end_index)
        if before <= log.start_index:
            self._is_at_end = True
            return
        most = BLOCK_GAMES if self._bounds.games is None else min(BLOCK_GAMES, max(1, self._bounds.games - self._searched))
        first, games = log.block(before, most=most)
        for logged in games:
            self._note(before - logged.index, damaged=before - logged.index - 1)
            before = logged.index
            self._read_bytes += len(logged.payload)
            if self._fits(logged.payload) and self._is_over_with(logged):
                break
        else:
            self._note(before - first, damaged=before - first)
            before = first
        self._before = before
        self._is_at_end = before <= log.start_index

    def found(self, log: GameLog) -> GameList:
        """Return the games found."""
        return GameList(
            total=len(log),
            searched=self._searched,
            unreadable=self._unreadable,
            next_before=None if self._is_at_end else self._before,
            games=tuple(self._rows),
        )

    def _note(self, searched: int, *, damaged: int) -> None:
        self._searched += searched
        self._unreadable += damaged

    def _is_over_with(self, logged: LoggedGame) -> bool:
        """Read a game that fits, and return whether the search is over with it."""
        try:
            self._rows.append(summarise(logged.index, read_game(logged)))
        except RecordRejected:
            self._unreadable += 1
        return self.is_over

    def _fits(self, payload: bytes) -> bool:
        """Return whether a record fits the query, or cannot be read. Rules and searched moves are looked at last, if at all."""
        query = self._query
        try:
            header = decode_header(payload)
            if header.schema != SCHEMA:
                return True
            plies = len(header.moves)
            return (
                (query.model is None or query.model in header.seat_versions[:])
                and (query.min_plies is None or plies >= query.min_plies)
                and (query.max_plies is None or plies <= query.max_plies)
                and (query.worker is None or query.worker == header.worker_id)
                and (query.result is None or _has_result(header.scores[:], query.result))
                and (query.ending is None or self._has_ending(header, payload))
            )
        except RecordRejected:
            return True

    def _has_ending(self, header: GameHeader, payload: bytes) -> bool:
        wanted, plies, has_resigned = self._query.ending, len(header.moves), header.resigned_seat > 0
        without = ending_of(self._spec, plies=plies, has_resigned=has_resigned, has_reduced=False)
        if wanted in ("resigned", "cut") and wanted != without:
            return False
        return wanted == (without if has_resigned else ending_of_record(self._spec, decode_record(payload)))


def _has_result(scores: list[float], result: str) -> bool:
    if not scores:
        return False  # such a record is never stored
    is_draw = min(scores) == max(scores)
    if result == DRAW:
        return is_draw
    seat = int(result) - 1
    return not is_draw and seat < len(scores) and scores[seat] == max(scores)
