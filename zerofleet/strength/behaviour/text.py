"""Tables of behaviour as headings and rows of text, for terminals and pages alike."""

from __future__ import annotations

from typing import NamedTuple

from zerofleet.strength.behaviour.tables import BehaviourTable, Cell, Column, Measured

__all__ = ["CellText", "Heading", "cell_rows", "column_headings", "headings", "text_rows"]


class Heading(NamedTuple):
    """Heading of a column of text."""

    text: str
    numeric: bool


class CellText(NamedTuple):
    """Text of a cell, and of its 95 % interval if it has one."""

    text: str
    interval: str = ""


def column_headings(found: BehaviourTable) -> list[Heading]:
    """Return the heading of each column, for rows as of `cell_rows`."""
    return [
        Heading(
            f"{column.label} ({column.unit})" if column.unit else column.label,
            all(isinstance(row[place], int | float | Measured | None) for row in found.rows),
        )
        for place, column in enumerate(found.columns)
    ]


def cell_rows(found: BehaviourTable) -> list[list[CellText]]:
    """Return the rows, with a text for each column."""
    return [[_cell_text(column, cell) for column, cell in zip(found.columns, row, strict=True)] for row in found.rows]


def headings(found: BehaviourTable) -> list[Heading]:
    """Return the headings for rows as of `text_rows`: intervals have a column of their own, beside that of their figures."""
    shown = []
    for place, heading in enumerate(column_headings(found)):
        shown.append(heading)
        if _is_wide(found, place):
            shown.append(Heading("95 %", numeric=True))
    return shown


def text_rows(found: BehaviourTable) -> list[list[str]]:
    """Return the rows, with a text for each of `headings`."""
    wide = [_is_wide(found, place) for place in range(len(found.columns))]
    return [
        [text for cell, is_wide in zip(row, wide, strict=True) for text in (cell if is_wide else cell[:1])]
        for row in cell_rows(found)
    ]


def _is_wide(found: BehaviourTable, place: int) -> bool:
    return any(isinstance(row[place], Measured) for row in found.rows)


def _cell_text(column: Column, cell: Cell) -> CellText:
    digits = column.digits
    if isinstance(cell, Measured):
        interval = "" if cell.low is None or cell.high is None else f"{cell.low:.{digits}f} to {cell.high:.{digits}f}"
        return CellText(f"{cell.value:.{digits}f}", interval)
    if cell is None:
        return CellText("")
    if isinstance(cell, float):
        return CellText(f"{cell:.{digits}f}")
    return CellText(f"{cell:,}" if isinstance(cell, int) and column.key == "games" else str(cell))
