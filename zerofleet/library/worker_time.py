"""Times of workers' clocks, which are not validated."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["time_of"]


def time_of(milliseconds: int) -> datetime | None:
    """Return the time of a record, in milliseconds since 1970; None if it is no time."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return None
