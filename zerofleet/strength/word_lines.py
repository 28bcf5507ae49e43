"""Text files of one entry a line, in words between blanks and commas; `#` begins a comment."""

from __future__ import annotations

from pathlib import Path

from zerofleet.errors import InvalidRequest

__all__ = ["read_words"]


def read_words(path: Path, *, what: str) -> list[tuple[int, list[str]]]:
    """Return the number and the words of each line that has any; raises `InvalidRequest`, with `what` the file should hold."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidRequest(f"{what} cannot be read from {path}: {reason}") from error
    words_of = ((number, line.partition("#")[0].replace(",", " ").split()) for number, line in enumerate(lines, start=1))
    return [(number, words) for number, words in words_of if words]
