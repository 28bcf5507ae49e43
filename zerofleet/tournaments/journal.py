"""Journal of a tournament: its terms and the result of every game, line by line, on disk before it counts.

    {"journal": 1, "terms": {…}}
    {"match_id": "alpha_beta:2 / random", "group": 0, "seating": [0, 1], "moves": [3, 2, …], "scores": [1.0, -1.0], …}

A process that is killed leaves at most a last line cut short, which nobody was told of; it is dropped.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError

from zerofleet.crashpoints import crash_point
from zerofleet.errors import RunDirectoryError
from zerofleet.files import sync_directory, try_lock, whole_lines
from zerofleet.matches import GameResult

__all__ = ["Journal"]

FILE = "results.jsonl"
SCHEMA = 1

_RESULT = TypeAdapter(GameResult)


class Journal:
    """An open journal; nobody else can open it until it is closed. Usable in `with`."""

    def __init__(self, path: Path, file: int, results: Sequence[GameResult]) -> None:
        self.path = path
        self.results = results
        """What was known when it was opened."""
        self._file = file
        self._closed = False
        self._lock = threading.Lock()

    @classmethod
    def open(cls, directory: Path, terms: Mapping[str, object]) -> Self:
        """Open the journal of a directory, or begin one there; the directory is made if it is missing.

        Raises `RunDirectoryError` when it is in use, cannot be read, or was begun under other terms; it names which.
        `OSError` when the disk refuses.
        """
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / FILE
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock(file, path)
            results = _load(file, path, terms)
            sync_directory(directory)
        except BaseException:
            os.close(file)
            raise
        return cls(path, file, results)

    def append(self, results: Sequence[GameResult]) -> None:
        """Add results; they are on disk when this returns. Raises `OSError` when the disk refuses. For one thread at a time."""
        lines = b"".join(_RESULT.dump_json(result) + b"\n" for result in results)
        with self._lock:
            if self._closed:  # whoever asked was cancelled before this thread began
                return
            _write(self._file, lines)
        crash_point("tournament_after_results")

    def close(self) -> None:
        """Give the journal back, after results that are being added. Calling it twice is harmless."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


def _lock(file: int, path: Path) -> None:
    if not try_lock(file):
        raise RunDirectoryError(f"{path.parent} is in use by another tournament; wait for its end, or name another --dir")


def _load(file: int, path: Path, terms: Mapping[str, object]) -> list[GameResult]:
    """Read the lines that are whole, cut off what is not, and write the header of a new journal."""
    content = os.pread(file, os.fstat(file).st_size, 0)
    whole = whole_lines(content)
    os.ftruncate(file, len(whole))
    os.lseek(file, 0, os.SEEK_END)
    lines = whole.splitlines()
    if not lines:
        _write(file, json.dumps({"journal": SCHEMA, "terms": terms}).encode() + b"\n")
        return []
    _require_same(lines[0], terms, path)
    return [_result(line, number, path) for number, line in enumerate(lines[1:], start=2)]


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


def _result(line: bytes, number: int, path: Path) -> GameResult:
    try:
        return _RESULT.validate_json(line)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise RunDirectoryError(
            f"{path} line {number} cannot be read ({fault['msg']}); remove that line to play its game again"
        ) from error


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _write(file: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]
    os.fsync(file)
