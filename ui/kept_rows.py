"""Rows of stopped runs in a cache directory, so that pages that start again show them without opening the runs.

A row counts while the files from which it was made have the same identity, size and time.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pydantic
import structlog

from zerofleet.library.cache_files import cache_name, read_cached, write_cached
from zerofleet.library.run_files import Signature
from zerofleet.library.run_list import RunRow

__all__ = ["KeptRows", "Rows"]

Rows = dict[str, tuple[Signature, RunRow]]
FORMAT = 2
KEY = f"rows {FORMAT}"

_ROWS = pydantic.TypeAdapter(Rows)

log = structlog.get_logger()


class KeptRows:
    """Rows of a folder of runs by name, each with the signature of its files. For one thread at a time."""

    def __init__(self, cache: Path | None, folder: Path) -> None:
        """Create it without file access; `cache`: directory of the rows, None for none."""
        self._path = None if cache is None else cache / cache_name(f"rows {folder.absolute()}")
        self._kept: Rows | None = None

    def load(self) -> Rows:
        """Return the rows that were kept."""
        content = None if self._path is None else read_cached(self._path, KEY)
        self._kept = {}
        if content is not None:
            try:
                self._kept = _ROWS.validate_json(content)
            except pydantic.ValidationError as error:  # of a build of this release with other fields
                log.warning("cache.not_read", path=str(self._path), error=str(error))
        return dict(self._kept)

    def save(self, rows: Mapping[str, tuple[Signature, RunRow]]) -> None:
        """Keep the rows of stopped runs where they have changed."""
        stopped = {name: (signature, row) for name, (signature, row) in rows.items() if not row.is_alive}
        if self._path is not None and stopped != self._kept:
            self._kept = stopped
            write_cached(self._path, KEY, _ROWS.dump_json(stopped))
