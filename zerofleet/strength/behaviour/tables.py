"""Tables of figures with 95 % intervals, as CSV and as plain values."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from pydantic import TypeAdapter

from zerofleet.strength.learning.curves import t_interval
from zerofleet.strength.ratings import share_interval, wilson

__all__ = [
    "BehaviourTable",
    "Cell",
    "Column",
    "Measured",
    "as_csv",
    "as_json",
    "as_stored",
    "count_of",
    "mean_of",
    "read_stored",
    "score_of",
    "share_of",
]


@dataclass(frozen=True, slots=True)
class Measured:
    """Figure with its 95 % interval; without one if a single game gives it."""

    value: float
    low: float | None = None
    high: float | None = None


Cell: TypeAlias = Measured | float | int | str | None


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table."""

    key: str
    """Name in CSV and JSON, such as `card_played`."""
    label: str
    """Heading in text and pictures."""
    unit: str = ""
    """Unit of the numbers, such as `%`; empty for counts and text."""
    digits: int = 1
    """Decimals in text."""


@dataclass(frozen=True, slots=True)
class BehaviourTable:
    """Table of behaviour."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    games: int
    kind: Literal["curve", "bars"] = "bars"
    """Picture: curves over the first numeric column, or a bar for each row."""
    notes: tuple[str, ...] = ()
    """Remarks below the table."""


_STORED: TypeAdapter[BehaviourTable] = TypeAdapter(BehaviourTable)


def mean_of(amounts: Sequence[float]) -> Measured:
    """Return the mean of independent amounts, 0 or more, one for each game, with Student's interval."""
    if len(amounts) < 2:
        return Measured(float(amounts[0]))
    low, high = t_interval(amounts)
    return Measured(float(np.mean(amounts)), max(0.0, low), high)


def share_of(shares: Sequence[float]) -> Measured:
    """Return the mean of shares in [0, 1], one for each game, in per cent, with the likelihood-ratio interval (Owen 1988)."""
    low, high = share_interval(np.asarray(shares, dtype=np.float64))
    return Measured(100.0 * float(np.mean(shares)), 100.0 * low, 100.0 * high)


def score_of(scores: Sequence[float], *, times: float = 1.0) -> Measured:
    """Return the mean of scores in [-1, 1], one for each game, times a factor, with the interval of `share_of`."""
    points = np.asarray([(score + 1.0) / 2.0 for score in scores], dtype=np.float64)
    ends = float(points.mean()), *share_interval(np.clip(points, 0.0, 1.0))
    return Measured(*(times * (2.0 * end - 1.0) for end in ends))


def count_of(count: int, total: int) -> Measured:
    """Return a count of independent games as a share of all, in per cent, with Wilson's interval."""
    low, high = wilson(count, total)
    return Measured(100.0 * count / total, 100.0 * low, 100.0 * high)


def as_csv(table: BehaviourTable) -> str:
    """Return a header and a line for each row; a measured column has three: value, and its limits `_low` and `_high`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    wide = [any(isinstance(row[i], Measured) for row in table.rows) for i in range(len(table.columns))]
    names: list[str] = []
    for column, is_wide in zip(table.columns, wide, strict=True):
        names += [column.key, f"{column.key}_low", f"{column.key}_high"] if is_wide else [column.key]
    writer.writerow(names)
    for row in table.rows:
        written: list[str] = []
        for cell, is_wide in zip(row, wide, strict=True):
            ends = (cell.value, cell.low, cell.high) if isinstance(cell, Measured) else (cell, None, None)
            written += [_written(end) for end in (ends if is_wide else ends[:1])]
        writer.writerow(written)
    return text.getvalue()


def _written(cell: float | int | str | None) -> str:
    return "" if cell is None else f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def as_json(table: BehaviourTable) -> dict[str, Any]:
    """Return the table as plain values; a measured cell has `value`, `low` and `high`."""
    return {
        "table": table.name,
        "title": table.title,
        "games": table.games,
        "columns": [{"key": c.key, "label": c.label, "unit": c.unit} for c in table.columns],
        "rows": [{column.key: _plain(cell) for column, cell in zip(table.columns, row, strict=True)} for row in table.rows],
        "notes": list(table.notes),
    }


def as_stored(table: BehaviourTable) -> dict[str, Any]:
    """Return the whole table as plain values, for `read_stored`."""
    return dict(_STORED.dump_python(table, mode="json"))


def read_stored(fields: Mapping[str, Any]) -> BehaviourTable:
    """Return the table that `as_stored` wrote; raises `ValueError` for anything else."""
    return _STORED.validate_python(fields)


def _plain(cell: Cell) -> object:
    if isinstance(cell, Measured):
        return {"value": cell.value, "low": cell.low, "high": cell.high}
    return cell
