"""Address of a game stream in a file of SQLite: `sqlite:///relative/file.db` or `sqlite:////absolute/file.db`.

In the path `%`, `?` and `#` are written as `%25`, `%3F` and `%23`.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

__all__ = ["addressed_file", "sqlite_address"]

_BEGIN = "sqlite:///"


def sqlite_address(path: Path) -> str:
    """Return the address of a file."""
    return _BEGIN + quote(os.fsencode(path))


def addressed_file(address: str) -> Path | None:
    """Return the file of an address, whose query does not count; None for another address."""
    path = address.partition("?")[0].removeprefix(_BEGIN)
    return Path(os.fsdecode(unquote_to_bytes(path))) if path and address.startswith(_BEGIN) else None
