"""Formatting of numbers for people: grouped, with units, and a dash for unknown values."""

from __future__ import annotations

import math
from collections.abc import Sequence

from zerofleet.contracts.promotions import Rung

__all__ = [
    "UNKNOWN",
    "clock",
    "compact",
    "count",
    "decimals",
    "duration",
    "memory",
    "milliseconds",
    "rating",
    "share",
    "size",
    "sparkline",
]

UNKNOWN = "\N{EN DASH}"
_BLOCKS = "▁▂▃▄▅▆▇█"


def count(number: int) -> str:
    """Return a grouped integer: `12,345`."""
    return f"{number:,}"


def compact(number: float) -> str:
    """Return three digits and a letter: `842`, `18.2 k`, `3.41 M`."""
    if math.isnan(number):
        return UNKNOWN
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= size:
            scaled = number / size
            return f"{scaled:.{0 if scaled >= 100 else 1 if scaled >= 10 else 2}f}{letter}"
    return f"{number:.0f}" if abs(number) >= 100 or number == int(number) else f"{number:.1f}"


def decimals(number: float, places: int) -> str:
    """Return a number with this many decimal places."""
    return UNKNOWN if math.isnan(number) else f"{number:.{places}f}"


def share(part: float) -> str:
    """Return a share in [0, 1] as `31 %`."""
    return UNKNOWN if math.isnan(part) else f"{100 * part:.0f} %"


def clock(seconds: float) -> str:
    """Return `4:07` or `1:04:07`."""
    whole = max(0, int(seconds))
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def duration(seconds: float) -> str:
    """Return the largest fitting unit: `42 s`, `7 min`, `3.5 h`."""
    if math.isnan(seconds):
        return UNKNOWN
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def memory(size_bytes: int) -> str:
    """Return a size in MiB, or GiB above 1000 MiB; 0 is unknown."""
    return size(size_bytes) if size_bytes else UNKNOWN


def size(size_bytes: int) -> str:
    """Return a known size, also 0, in MiB, or GiB above 1000 MiB."""
    mebibytes = size_bytes / (1 << 20)
    return f"{mebibytes:.0f} MiB" if mebibytes < 1000 else f"{mebibytes / 1024:.1f} GiB"


def milliseconds(seconds: float) -> str:
    """Return a duration in milliseconds: `42 ms`."""
    return UNKNOWN if math.isnan(seconds) else f"{seconds * 1000:.0f} ms"


def rating(rung: Rung) -> str:
    """Return a rating with its 95 % interval, `812 Elo, 770 to 850`, or `not anchored` without games that link it to 0."""
    return f"{rung.elo:.0f} Elo, {rung.elo_low:.0f} to {rung.elo_high:.0f}" if rung.anchored else "not anchored"


def sparkline(values: Sequence[float], cells: int) -> str:
    """Draw values as a line of blocks, the newest at the right; at most `cells` wide."""
    known = [value for value in values if math.isfinite(value)][-cells:]
    if len(known) < 2:
        return ""
    low, high = min(known), max(known)
    if high == low:
        return _BLOCKS[0] * len(known)
    return "".join(_BLOCKS[round((value - low) / (high - low) * (len(_BLOCKS) - 1))] for value in known)
