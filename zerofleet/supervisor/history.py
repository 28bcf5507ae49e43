"""History of a run: JSON lines in `metrics/run.jsonl`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from zerofleet.storage.files import whole_lines
from zerofleet.supervisor.lines import row
from zerofleet.supervisor.readings import Readings

__all__ = ["History"]


class History:
    """Writer of readings to a file. A full disk costs lines, never the run."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self._path = path
        self._say = say
        self._failing = False
        self._mend()

    def write(self, now: Readings) -> None:
        """Append a reading; report a disk error once."""
        line = json.dumps({"at": datetime.now(UTC).isoformat(timespec="seconds"), **row(now)}) + "\n"
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            if not self._failing:
                self._say(f"{self._path} cannot be written: {error.strerror}; the run continues without its history")
            self._failing = True
            return
        self._failing = False

    def _mend(self) -> None:
        """Remove a last line that a crash cut short, so that the next one begins a line."""
        with contextlib.suppress(OSError):  # `write` reports it
            if self._path.exists() and (content := self._path.read_bytes()) and not content.endswith(b"\n"):
                self._path.write_bytes(whole_lines(content))
