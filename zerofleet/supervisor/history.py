"""History of a run: one JSON object a line in `metrics/run.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from zerofleet.supervisor.lines import row
from zerofleet.supervisor.readings import Readings

__all__ = ["History"]


class History:
    """Appends looks to a file. A disk that is full costs lines, never the run."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self._path = path
        self._say = say
        self._failing = False

    def write(self, now: Readings) -> None:
        """Append a look; a refusal of the disk is said once."""
        line = json.dumps({"at": datetime.now(UTC).isoformat(timespec="seconds"), **row(now)}) + "\n"
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            if not self._failing:
                self._say(f"{self._path} cannot be written: {error.strerror}; the run goes on without its history")
            self._failing = True
            return
        self._failing = False
