"""Journal of a tournament: its terms and the result of every game, line by line, on disk before it counts.

{"journal": 1, "terms": {…}}
{"match_id": "alpha_beta:2 / random", "group": 0, "seating": [0, 1], "moves": [3, 2, …], "scores": [1.0, -1.0], …}
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import TypeAdapter

from zerofleet.errors import RunDirectoryError
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.journal import Journal
from zerofleet.strength.matches import GameResult

__all__ = ["ResultJournal"]

FILE = "results.jsonl"
SCHEMA = 1


class ResultJournal:
    """An open journal; nobody else can open it until it is closed. Usable in `with`."""

    def __init__(self, directory: Path, terms: Mapping[str, object]) -> None:
        """Open the journal of a directory, or begin one there; the directory is made if it is missing.

        Raises `RunDirectoryError` when it is in use, cannot be read, or was begun under other terms; it names which.
        `OSError` when the disk refuses.
        """
        self.path = path = directory / FILE
        self._journal = Journal(
            path,
            TypeAdapter(GameResult),
            header=json.dumps({"journal": SCHEMA, "terms": terms}).encode(),
            check_header=lambda header: _require_same(header, terms, path),
            remedy="remove that line to play its game again",
        )
        self.results: Sequence[GameResult] = self._journal.open(
            in_use=f"{directory} is in use by another tournament; wait for its end, or name another --dir"
        )
        """Results known when it was opened."""
        self._closed = False
        self._lock = threading.Lock()

    def append(self, results: Sequence[GameResult]) -> None:
        """Add results; they are on disk when this returns. Raises `OSError` when the disk refuses. For one thread at a time."""
        with self._lock:
            if self._closed:  # the caller was cancelled before this thread began
                return
            self._journal.append(*results)
        crash_point("tournament_after_results")

    def close(self) -> None:
        """Close the journal, after results that are being added. Calling it twice is harmless."""
        with self._lock:
            self._closed = True
            self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


def _require_same(line: bytes, terms: Mapping[str, object], path: Path) -> None:
    """Raise `RunDirectoryError` unless the journal was begun under these terms."""
    try:
        header: dict[str, Any] = json.loads(line)
        schema, known = header["journal"], dict(header["terms"])
    except (ValueError, KeyError, TypeError) as error:
        raise RunDirectoryError(f"{path} is no journal of a tournament: {error!r}; name another --dir") from error
    if schema != SCHEMA:
        raise RunDirectoryError(f"{path} has schema {schema}, this version reads {SCHEMA}; name another --dir")
    wanted: dict[str, Any] = json.loads(json.dumps(terms))
    for name, value in wanted.items():
        if known.get(name) != value:
            raise RunDirectoryError(
                f"{path.parent} holds a tournament with {name}={_short(known.get(name))}, wanted is {_short(value)}; "
                "repeat its terms to go on, or name another --dir"
            )


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
