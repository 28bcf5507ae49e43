"""Place of an announce file, which distinguishes the file of a service from a copy of it."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["announce_place"]


def announce_place(path: Path) -> str:
    """Return the absolute path without links of an announce file; invalid UTF-8 in it is escaped. Raises `OSError`."""
    return os.fsencode(path.resolve()).decode(errors="backslashreplace")
