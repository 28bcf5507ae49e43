"""Snapshots of what was read from the journals of gates, so that pages that start again need not read them whole.

A snapshot is a copy in a cache directory: the events that fold into the record, the rows of closed matches, and the place in
the journal. It is used only if the journal has the same bytes before that place, by their hash, and rules and release are the
same; otherwise the journal is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pydantic
import structlog

from zerofleet.contracts.gate_events import EVENTS, SCHEMA
from zerofleet.library.cache_files import cache_name, read_cached, write_cached
from zerofleet.library.match_rows import MatchRow
from zerofleet.storage.journal import Mark
from zerofleet.strength.gate_record import GateRecord, fold_all

__all__ = ["LEAST_GROWTH_BYTES", "GateSnapshots"]

FORMAT = 1
"""Number to raise when equal events give other records or rows."""
LEAST_GROWTH_BYTES = 256 << 10
"""Growth of a journal after which a snapshot is written: reading as much anew takes some hundredths of a second."""

_MARK = pydantic.TypeAdapter(Mark)
_ROWS = pydantic.TypeAdapter(tuple[MatchRow, ...])

log = structlog.get_logger()


class GateSnapshots:
    """Snapshot of one journal in a cache directory. For one thread at a time."""

    def __init__(self, cache: Path, journal: Path) -> None:
        """Create it without file access."""
        self._path = cache / cache_name(str(journal.absolute()))
        self._saved_bytes = 0

    def load(self, record: GateRecord, rules: str) -> tuple[Mark, list[MatchRow]] | None:
        """Fold the snapshot into an empty record; return its place and the rows of closed matches, None without a valid one.

        The caller compares the journal before the place; after None the record may hold a part of the snapshot.
        """
        content = read_cached(self._path, _key(record.model, rules))
        if content is None:
            return None
        mark, rows, *events = content.splitlines()
        try:
            found, closed = _MARK.validate_json(mark), list(_ROWS.validate_json(rows))
            fold_all(record, map(EVENTS.validate_json, events))
        except pydantic.ValidationError as error:  # of a build of this release with other fields
            log.warning("cache.not_read", path=str(self._path), error=str(error))
            return None
        self._saved_bytes = found.size_bytes
        return found, closed

    def save(self, record: GateRecord, rules: str, mark: Mark | None, closed: Sequence[MatchRow]) -> None:
        """Write a snapshot where the journal has grown enough since the last one."""
        if mark is None or mark.size_bytes < self._saved_bytes + LEAST_GROWTH_BYTES:
            return
        self._saved_bytes = mark.size_bytes
        lines = [_MARK.dump_json(mark), _ROWS.dump_json(tuple(closed)), *map(EVENTS.dump_json, record.present())]
        write_cached(self._path, _key(record.model, rules), b"\n".join(lines))

    def forget(self) -> None:
        """Write the next snapshot as if there were none: the journal is not that of the last one."""
        self._saved_bytes = 0


def _key(model: str, rules: str) -> str:
    return f"gate {FORMAT} {SCHEMA} {model} {rules}"
