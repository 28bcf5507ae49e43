"""Journal: what happened, line by line, on disk before it counts.

A process that is killed finds it again at the next start. The only thing a kill can leave behind is a last line cut
short; it says nothing that anybody was told, so it is dropped.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import structlog
from pydantic import ValidationError

from gatekeeper.events import EVENTS, SCHEMA, Event, JournalBegun
from zerofleet.errors import RunDirectoryError, Unavailable
from zerofleet.files import atomic_publish, whole_lines

__all__ = ["Journal"]

log = structlog.get_logger()


class Journal:
    """An append-only file of events. One process, one thread at a time."""

    def __init__(self, path: Path, *, model: str) -> None:
        self._path = path
        self._model = model
        self._size = 0
        """Bytes of the file that are whole lines."""

    def read(self) -> list[Event]:
        """Return every event so far, oldest first; a last line cut short is removed.

        Raises `RunDirectoryError` when the file is damaged elsewhere, is of another model, or of another schema.
        """
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return []
        whole = whole_lines(content)
        if len(whole) < len(content):
            log.warning("journal.tail_dropped", path=str(self._path), size_bytes=len(content) - len(whole))
            with self._path.open("r+b") as file:
                file.truncate(len(whole))
        self._size = len(whole)
        events = [self._parse(number, line) for number, line in enumerate(whole.splitlines(), start=1)]
        if events:
            self._require_own(events[0])
        return events

    def rewrite(self, events: Iterable[Event]) -> None:
        """Replace the file, whole or not at all, by a header and these events. Raises `Unavailable` when the disk refuses."""
        content = b"".join(EVENTS.dump_json(event) + b"\n" for event in (JournalBegun(model=self._model), *events))
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            atomic_publish(self._path, content)
        except OSError as error:
            raise Unavailable(f"cannot write {self._path}: {error}; nothing was changed") from error
        self._size = len(content)

    def append(self, event: Event) -> None:
        """Add an event; it is on disk when this returns. Raises `Unavailable` when the disk refuses; then nothing is added."""
        line = EVENTS.dump_json(event) + b"\n"
        try:
            with self._path.open("r+b") as file:
                file.truncate(self._size)  # a part of a line may be left from a full disk
                file.seek(self._size)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise Unavailable(f"cannot write {self._path}: {error}; the event was not counted") from error
        self._size += len(line)

    def _parse(self, number: int, line: bytes) -> Event:
        try:
            return EVENTS.validate_json(line)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            raise RunDirectoryError(
                f"{self._path} line {number} cannot be read ({fault['msg']}); restore the file, or move it away: "
                "the champion stays, match results and ratings begin anew"
            ) from error

    def _require_own(self, first: Event) -> None:
        if not isinstance(first, JournalBegun) or first.schema_version != SCHEMA:
            raise RunDirectoryError(f"{self._path} was written by another version of Zerofleet; this one reads schema {SCHEMA}")
        if first.model != self._model:
            raise RunDirectoryError(f"{self._path} belongs to model {first.model}, not {self._model}; name another state_dir")
