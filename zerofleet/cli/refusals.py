"""Wording of refused command lines: what was wanted in plain words, and the name that was probably meant."""

from __future__ import annotations

import difflib
import os
import re
import sys
from pathlib import Path

__all__ = ["nearest_game", "plain_words", "text_of"]

_NUMBER = r"(-?[\d.]+)"
_PLAIN = (
    (r"Input should be a valid integer, unable to parse string as an integer", "want a whole number"),
    (r"Input should be a valid integer[^;]*", "want a whole number"),
    (r"Input should be a valid number[^;]*", "want a number"),
    (rf"Input should be greater than or equal to {_NUMBER}", r"want \1 or more"),
    (rf"Input should be less than or equal to {_NUMBER}", r"want \1 or less"),
    (rf"Input should be greater than {_NUMBER}", r"want more than \1"),
    (rf"Input should be less than {_NUMBER}", r"want less than \1"),
    (r"^(Option '[^']*') requires an argument\.$", r"\1 needs a value; --help lists the options with their values"),
)


def text_of(error: Exception) -> str:
    """Return the text of an error; of an operating system's with a file: the path and the reason, without its number."""
    if not isinstance(error, OSError) or error.filename is None or error.strerror is None or error.filename2 is not None:
        return str(error)
    path = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else None
    if path is not None and isinstance(error, FileNotFoundError) and not path.parent.exists():
        return f"{path}: there is no folder {path.parent}"
    return f"{error.filename}: {error.strerror}"


def plain_words(message: str) -> str:
    """Return an error message with the phrases of the option parser replaced by what was wanted."""
    for phrase, plain in _PLAIN:
        message = re.sub(phrase, plain, message)
    return message


def nearest_game(error: Exception) -> str | None:
    """Return the game that an unknown name resembles most; None for other errors, and for a name unlike any."""
    core, errors = sys.modules.get("games.core"), sys.modules.get("games.errors")
    if core is None or errors is None or not isinstance(error, errors.UnknownGame):
        return None
    asked = re.search(r"'([^']*)'", str(error))
    if asked is None or core.is_available(asked.group(1)):  # it exists, and cannot be loaded
        return None
    close = difflib.get_close_matches(asked.group(1), core.available(), n=1)
    return close[0] if close else None
