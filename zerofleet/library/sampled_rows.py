"""Rows of a growing file of JSON lines as columns: all of a small file, and of a large one blocks at even distances.

    rows = RowFile(run / "metrics" / "run.jsonl", row_of)
    rows.read().columns["step"]

A chart has some thousand points, and a run of weeks has a hundred thousand rows. A block holds as many rows as a figure over a
period needs, so that the figures at the ends of the blocks are those of the whole file. A further read parses what is new; time
and memory are bounded, whatever the size of the file.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from pydantic_core import from_json

from zerofleet.contracts.plain_files import open_plain
from zerofleet.storage.files import whole_lines

__all__ = ["BLOCK_ROWS", "MOST_BLOCKS", "WHOLE_BYTES", "RowFile", "Rows"]

WHOLE_BYTES = 16 << 20
"""Size up to which every row is read: some ten thousand."""
MOST_BLOCKS = 1500
BLOCK_ROWS = 7
TAIL_ROWS = 64
_CHUNK_BYTES = 4 << 20
_BLOCK_BYTES = 16 << 10  # of a first look, which finds a whole block unless its lines are very long
_MOST_BLOCK_BYTES = 1 << 20
_TAIL_BYTES = 256 << 10
_KNOWN_BYTES = 512  # compared before a file is read on: one that was written anew has others there


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns of equal length, oldest row first."""

    columns: dict[str, np.ndarray]
    """By name, float64 each; nan where a row has no number."""
    kept: np.ndarray
    """Indices of the rows that stand for the file, int64, ascending: all rows, or the last of each block and of the file."""
    damaged: int
    """Number of lines that are no row and were left out, among those that were read."""


@dataclass(slots=True)
class _Part:
    """Consecutive rows."""

    offsets: np.ndarray  # int64 [rows]: of the lines in the file
    values: np.ndarray  # float64 [rows, columns]: the columns that were known when the rows were read
    damaged: int


@dataclass(slots=True)
class _State:
    """Parts of a file that were read."""

    identity: tuple[int, int] = (0, 0)
    end: int = 0  # of the whole lines
    known: bytes = b""  # the last ones before the end
    stride: int = 0  # bytes between the beginnings of blocks; 0 where the whole is read
    parts: dict[int, _Part] = field(default_factory=dict)  # by the offset from which they were looked for
    places: dict[str, int] = field(default_factory=dict)  # of the columns


class RowFile:
    """Reader of one file; a missing file has no rows. For one thread at a time."""

    def __init__(
        self,
        path: Path,
        row_of: Callable[[dict[str, Any]], dict[str, Any]],
        *,
        whole_bytes: float = WHOLE_BYTES,
        most_blocks: int = MOST_BLOCKS,
    ) -> None:
        """Create it without file access; `row_of` returns the row of a line, or raises `ValueError` or `TypeError`."""
        self._path = path
        self._row_of = row_of
        self._whole_bytes = whole_bytes
        self._most_blocks = most_blocks
        self._state = _State()

    def read(self) -> Rows:
        """Return the present rows. Raises `OSError` for anything but a regular file."""
        try:
            descriptor = open_plain(self._path)
        except FileNotFoundError:
            self._state = _State()
            return self._rows(None)
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            identity = (about.st_dev, about.st_ino)
            is_whole = about.st_size <= self._whole_bytes
            if (
                identity != self._state.identity
                or is_whole != (not self._state.stride)
                or not self._is_continued(file, about.st_size)
            ):
                self._state = _State(identity)
            if is_whole:
                self._read_on(file)
                return self._rows(None)
            self._read_blocks(file, about.st_size)
            return self._rows(self._tail(file, about.st_size))

    def _is_continued(self, file: IO[bytes], size_bytes: int) -> bool:
        """Return whether the file begins with what was read, by the bytes before its end."""
        known = self._state.known
        if size_bytes < self._state.end:
            return False
        file.seek(self._state.end - len(known))
        return file.read(len(known)) == known

    def _read_on(self, file: IO[bytes]) -> None:
        """Read the lines that were added."""
        state, rest = self._state, b""
        file.seek(state.end)
        while content := file.read(_CHUNK_BYTES):
            content = rest + content
            whole = whole_lines(content)
            rest = content[len(whole) :]
            if whole:
                state.parts[state.end] = self._part(whole, state.end)
                state.end, state.known = state.end + len(whole), whole[-_KNOWN_BYTES:]

    def _read_blocks(self, file: IO[bytes], size_bytes: int) -> None:
        """Read the blocks that were not read yet; of twice as large a file every second one is kept."""
        state = self._state
        stride = 1 << math.ceil(math.log2(size_bytes / self._most_blocks))
        if stride != state.stride:
            state.parts = {offset: part for offset, part in state.parts.items() if offset % stride == 0}
        state.stride = stride
        for offset in range(0, size_bytes, stride):
            if offset not in state.parts and (part := self._block(file, offset)) is not None:
                state.parts[offset] = part

    def _block(self, file: IO[bytes], offset: int) -> _Part | None:
        """Return the first whole lines from an offset on, none where they are too long; None while the file ends before."""
        length = _BLOCK_BYTES
        while length <= _MOST_BLOCK_BYTES:
            file.seek(max(0, offset - 1))
            content = file.read(length)
            begins = content.find(b"\n") + 1 if offset else 0
            end = begins
            for _ in range(BLOCK_ROWS):
                end = content.find(b"\n", end) + 1
                if not end:
                    break
            if end and (begins or not offset):
                return self._part(content[begins:end], max(0, offset - 1) + begins)
            if len(content) < length:
                return None
            length *= 4
        return self._part(b"", offset)

    def _tail(self, file: IO[bytes], size_bytes: int) -> _Part:
        """Return the last lines, from where the file is read on."""
        begins = max(0, size_bytes - _TAIL_BYTES)
        file.seek(begins)
        content = whole_lines(file.read(_TAIL_BYTES))
        self._state.end, self._state.known = begins + len(content), content[-_KNOWN_BYTES:]
        starts = np.flatnonzero(np.frombuffer(content, np.uint8) == ord("\n"))[-TAIL_ROWS - 1 : -1] + 1
        first = int(starts[0]) if len(starts) else len(content)
        return self._part(content[first:], begins + first)

    def _part(self, lines: bytes, offset: int) -> _Part:
        """Parse lines that begin at an offset of the file."""
        places, rows, offsets, damaged = self._state.places, [], [], 0
        for line in lines.splitlines(keepends=True):
            try:
                row = self._row_of(from_json(line))
            except (ValueError, AttributeError, TypeError, RecursionError):  # no JSON, no object, no time
                damaged += 1
            else:
                for name in row:
                    places.setdefault(name, len(places))
                rows.append(row)
                offsets.append(offset)
            offset += len(line)
        values = np.full((len(rows), len(places)), np.nan)
        for place, row in enumerate(rows):
            for name, value in row.items():
                values[place, places[name]] = _number(value)
        return _Part(np.array(offsets, dtype=np.int64), values, damaged)

    def _rows(self, tail: _Part | None) -> Rows:
        """Return the rows of all parts; those of two parts are there once."""
        state = self._state
        parts = [state.parts[offset] for offset in sorted(state.parts)]
        last = [] if tail is None else [int(part.offsets[-1]) for part in (*parts, tail) if len(part.offsets)]
        parts += [] if tail is None else [tail]
        values = np.full((sum(len(part.values) for part in parts), len(state.places)), np.nan)
        row = 0
        for part in parts:
            values[row : row + len(part.values), : part.values.shape[1]] = part.values
            row += len(part.values)
        kept = np.arange(len(values))
        if tail is not None:
            offsets, first = np.unique(np.concatenate([part.offsets for part in parts]), return_index=True)
            values, kept = values[first], np.unique(np.searchsorted(offsets, last))
        elif len(parts) > 1:
            self._merge(parts, values)
        columns = {name: np.ascontiguousarray(values[:, place]) for name, place in state.places.items()}
        return Rows(columns, kept, sum(part.damaged for part in parts))

    def _merge(self, parts: list[_Part], values: np.ndarray) -> None:
        """Replace the parts of a whole file by one."""
        offsets = np.concatenate([part.offsets for part in parts])
        self._state.parts = {0: _Part(offsets, values, sum(part.damaged for part in parts))}


def _number(value: object) -> float:
    try:
        return float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:  # an integer of more than 308 digits
        return math.nan
