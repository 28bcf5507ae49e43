"""Append-only journals: a header and JSON lines in one file, each line durable before it counts.

A killed process leaves at most one partial last line. It was never reported as written: it is ignored, and the next line
replaces it. The same holds for a partial line left by a full disk.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from zerofleet.contracts.plain_files import NOT_A_STORED_FILE, open_plain
from zerofleet.errors import RunDirectoryError
from zerofleet.storage.files import atomic_publish, drop_unfinished, make_directory, sync_directory, try_lock, whole_lines

__all__ = ["Journal", "Mark"]

Line = TypeVar("Line")

_CHUNK_BYTES = 2 << 20
_KNOWN_BYTES = 512  # compared before a journal is read on: a rewritten one has others there


@dataclass(frozen=True, slots=True)
class Mark:
    """Place in a journal, with the content before it."""

    size_bytes: int
    lines: int
    """Number of lines before it, the header included."""
    digest: str
    """BLAKE2b of the bytes before it, in hex."""


class Journal(Generic[Line]):
    """File of lines of one type below a header. For one process and one thread at a time."""

    def __init__(
        self,
        path: Path,
        lines: TypeAdapter[Line],
        *,
        header: bytes,
        check_header: Callable[[bytes], None],
        remedy: str,
        sync: bool = True,
    ) -> None:
        """Create it without file access.

        Args:
            path: The file.
            lines: Serialises and validates lines.
            header: First line of a new file, without line end.
            check_header: Raises `RunDirectoryError` for the header of an incompatible file.
            remedy: Next step after a damaged line; ends the error message.
            sync: Sync to disk at each append, not only at `close`.
        """
        self.path = path
        self.dropped_bytes = 0
        """Size of the partial line found by the last `read`."""
        self._lines = lines
        self._header = header
        self._check_header = check_header
        self._remedy = remedy
        self._sync = sync
        self._size_bytes: int | None = None  # of the whole lines; None before the first read, and after a failed rewrite
        self._may_be_unnamed = False  # after a failed rewrite: a new file may have the name, and lose it with the power
        self._line_count = 0
        self._last = b""  # end of the whole lines that were read
        self._digest: hashlib.blake2b | None = None  # of the whole lines that `read_more` has read since a `rewind`
        self._locked: IO[bytes] | None = None

    def open(self, *, in_use: str) -> list[Line]:
        """Lock the file until `close`, write its header if missing or empty, and return its lines; see `read`.

        Raises `RunDirectoryError` with the text `in_use` when another process has locked it; `OSError` on a disk error.
        """
        make_directory(self.path.parent)
        self._locked = os.fdopen(self._open(os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab")
        try:
            if not try_lock(self._locked):
                raise RunDirectoryError(in_use)
            lines = self.read()
            if not self._size_bytes:
                self.append()
            sync_directory(self.path.parent)
        except BaseException:
            self._locked.close()
            raise
        return lines

    def read(self, is_wanted: Callable[[bytes], bool] = lambda text: True) -> list[Line]:
        """Return the lines below the header, oldest first; none for a missing file. Those that are not wanted are not parsed.

        Raises `RunDirectoryError` for a damaged line or anything but a regular file, and the errors of `check_header`.
        """
        return list(self.stream(is_wanted))

    def stream(self, is_wanted: Callable[[bytes], bool] = lambda text: True) -> Iterator[Line]:
        """Yield the lines that `read` returns, one in memory at a time; the file is read after the last one. Raises as it."""
        size_bytes, count, last, partial = 0, 0, b"", b""
        for line in self._texts():
            if not line.endswith(b"\n"):
                partial = line
                break
            size_bytes, count, last, text = size_bytes + len(line), count + 1, (last + line)[-_KNOWN_BYTES:], line[:-1]
            if count == 1:
                self._check_header(text)
            elif is_wanted(text):
                yield self.parse(text, count)
        self._size_bytes, self._line_count, self._last = size_bytes, count, last
        self._digest = None
        self.dropped_bytes = len(partial)

    @property
    def size_bytes(self) -> int:
        """Size of the whole lines, header included, as of the last read or write; 0 before."""
        return self._size_bytes or 0

    def rewind(self) -> None:
        """Let `read_more` begin at the first line."""
        self._size_bytes, self._line_count, self._last = 0, 0, b""
        self._digest = hashlib.blake2b()

    def mark(self) -> Mark | None:
        """Return the place up to which `read_more` has read; None before a `rewind`, and after another read or a write."""
        if self._digest is None or self._size_bytes is None:
            return None
        return Mark(self._size_bytes, self._line_count, self._digest.hexdigest())

    def resume(self, mark: Mark) -> bool:
        """Let `read_more` begin at a place, if the file has the same bytes before it; return whether it has.

        The bytes are hashed, not parsed; a rewritten, replaced or shortened file has others. Raises `RunDirectoryError`.
        """
        digest, at, last = hashlib.blake2b(), 0, b""
        while at < mark.size_bytes:
            content = self._content(at, min(_CHUNK_BYTES, mark.size_bytes - at))
            if not content:
                return False
            digest.update(content)
            at, last = at + len(content), (last + content)[-_KNOWN_BYTES:]
        if digest.hexdigest() != mark.digest:
            return False
        self._size_bytes, self._line_count, self._last, self._digest = mark.size_bytes, mark.lines, last, digest
        return True

    def read_more(self, most_bytes: int = _CHUNK_BYTES) -> list[Line] | None:
        """Return some of the lines since the last `rewind`, `read` or `read_more`; none at the end.

        None where the file was rewritten meanwhile, or not read yet: rewind it. At most `most_bytes` are read at a time, or one
        longer line. Raises as `read`. For readers.
        """
        if self._size_bytes is None:
            return None
        known = len(self._last)
        content = self._content(self._size_bytes - known, most_bytes + known)
        if content[:known] != self._last:
            return None
        if len(content) == most_bytes + known and b"\n" not in content[known:]:
            return self.read_more(2 * most_bytes)
        content = whole_lines(content)
        texts = content[known:].splitlines()
        if texts and not self._size_bytes:
            self._check_header(texts[0])
        first = 0 if self._size_bytes else 1  # after the header
        lines = [self.parse(text, number) for number, text in enumerate(texts[first:], start=self._line_count + first + 1)]
        self._size_bytes += len(content) - known
        if self._digest is not None:
            self._digest.update(content[known:])
        self._line_count, self._last = self._line_count + len(texts), content[-_KNOWN_BYTES:]
        return lines

    def _texts(self) -> Iterator[bytes]:
        """Yield the lines of the file with their ends; none for a missing file."""
        with suppress(FileNotFoundError), os.fdopen(self._open(os.O_RDONLY), "rb", buffering=_CHUNK_BYTES) as file:
            yield from file

    def _content(self, offset: int, size_bytes: int) -> bytes:
        """Return a part of the file from `offset` on; empty for a missing file."""
        try:
            with os.fdopen(self._open(os.O_RDONLY), "rb") as file:
                file.seek(offset)
                return file.read(size_bytes)
        except FileNotFoundError:
            return b""

    def append(self, *lines: Line) -> None:
        """Append lines to an existing file. On `OSError` nothing is added."""
        if self._may_be_unnamed:
            sync_directory(self.path.parent)
            self._may_be_unnamed = False
        if self._size_bytes is None:
            self.read()
        size_bytes = self._size_bytes or 0
        content = self._dump(lines, header=not size_bytes)
        descriptor = self._open(os.O_RDWR)  # without a buffer, whose rest a close after an error would write
        try:
            os.ftruncate(descriptor, size_bytes)
            written = 0
            while written < len(content):
                written += os.pwrite(descriptor, content[written:], size_bytes + written)
            if self._sync:
                os.fsync(descriptor)
        except OSError:  # the lines are not added: no reader, and no later start, may find some of them
            os.ftruncate(descriptor, size_bytes)
            raise
        finally:
            os.close(descriptor)
        self._size_bytes, self._digest = size_bytes + len(content), None

    def drop_unfinished(self) -> None:
        """Stop rewrites of other processes that have not replaced the file yet: they raise `OSError`."""
        drop_unfinished(self.path)

    def rewrite(self, lines: Iterable[Line], *, confirm: Callable[[], object] = lambda: None) -> None:
        """Replace the file atomically by the header and these lines; not for a locked file.

        Raises `OSError`, and what `confirm` raises: it is called before the file is replaced, as by `atomic_publish`. The next
        `append` goes on with the file that has the name then.
        """
        content = self._dump(lines, header=True)
        make_directory(self.path.parent)
        self._size_bytes, self._digest, self._may_be_unnamed = None, None, True
        atomic_publish(self.path, content, confirm=confirm)
        self._size_bytes, self._may_be_unnamed = len(content), False

    def close(self) -> None:
        """Sync and unlock the file; idempotent."""
        if self._locked is not None and not self._locked.closed:
            os.fsync(self._locked.fileno())
            self._locked.close()

    def parse(self, text: bytes, number: int = 1) -> Line:
        """Parse a line. Raises `RunDirectoryError` with the file and line number."""
        try:
            return self._lines.validate_json(text)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]["msg"]
            raise RunDirectoryError(f"{self.path} line {number} cannot be read ({fault}); {self._remedy}") from error

    def _open(self, flags: int) -> int:
        """Return a descriptor of the file. Raises `RunDirectoryError` for anything but a regular file, `OSError`."""
        try:
            return open_plain(self.path, flags)
        except OSError as error:
            if error.errno in NOT_A_STORED_FILE:
                raise RunDirectoryError(f"{self.path} cannot be opened ({error.strerror}); {self._remedy}") from error
            raise

    def _dump(self, lines: Iterable[Line], *, header: bool) -> bytes:
        texts = [self._header] if header else []
        return b"".join(text + b"\n" for text in [*texts, *map(self._lines.dump_json, lines)])
