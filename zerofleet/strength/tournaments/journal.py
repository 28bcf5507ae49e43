"""Journal of a tournament: its terms and the result of every game, one per line, on disk before it counts.

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
from pydantic_core import from_json

from zerofleet.errors import RunDirectoryError
from zerofleet.storage.crash_points import crash_point
from zerofleet.storage.journal import Journal
from zerofleet.strength.matches import GameResult

__all__ = ["ResultJournal"]

FILE = "results.jsonl"
SCHEMA = 1


class ResultJournal:
    """Open journal, locked against other processes until closed; a context manager."""

    def __init__(self, directory: Path, terms: Mapping[str, object]) -> None:
        """Open or create the journal of a directory; a missing directory is created.

        Raises `RunDirectoryError` if it is in use, cannot be read, or has other terms, and names the difference; `OSError`
        on an I/O error.
        """
        self.path = path = directory / FILE
        self._journal = Journal(
            path,
            TypeAdapter(GameResult),
            header=json.dumps({"journal": SCHEMA, "terms": terms}).encode(),
            check_header=lambda header: _require_same(header, terms, path),
            remedy="remove that line to replay its game",
        )
        self.results: Sequence[GameResult] = self._journal.open(
            in_use=f"{directory} is in use by another tournament; wait until it ends, or choose another --dir"
        )
        """Results found when it was opened."""
        self._closed = False
        self._lock = threading.Lock()

    def append(self, results: Sequence[GameResult]) -> None:
        """Append results durably. Raises `OSError` on an I/O error. One thread at a time."""
        with self._lock:
            if self._closed:  # the caller was cancelled before this thread began
                return
            self._journal.append(*results)
        crash_point("tournament_after_results")

    def close(self) -> None:
        """Close the journal after pending appends. Idempotent."""
        with self._lock:
            self._closed = True
            self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


def _require_same(line: bytes, terms: Mapping[str, object], path: Path) -> None:
    """Raise `RunDirectoryError` unless the journal has these terms."""
    try:
        header: dict[str, Any] = from_json(line)
        schema, known = header["journal"], dict(header["terms"])
    except (ValueError, KeyError, TypeError) as error:
        raise RunDirectoryError(f"{path} is not a tournament journal: {error!r}; choose another --dir") from error
    if schema != SCHEMA:
        raise RunDirectoryError(f"{path} has schema {schema}, this version reads {SCHEMA}; choose another --dir")
    wanted: dict[str, Any] = json.loads(json.dumps(terms))
    if "models" not in known:  # of an earlier build, which wrote no hashes of its players' models
        wanted.pop("models", None)
    for name in dict.fromkeys([*wanted, *known]):
        if known.get(name) != wanted.get(name):
            raise RunDirectoryError(
                f"{path.parent} holds a tournament with {name}={_short(known.get(name))}, want {_short(wanted.get(name))}; "
                "repeat its terms to resume, or choose another --dir"
            )


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
