"""Tables of behaviour as headings and rows of text, for terminals and pages alike."""

from __future__ import annotations

from typing import NamedTuple

from zerofleet.strength.behaviour.tables import BehaviourTable, Cell, Column, Measured

__all__ = ["Heading", "headings", "text_rows"]


class Heading(NamedTuple):
    """Heading of a column of text."""

    text: str
    numeric: bool


def headings(found: BehaviourTable) -> list[Heading]:
    """Return the headings: a column of figures has its 95 % intervals beside it."""
    shown = []
    for place, column in enumerate(found.columns):
        heading = f"{column.label} ({column.unit})" if column.unit else column.label
        if _is_wide(found, place):
            shown += [Heading(heading, numeric=True), Heading("95 %", numeric=True)]
        else:
            shown.append(Heading(heading, all(isinstance(row[place], int | float | None) for row in found.rows)))
    return shown


def text_rows(found: BehaviourTable) -> list[list[str]]:
    """Return the rows, with a text for each heading."""
    wide = [_is_wide(found, place) for place in range(len(found.columns))]
    return [
        [text for column, cell, is_wide in zip(found.columns, row, wide, strict=True) for text in _cells(column, cell, is_wide)]
        for row in found.rows
    ]


def _is_wide(found: BehaviourTable, place: int) -> bool:
    return any(isinstance(row[place], Measured) for row in found.rows)


def _cells(column: Column, cell: Cell, is_wide: bool) -> list[str]:
    """Return the text of a cell, and of its interval where the column has any."""
    digits = column.digits
    if isinstance(cell, Measured):
        interval = "" if cell.low is None or cell.high is None else f"{cell.low:.{digits}f} to {cell.high:.{digits}f}"
        return [f"{cell.value:.{digits}f}", interval]
    if cell is None:
        text = ""
    elif isinstance(cell, float):
        text = f"{cell:.{digits}f}"
    else:
        text = f"{cell:,}" if isinstance(cell, int) and column.key == "games" else str(cell)
    return [text, ""] if is_wide else [text]
