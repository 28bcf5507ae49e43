"""Note of a compilation in progress: a file beside the announce file of a service, for the people who wait for it.

Rules and search compile once per machine and version, in many cases before a service is ready and has an address. The
supervisor reads the note of each child; a note of another process, or one without news, is none. This module loads no compiler.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic_core import from_json, to_json

from zerofleet.storage.files import atomic_publish

__all__ = ["EXPECTED_S", "PATIENCE_S", "Compilation", "announcement", "note_path", "read_note", "write_note"]

EXPECTED_S = 20.0
"""Usual duration of the compilation of rules and search on an idle core."""
PATIENCE_S = 1.0
"""Compilation that passes unmentioned."""
STALE_S = 10.0
"""Age of a note without news; its process was killed, or stopped."""
_MOST_BYTES = 1 << 10


class Compilation(NamedTuple):
    """Compilation in progress in a process."""

    functions: int
    """Number of compiled functions so far."""
    seconds: float
    """Time since it began."""

    @property
    def progress(self) -> str:
        """Progress as text: `34 functions in 12 of about 20 s`; without the expectation once it is exceeded."""
        return f"{self.functions} function{'' if self.functions == 1 else 's'} in {self.time}"

    @property
    def time(self) -> str:
        """Time as text: `12 of about 20 s`; without the expectation once it is exceeded."""
        of = f" of about {EXPECTED_S:.0f}" if self.seconds < EXPECTED_S else ""
        return f"{self.seconds:.0f}{of} s"


def announcement(game: str) -> str:
    """Return the subject of the compilation and its usual duration, as text."""
    return f"rules and search of {game} for this machine, once; about {EXPECTED_S:.0f} s"


def note_path(announce: Path) -> Path:
    """Return the path of the note of the service with this announce file."""
    return announce.with_suffix(".compiling")


def write_note(path: Path, found: Compilation, *, pid: int) -> None:
    """Write the note of a process. Raises `OSError`."""
    atomic_publish(path, to_json({"pid": pid, **found._asdict()}))


def read_note(path: Path, pid: int | None) -> Compilation | None:
    """Return the compilation of a process; None without a recent, well-formed note of it."""
    try:
        if pid is None or time.time() - path.stat().st_mtime > STALE_S:
            return None
        with path.open("rb") as file:
            said = from_json(file.read(_MOST_BYTES), allow_inf_nan=False)
        if not isinstance(said, Mapping) or said["pid"] != pid:
            return None
        found = Compilation(int(said["functions"]), float(said["seconds"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
    return found if found.functions >= 0 and found.seconds >= 0 else None
