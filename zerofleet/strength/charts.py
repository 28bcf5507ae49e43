"""Charts of ratings, of the champions and the diagnostics of a run, and of learning; SVG or PNG by file name.

Drawn by matplotlib without a display and without pyplot's global state, hence usable from any one thread at a time. Equal
numbers give byte-identical SVG files, independent of time, process and installed fonts. matplotlib is imported with the first
chart.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zerofleet.errors import InvalidRequest
from zerofleet.storage.files import atomic_publish, require_place
from zerofleet.strength.learning.curves import Point
from zerofleet.strength.ratings import Rating

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "SUFFIXES",
    "CurvePanel",
    "LadderPoint",
    "drawn_figure",
    "figure_file",
    "finish_axes",
    "ladder_chart",
    "learning_chart",
    "panels_chart",
    "rating_chart",
    "require_drawable",
    "require_outputs",
]

SUFFIXES = (".svg", ".png")
"""File formats of a chart."""

DOTS_PER_INCH = 150
CHAMPION, RUNG, FAINT, INK = "#0b6e99", "#c0562b", "#d9dde1", "#2b2f33"  # distinct for colour-blind readers, and in greyscale
LINES = (CHAMPION, RUNG, "#5a7d2a", "#8a4f9e", "#a8862b", "#5b6570")  # of several curves
LABEL_POINTS = 9.0
LABEL_SPACING = 1.35  # distance between baselines, in label heights
MARGINS_IN = (0.3, 0.75, 0.55, 0.4)  # right, left, bottom, top; fixed, so that the layout depends on the numbers alone
LETTER_IN = 0.075  # width of an average letter of a label
PLOT_WIDTH_IN = 5.6
PLOT_HEIGHT_IN = 4.4
ROW_IN = 0.26
PANEL_COLUMNS = 3
PANEL_WIDTH_IN, PANEL_HEIGHT_IN, PANEL_GAP_IN = 2.7, 1.4, 0.6


@dataclass(frozen=True, slots=True)
class LadderPoint:
    """Champion on the curve."""

    at: float
    """Position on the horizontal axis: version, or hours since the start of the run."""
    rating: Rating


@dataclass(frozen=True, slots=True)
class CurvePanel:
    """Curve with a panel of its own."""

    title: str
    unit: str
    """Unit of the values; empty for none."""
    at: Sequence[float]
    values: Sequence[float]
    """Value at each place of `at`; nan where it is unknown."""


def require_drawable(path: Path) -> None:
    """Raise `InvalidRequest` unless the file name ends in .svg or .png and it can be written; checked before hours of play."""
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidRequest(f"{path} cannot be drawn: its name must end in {' or '.join(SUFFIXES)}")
    require_place(path)


def require_outputs(plot: Path | None, file: Path | None) -> None:
    """Raise `InvalidRequest` unless the chosen files, a plot and one of values, can be written; called before hours of play."""
    if plot is not None:
        require_drawable(plot)
    if file is not None:
        require_place(file)


def rating_chart(ratings: Sequence[Rating], *, title: str, path: Path) -> None:
    """Draw a dot and a 95 % interval for each player, strongest on top, with the numbers at the right.

    Raises `InvalidRequest` for a format other than SVG or PNG or without ratings; `OSError` if the file cannot be written.
    """
    require_drawable(path)
    if not ratings:
        raise InvalidRequest("nothing to draw: no player has been rated yet")
    ranked = sorted(ratings, key=lambda rating: (rating.elo, rating.name))
    numbers = [_numbers(rating) for rating in ranked]
    longest = max(len(rating.name) for rating in ranked)
    with _axes(path, height_in=ROW_IN * (len(ranked) + 0.4), left=longest, right=max(map(len, numbers))) as axes:
        for row, (rating, text) in enumerate(zip(ranked, numbers, strict=True)):
            colour = _colour(rating)
            axes.plot([rating.low, rating.high], [row, row], color=colour, linewidth=2.0, solid_capstyle="butt")
            axes.plot([rating.elo], [row], "o", color=colour, markersize=5.5)
            axes.text(1.02, row, text, transform=axes.get_yaxis_transform(), va="center", fontsize=LABEL_POINTS, color=INK)
        axes.set_yticks(range(len(ranked)), [rating.name for rating in ranked])
        axes.set_ylim(-0.7, len(ranked) - 0.3)
        axes.grid(visible=True, axis="x", color=FAINT, linewidth=0.7)
        axes.set_xlabel("Elo with 95 % interval")
        finish_axes(axes, title)


def ladder_chart(
    champions: Sequence[LadderPoint], rungs: Sequence[Rating], *, title: str, path: Path, x_label: str = "model version"
) -> None:
    """Draw the curve of the champions' Elo with its 95 % band, and a labelled line for each classical rung.

    Raises the errors of `rating_chart`.
    """
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415  (as in `_axes`)

    require_drawable(path)
    if not champions and not rungs:
        raise InvalidRequest("nothing to draw: no champion and no rung has been rated yet")
    points = sorted(champions, key=lambda point: point.at)
    names = [f"{rung.name}  {_elo(rung.elo)}" for rung in rungs]
    with _axes(path, height_in=PLOT_HEIGHT_IN, left=6, right=max(map(len, names), default=0)) as axes:
        at, elo = [point.at for point in points], [point.rating.elo for point in points]
        lows, highs = [point.rating.low for point in points], [point.rating.high for point in points]
        axes.fill_between(at, lows, highs, color=CHAMPION, alpha=0.18, linewidth=0.0)
        axes.errorbar(at, elo, yerr=_lengths(points), fmt="none", ecolor=CHAMPION, elinewidth=0.8, alpha=0.6)
        axes.plot(at, elo, "o-", color=CHAMPION, markersize=4.5, linewidth=1.6)
        for rung in rungs:
            axes.axhline(rung.elo, color=RUNG, linewidth=1.0, linestyle=(0, (5, 3)))
        axes.set_ylim(*_range([*elo, *lows, *highs, *(rung.elo for rung in rungs)]))
        axes.grid(visible=True, color=FAINT, linewidth=0.5)
        axes.set_axisbelow(True)
        axes.xaxis.set_major_locator(MaxNLocator(integer=all(float(place).is_integer() for place in at)))
        axes.set_xlabel(x_label)
        axes.set_ylabel("Elo with 95 % interval")
        _label_at_right(axes, [rung.elo for rung in rungs], names)
        finish_axes(axes, title)


def learning_chart(points: Sequence[Point], *, title: str, path: Path, x_label: str) -> None:
    """Draw the curve of each measure with its 95 % band, labelled at the right.

    Raises the errors of `rating_chart`.
    """
    require_drawable(path)
    if not points:
        raise InvalidRequest("nothing to draw: nothing has been judged yet")
    names = list(dict.fromkeys(point.name for point in points))
    with _axes(path, height_in=PLOT_HEIGHT_IN, left=6, right=max(map(len, names)) + 2) as axes:
        lasts = []
        for number, name in enumerate(names):
            here = [point for point in points if point.name == name]
            at, colour = [point.at for point in here], LINES[number % len(LINES)]
            axes.fill_between(
                at,
                [100 * point.low for point in here],
                [100 * point.high for point in here],
                color=colour,
                alpha=0.15,
                linewidth=0.0,
            )
            axes.plot(at, [100 * point.mean for point in here], "o-", color=colour, markersize=4.0, linewidth=1.6)
            lasts.append(100 * here[-1].mean)
        axes.grid(visible=True, color=FAINT, linewidth=0.5)
        axes.set_axisbelow(True)
        axes.set_xlabel(x_label)
        axes.set_ylabel("per cent with 95 % interval")
        _label_at_right(axes, lasts, names, colours=[LINES[number % len(LINES)] for number in range(len(names))])
        finish_axes(axes, title)


def panels_chart(panels: Sequence[CurvePanel], *, title: str, path: Path, x_label: str) -> None:
    """Draw each curve in a panel of its own, `PANEL_COLUMNS` side by side, over a common horizontal axis.

    Values that are nan interrupt a curve. Raises the errors of `rating_chart`.
    """
    require_drawable(path)
    if not panels:
        raise InvalidRequest("nothing to draw: there is no curve")
    rows = -(-len(panels) // PANEL_COLUMNS)
    width = MARGINS_IN[1] + PANEL_COLUMNS * (PANEL_WIDTH_IN + PANEL_GAP_IN)
    height = MARGINS_IN[2] + rows * (PANEL_HEIGHT_IN + PANEL_GAP_IN) + MARGINS_IN[3]
    with figure_file(path, width, height) as figure:
        figure.text(MARGINS_IN[1] / width, 1.0 - 0.3 / height, title, fontsize=11.0, color=INK, va="center")
        for number, panel in enumerate(panels):
            row, column = divmod(number, PANEL_COLUMNS)
            left = MARGINS_IN[1] + column * (PANEL_WIDTH_IN + PANEL_GAP_IN)
            bottom = height - MARGINS_IN[3] - (row + 1) * (PANEL_HEIGHT_IN + PANEL_GAP_IN) + 0.4 * PANEL_GAP_IN
            axes = figure.add_axes((left / width, bottom / height, PANEL_WIDTH_IN / width, PANEL_HEIGHT_IN / height))
            axes.plot(panel.at, panel.values, "-", marker="o", color=CHAMPION, markersize=2.5, linewidth=1.4, clip_on=False)
            axes.set_xlim(0.0, max(panel.at))
            axes.set_ylim(0.0, 1.1 * max((value for value in panel.values if math.isfinite(value)), default=0.0) or 1.0)
            axes.grid(visible=True, color=FAINT, linewidth=0.5)
            axes.set_axisbelow(True)
            finish_axes(axes, f"{panel.title}, {panel.unit}" if panel.unit else panel.title, size=LABEL_POINTS)
            if number + PANEL_COLUMNS >= len(panels):
                axes.set_xlabel(x_label, fontsize=LABEL_POINTS)


@contextmanager
def _axes(path: Path, *, height_in: float, left: int, right: int) -> Iterator[Axes]:
    """Yield axes with margins for labels of `left` and `right` letters; the figure is saved to `path` on exit."""
    margin_right, margin_left, bottom, top = MARGINS_IN
    margin_right += right * LETTER_IN
    margin_left = max(margin_left, 0.2 + left * LETTER_IN)
    width, height = margin_left + PLOT_WIDTH_IN + margin_right, bottom + height_in + top
    with figure_file(path, width, height) as figure:
        yield figure.add_axes((margin_left / width, bottom / height, PLOT_WIDTH_IN / width, height_in / height))


@contextmanager
def figure_file(path: Path, width_in: float, height_in: float) -> Iterator[Figure]:
    """Yield an empty figure; it is saved to `path` on exit."""
    with drawn_figure(width_in, height_in, kind=path.suffix.lower().removeprefix(".")) as (figure, drawn):
        yield figure
    atomic_publish(path, drawn.getvalue())


@contextmanager
def drawn_figure(width_in: float, height_in: float, *, kind: str) -> Iterator[tuple[Figure, io.BytesIO]]:
    """Yield an empty figure, and the buffer that has it as `svg` or `png` on exit."""
    import matplotlib  # noqa: PLC0415  (slow to import, and most commands draw nothing)
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    drawn = io.BytesIO()
    # No date and a fixed salt for the identifiers: equal numbers give equal files.
    with matplotlib.rc_context({"svg.hashsalt": "zerofleet", "svg.fonttype": "path", "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(width_in, height_in), dpi=DOTS_PER_INCH)
        FigureCanvasAgg(figure)
        yield figure, drawn
        figure.savefig(drawn, format=kind, metadata={"Date": None} if kind == "svg" else {"Software": None})


def finish_axes(axes: Axes, title: str, *, size: float = 11.0) -> None:
    """Set the title and the house style of axes."""
    axes.set_title(title, loc="left", fontsize=size, color=INK)
    axes.tick_params(labelsize=LABEL_POINTS, colors=INK, length=3.0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _label_at_right(axes: Axes, elos: Sequence[float], texts: Sequence[str], *, colours: Sequence[str] | None = None) -> None:
    """Label each height at the right, moved apart to avoid overlap, with a thin line to the height."""
    colours = colours or [RUNG] * len(texts)
    low, high = axes.get_ylim()
    height_points = axes.bbox.height * 72.0 / DOTS_PER_INCH
    gap = LABEL_SPACING * LABEL_POINTS / height_points * (high - low)
    order = sorted(range(len(elos)), key=lambda index: elos[index])
    for index, place in zip(order, _apart([elos[index] for index in order], gap), strict=True):
        axes.annotate(
            texts[index],
            xy=(1.0, elos[index]),
            xytext=(1.025, place),
            xycoords=axes.get_yaxis_transform(),
            textcoords=axes.get_yaxis_transform(),
            va="center",
            fontsize=LABEL_POINTS,
            color=colours[index],
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colours[index],
                "linewidth": 0.6,
                "shrinkA": 0.0,
                "shrinkB": 0.0,
                "relpos": (0.0, 0.5),
            },
        )


def _apart(places: Sequence[float], gap: float) -> list[float]:
    """Return places at least `gap` apart, in the same ascending order and as close to the given ones as possible.

    Neighbours that are too close become a block around their common middle; touching blocks are merged.
    """
    blocks: list[tuple[float, int]] = []  # middle, members
    for place in places:
        middle, members = place, 1
        while blocks and middle - 0.5 * (members - 1) * gap < blocks[-1][0] + (0.5 * (blocks[-1][1] - 1) + 1.0) * gap:
            before, count = blocks.pop()
            middle = (middle * members + before * count) / (members + count)
            members += count
        blocks.append((middle, members))
    return [middle + (i - 0.5 * (members - 1)) * gap for middle, members in blocks for i in range(members)]


def _lengths(points: Sequence[LadderPoint]) -> list[list[float]]:
    """Return the lengths of the intervals below and above the dots, [2, N]."""
    ratings = [point.rating for point in points]
    return [[rating.elo - rating.low for rating in ratings], [rating.high - rating.elo for rating in ratings]]


def _numbers(rating: Rating) -> str:
    if rating.low == rating.high:
        return _elo(rating.elo)  # the anchor, whose rating is exact
    return f"{_elo(rating.elo)}  ({_elo(rating.low)} to {_elo(rating.high)})"


def _elo(elo: float) -> str:
    return f"{elo:+.0f}" if round(elo) else "0"


def _range(elos: Sequence[float]) -> tuple[float, float]:
    low, high = min(elos), max(elos)
    margin = max(0.05 * (high - low), 10.0)
    return low - margin, high + margin


def _colour(rating: Rating) -> str:
    return CHAMPION if rating.name.partition(":")[0] in {"model", "champion"} else RUNG
