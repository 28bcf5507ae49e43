"""Times of records, manifests and promotions, which store milliseconds since 1970 UTC; 0 is an unknown time."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["time_of", "time_text"]


def time_of(milliseconds: int) -> datetime | None:
    """Return a stored time; None for 0 and for what is no time, since the clocks of workers are not validated."""
    if not milliseconds:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return None


def time_text(milliseconds: int) -> str | None:
    """Return a stored time in ISO 8601 with zone, in whole seconds; None as in `time_of`."""
    time = time_of(milliseconds)
    return None if time is None else time.isoformat(timespec="seconds")
