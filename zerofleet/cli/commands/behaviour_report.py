"""Tables of behaviour on a terminal."""

from __future__ import annotations

from zerofleet.cli import screen
from zerofleet.strength.behaviour.tables import BehaviourTable, Cell, Column, Measured

__all__ = ["show_behaviour"]


def show_behaviour(found: BehaviourTable) -> None:
    """Print a table: a column of figures has its 95 % intervals beside it."""
    shown = []
    for place, column in enumerate(found.columns):
        heading = f"{column.label} ({column.unit})" if column.unit else column.label
        if any(isinstance(row[place], Measured) for row in found.rows):
            shown += [f">{heading}", ">95 %"]
        else:
            numeric = all(isinstance(row[place], int | float | None) for row in found.rows)
            shown.append(f">{heading}" if numeric else heading)
    rows = screen.table(*shown, title=f"{found.title}, {found.games:,} games")
    for row in found.rows:
        cells: list[str] = []
        for place, (column, cell) in enumerate(zip(found.columns, row, strict=True)):
            cells += _cells(column, cell, wide=any(isinstance(other[place], Measured) for other in found.rows))
        rows.add_row(*cells)
    screen.out().print(rows)
    for note in found.notes:
        screen.out().print(note, markup=False)


def _cells(column: Column, cell: Cell, *, wide: bool) -> list[str]:
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
    return [text, ""] if wide else [text]
