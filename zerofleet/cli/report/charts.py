"""Charts of a report as SVG: lines over an axis, bands, the path of a sequential test, histograms and intervals.

Colours and dashes are classes of the style sheet, so that one drawing serves light and dark. Coordinates are in units of the
view box; a chart is as wide as its place on the page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zerofleet.cli.report.markup import Markup, el
from zerofleet.supervisor.words import UNKNOWN, compact

__all__ = ["Band", "Line", "histogram", "interval", "line_chart", "number", "path_chart"]

WIDTH, HEIGHT = 420.0, 200.0
LEFT, RIGHT, TOP, BOTTOM = 50.0, 10.0, 12.0, 26.0
TICKS = 5
LEVEL_NAMES, LEVEL_SPACING = 78.0, 11.0  # width of the names at the right, distance of their baselines
PAIR_POINTS = ("0", "½", "1", "1½", "2")


@dataclass(frozen=True, slots=True)
class Line:
    """Line of a chart; an unknown value is left out, and the line goes on."""

    label: str
    at: Sequence[float | None]
    values: Sequence[float | None]

    def points(self) -> list[tuple[float, float]]:
        """Return the known points in ascending order of the axis."""
        found: list[tuple[float, float]] = []
        for at, value in zip(self.at, self.values, strict=True):
            if at is not None and value is not None and (not found or at >= found[-1][0]):
                found.append((at, value))
        return found


@dataclass(frozen=True, slots=True)
class Band:
    """Area between two lines."""

    low: Line
    high: Line


def number(value: float | None, unit: str = "") -> str:
    """Return a value with its unit, as short as a label of an axis needs it."""
    if value is None:
        return UNKNOWN
    if unit == "share":
        return f"{100 * value:.3g} %"
    if unit == "bytes":
        return f"{value / 2**30:.3g} GiB" if value >= 2**30 else f"{value / 2**20:.3g} MiB"
    return compact(value) if abs(value) >= 1000 else f"{value:.3g}"


def line_chart(
    title: str,
    lines: Sequence[Line],
    *,
    unit: str = "",
    band: Band | None = None,
    marks: Iterable[float] = (),
    levels: Sequence[tuple[str, float]] = (),
) -> Markup | None:
    """Return a chart; None where no line has a point.

    Args:
        title: Description for screen readers.
        lines: Lines, in the order of their colours.
        unit: Unit of the values.
        band: Area below the lines.
        marks: Places on the axis of ticks at the upper edge, such as promotions.
        levels: Named horizontal lines.
    """
    drawn = [line.points() for line in lines]
    flat = [point for line in drawn for point in line]
    if not flat:
        return None
    area = [] if band is None else [*band.high.points(), *reversed(band.low.points())]
    heights = [value for _, value in (*flat, *area)] + [value for _, value in levels]
    right = WIDTH - (LEVEL_NAMES if levels else RIGHT)
    x = _Scale.over([at for at, _ in flat], LEFT, right, pad=0.0)
    y = _Scale.over(heights, HEIGHT - BOTTOM, TOP, pad=0.06)
    parts = [*_frame(_places([at for at, _ in flat], x), x, y, unit, right), *_levels(y, levels, right)]
    if area:
        parts.append(el("polygon", points=" ".join(f"{x.of(at):.1f},{y.of(v):.1f}" for at, v in area), class_="band"))
    parts += [
        el("path", d=_path((x.of(at), y.of(value)) for at, value in line), class_=f"line c{place % 6} d{place % 6}")
        for place, line in enumerate(drawn)
        if len(line) > 1
    ]
    parts += [
        el("circle", cx=f"{x.of(line[0][0]):.1f}", cy=f"{y.of(line[0][1]):.1f}", r=3.5, class_=f"dot c{place % 6}")
        for place, line in enumerate(drawn)
        if len(line) == 1
    ]
    ticks = "".join(f"M{x.of(mark):.1f} {TOP}v7" for mark in marks if x.low <= mark <= x.high)
    if ticks:
        parts.append(el("path", d=ticks, class_="mark"))
    last = ", ".join(f"{line.label} {number(points[-1][1], unit)}" for line, points in zip(lines, drawn, strict=True) if points)
    return _svg(WIDTH, HEIGHT, f"{title}; last: {last}", parts, "chart")


def path_chart(path: Sequence[float], low: float, high: float) -> Markup:
    """Return the path of a sequential test between its bounds, by pair of games."""
    width, height = 200.0, 60.0
    x = _Scale(0.0, float(max(1, len(path) - 1)), 2.0, width - 2.0)
    y = _Scale.over([low, high, *path], height - 3.0, 3.0, pad=0.0)
    bounds = [el("line", x1=0, x2=width, y1=f"{y.of(b):.1f}", y2=f"{y.of(b):.1f}", class_="bound") for b in (low, high)]
    zero = el("line", x1=0, x2=width, y1=f"{y.of(0.0):.1f}", y2=f"{y.of(0.0):.1f}", class_="grid")
    line = el("path", d=_path((x.of(place), y.of(value)) for place, value in enumerate(path)), class_="line c0")
    label = f"log-likelihood ratio over {len(path) - 1} pairs, from 0 to {path[-1]:.2f} between {low:.2f} and {high:.2f}"
    return _svg(width, height, label, [zero, *bounds, line], "path")


def histogram(pairs: Sequence[int]) -> Markup:
    """Return the histogram of pairs of games by points: no point at the left, two wins at the right."""
    most, width, height = max(*pairs, 1), 16.0, 34.0
    bars = []
    for place, count in enumerate(pairs):
        tall = (height - 12.0) * count / most
        at = place * (width + 3.0)
        bars.append(el("rect", x=at, y=f"{height - 11 - tall:.1f}", width=width, height=f"{max(tall, 0.6):.1f}", class_="bar"))
        bars.append(el("text", str(count), x=at + width / 2, y=height - 1.0, class_="count"))
    label = "pairs by points: " + ", ".join(f"{name}: {count}" for name, count in zip(PAIR_POINTS, pairs, strict=True))
    return _svg(5 * (width + 3.0), height, label, bars, "histogram")


def interval(value: float, low: float, high: float, *, over: tuple[float, float]) -> Markup:
    """Return a dot with its interval on a common scale."""
    width, height = 200.0, 14.0
    x = _Scale(*over, 4.0, width - 4.0)
    line = el("line", x1=f"{x.of(low):.1f}", x2=f"{x.of(high):.1f}", y1=height / 2, y2=height / 2, class_="line c0")
    dot = el("circle", cx=f"{x.of(value):.1f}", cy=height / 2, r=3.5, class_="dot")
    return _svg(width, height, f"{value:.0f}, 95 % interval {low:.0f} to {high:.0f}", [line, dot], "interval")


@dataclass(frozen=True, slots=True)
class _Scale:
    """Linear map of values to coordinates."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float, *, pad: float) -> _Scale:
        low, high = min(values), max(values)
        if low == high == 0.0:
            return cls(0.0, 1.0, start, end)
        room = (high - low) * pad if high > low else abs(high) * 0.05 or 0.5
        return cls(low - room, high + room, start, end)

    def of(self, value: float) -> float:
        return self.start + (value - self.low) / ((self.high - self.low) or 1.0) * (self.end - self.start)

    def ticks(self, unit: float = 1.0) -> list[float]:
        """Return the round multiples of `unit` in the range."""
        step = unit * _step((self.high - self.low) / TICKS / unit)
        first = math.ceil(self.low / step)
        return [place * step for place in range(first, math.floor(self.high / step) + 1)]


def _step(rough: float) -> float:
    """Return the round number at or above a rough distance of ticks: 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0.0 else 1.0
    return next(power * factor for factor in (1.0, 2.0, 5.0, 10.0) if power * factor >= rough * (1 - 1e-9))


def _frame(places: Sequence[float], x: _Scale, y: _Scale, unit: str, right: float) -> Iterable[Markup]:
    for tick in y.ticks(2.0**20 if unit == "bytes" else 1.0):
        at = f"{y.of(tick):.1f}"
        yield el("line", x1=LEFT, x2=right, y1=at, y2=at, class_="grid")
        yield el("text", number(tick, unit), x=LEFT - 6, y=f"{y.of(tick) + 4:.1f}", class_="y")
    for tick in places:
        yield el("text", number(tick), x=f"{x.of(tick):.1f}", y=HEIGHT - 8, class_="x")
    yield el("line", x1=LEFT, x2=right, y1=HEIGHT - BOTTOM, y2=HEIGHT - BOTTOM, class_="axis")


def _places(at: Sequence[float], x: _Scale) -> list[float]:
    """Return the ticks of the horizontal axis: whole numbers where all places are, and a single place itself."""
    if min(at) == max(at):
        return [at[0]]
    is_whole = all(place.is_integer() for place in at)
    return [tick for tick in x.ticks() if not is_whole or math.isclose(tick, round(tick), abs_tol=1e-9)]


def _levels(y: _Scale, levels: Sequence[tuple[str, float]], right: float) -> Iterable[Markup]:
    """Yield named horizontal lines; names that would overlap are moved up."""
    below = HEIGHT
    for name, value in sorted(levels, key=lambda level: level[1]):
        at = y.of(value)
        below = min(at + 3.0, below - LEVEL_SPACING)
        yield el("line", x1=LEFT, x2=right, y1=f"{at:.1f}", y2=f"{at:.1f}", class_="level")
        yield el("text", name, x=right + 4, y=f"{below:.1f}", class_="level-name")


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _svg(width: float, height: float, label: str, parts: Iterable[Markup], kind: str) -> Markup:
    return el("svg", *parts, viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=label, class_=kind)
