"""History of a run: JSON lines in `metrics/run.jsonl`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from zerofleet.contracts.plain_files import append_plain
from zerofleet.storage.files import drop_partial_line
from zerofleet.supervisor.lines import row
from zerofleet.supervisor.readings import Readings

__all__ = ["History"]


class History:
    """Writer of readings to a file. A full disk, or a path that is no regular file, costs lines, never the run."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self._path = path
        self._say = say
        self._failing = False
        self._drop_partial_line()

    def write(self, now: Readings) -> None:
        """Append a reading; report a disk error once."""
        line = json.dumps({"at": datetime.now(UTC).isoformat(timespec="seconds"), **row(now)}) + "\n"
        if self._failing:
            self._drop_partial_line()
        try:
            append_plain(self._path, line)
        except OSError as error:
            if not self._failing:
                self._say(f"{self._path} cannot be written: {error.strerror}; the run continues without its history")
            self._failing = True
            return
        self._failing = False

    def _drop_partial_line(self) -> None:
        """Drop the part of a line that a kill or a full disk has left, so that the next one begins a line."""
        with contextlib.suppress(OSError):  # `write` reports it
            drop_partial_line(self._path)
