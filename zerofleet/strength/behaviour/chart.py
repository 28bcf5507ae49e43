"""Pictures of tables of behaviour: a panel for each measured column, with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zerofleet.errors import InvalidRequest
from zerofleet.storage.files import atomic_publish
from zerofleet.strength.behaviour.tables import BehaviourTable, Column, Measured
from zerofleet.strength.charts import FAINT, INK, LABEL_POINTS, LETTER_IN, LINES, drawn_figure, finish_axes, require_drawable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["behaviour_chart", "behaviour_picture"]

_VERSION = "version"
_WIDTH_IN, _HEIGHT_IN, _GAP_IN, _MARGIN_IN, _BELOW_IN, _ABOVE_IN = 2.9, 2.3, 0.75, 0.65, 0.6, 0.85
_PANELS_ABREAST = 3
_ROW_IN = 0.24
_FEWEST_ROWS_IN = 1.0
_LONGEST_LABEL = 44  # letters


def behaviour_chart(table: BehaviourTable, path: Path) -> None:
    """Draw a table as SVG or PNG, by the name of the file.

    Raises `InvalidRequest` for another format, and the errors of `behaviour_picture`; `OSError` if the file cannot be written.
    """
    require_drawable(path)
    atomic_publish(path, behaviour_picture(table, kind=path.suffix.lower().removeprefix(".")))


def behaviour_picture(table: BehaviourTable, *, kind: str) -> bytes:
    """Return the picture of a table as `svg` or `png`. Raises `InvalidRequest` without measured figures."""
    measured = [i for i in range(len(table.columns)) if any(isinstance(row[i], Measured) for row in table.rows)]
    if not measured:
        raise InvalidRequest("nothing to draw: the table has no measured figures")
    abreast = min(len(measured), _PANELS_ABREAST)
    lines = -(-len(measured) // abreast)
    labels = [] if table.kind == "curve" else _labels(table, measured[0])
    left = _MARGIN_IN if table.kind == "curve" else 0.25 + LETTER_IN * max(map(len, labels))
    height = _HEIGHT_IN if table.kind == "curve" else max(_FEWEST_ROWS_IN, _ROW_IN * len(table.rows))
    width = left + abreast * (_WIDTH_IN + _GAP_IN)
    total = _ABOVE_IN + lines * (height + _BELOW_IN)
    with drawn_figure(width, total, kind=kind) as (figure, drawn):
        text = f"{table.title}, {table.games:,} games"
        figure.text(0.12 / width, 1.0 - 0.25 / total, text, fontsize=11.0, color=INK, va="center")
        for number, column in enumerate(measured):
            row, place = divmod(number, abreast)
            box_left, box_bottom = left + place * (_WIDTH_IN + _GAP_IN), total - _ABOVE_IN - row * (height + _BELOW_IN) - height
            axes = figure.add_axes((box_left / width, box_bottom / total, _WIDTH_IN / width, height / total))
            if table.kind == "curve":
                _curves(axes, table, column)
            else:
                _bars(axes, table, column, labels if place == 0 else [""] * len(labels))
            finish_axes(axes, _heading(table.columns[column]), size=LABEL_POINTS)
    return drawn.getvalue()


def _curves(axes: Axes, table: BehaviourTable, column: int) -> None:
    """Draw a column over the first numeric one, a curve for each version."""
    has_versions = table.columns[0].key == _VERSION
    across = 1 if has_versions else 0
    versions = list(dict.fromkeys(row[0] for row in table.rows)) if has_versions else [None]
    for number, version in enumerate(versions):
        points = [
            (float(place), cell)
            for row in table.rows
            if (not has_versions or row[0] == version)
            and isinstance(cell := row[column], Measured)
            and isinstance(place := row[across], int | float)
        ]
        at, colour = [where for where, _ in points], LINES[number % len(LINES)]
        values = [cell.value for _, cell in points]
        axes.errorbar(at, values, yerr=_lengths([cell for _, cell in points]), fmt="none", ecolor=colour, elinewidth=0.9)
        label = f"version {version}" if has_versions else None
        axes.plot(at, values, "o-", color=colour, markersize=3.0, linewidth=1.3, label=label)
    axes.grid(visible=True, color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.set_xlabel(table.columns[across].label, fontsize=LABEL_POINTS, color=INK)
    if has_versions and len(versions) > 1:
        axes.legend(fontsize=LABEL_POINTS - 2.0, frameon=False)


def _bars(axes: Axes, table: BehaviourTable, column: int, labels: Sequence[str]) -> None:
    """Draw a column as horizontal bars, the first row on top."""
    places = list(range(len(table.rows)))
    cells = [cell if isinstance(cell := row[column], Measured) else Measured(math.nan) for row in table.rows]
    axes.barh(places, [cell.value for cell in cells], color=LINES[0], alpha=0.35, height=0.7)
    axes.errorbar([cell.value for cell in cells], places, xerr=_lengths(cells), fmt="none", ecolor=LINES[0], elinewidth=1.2)
    axes.set_yticks(places, labels)
    axes.set_ylim(len(places) - 0.4, -0.6)
    axes.axvline(0.0, color=INK, linewidth=0.6)
    axes.grid(visible=True, axis="x", color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)


def _labels(table: BehaviourTable, end: int) -> list[str]:
    """Return the names of the rows: the version, if there is one, and the first text before the measured columns."""
    texts = [i for i in range(end) if isinstance(table.rows[0][i], str)]
    shown = [i for i in range(end) if table.columns[i].key == _VERSION] + texts[:1]
    joined = [" · ".join(str(row[i]) for i in shown) for row in table.rows]
    return [name if len(name) <= _LONGEST_LABEL else name[: _LONGEST_LABEL - 1] + "…" for name in joined]


def _lengths(cells: Sequence[Measured]) -> list[list[float]]:
    """Return the lengths of the intervals below and above the values, [2, N]; 0 without an interval."""
    below = [0.0 if cell.low is None else max(0.0, cell.value - cell.low) for cell in cells]
    above = [0.0 if cell.high is None else max(0.0, cell.high - cell.value) for cell in cells]
    return [below, above]


def _heading(column: Column) -> str:
    return f"{column.label}, {column.unit}" if column.unit else column.label
