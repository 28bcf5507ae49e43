"""Parts of a page: panels side by side, figures with notes, tables.

Labels are dim, values plain, and colour has three meanings: good (green), attention (yellow), error (red).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich import box
from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

__all__ = ["ACCENT", "GOOD", "LABEL", "LOOK", "WRONG", "Figure", "beside", "empty_table", "figures_panel", "framed"]

LABEL, GOOD, LOOK, WRONG, ACCENT = "bright_black", "green", "yellow", "red", "cyan"


class Figure(NamedTuple):
    """Line of a panel."""

    label: str
    value: str
    note: str | Text


def beside(panels: Sequence[RenderableType], ratios: Sequence[int]) -> RenderableType:
    """Return panels in one row, with widths in these proportions."""
    grid = Table.grid(expand=True)
    for ratio in ratios:
        grid.add_column(ratio=ratio)
    grid.add_row(*panels)
    return grid


def framed(title: str, body: RenderableType, *, height: int | None = None, subtitle: str = "") -> Panel:
    """Return a panel with a title above and a subtitle below."""
    return Panel(
        body,
        title=Text(title, style="bold"),
        title_align="left",
        subtitle=Text(subtitle, style=LABEL) if subtitle else None,
        subtitle_align="right",
        border_style=LABEL,
        box=box.ROUNDED,
        height=height,
    )


def figures_panel(title: str, rows: Sequence[Figure], full: bool) -> Panel:
    """Return a panel of labels, right-aligned values and, if there is room, notes."""
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(style=LABEL, no_wrap=True, ratio=None if full else 1, overflow="ellipsis")
    grid.add_column(justify="right", no_wrap=True, min_width=6)
    if full:
        grid.add_column(style=LABEL, no_wrap=True, ratio=1, overflow="ellipsis")
    for row in rows:
        grid.add_row(*row[: 3 if full else 2])
    return framed(title, grid)


def empty_table(*columns: str) -> Table:
    """Return an empty table; `>` before a column's name aligns it to the right."""
    made = Table(box=None, expand=True, padding=(0, 1, 0, 0), pad_edge=False, header_style=LABEL)
    for column in columns:
        right = column.startswith(">")
        made.add_column(column.removeprefix(">"), justify="right" if right else "left", no_wrap=True, overflow="ellipsis")
    return made
