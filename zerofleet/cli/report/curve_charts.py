"""Curves of a report: a chart of each subject over steps, games and hours; the reader selects the axis without a script."""

from __future__ import annotations

from collections.abc import Iterator

from zerofleet.cli.report.charts import Band, Line, line_chart, number
from zerofleet.cli.report.markup import Markup, el
from zerofleet.library.series import RunSeries, Series

__all__ = ["curve_charts"]

AXES = {"step": "steps", "games": "games", "hours": "hours"}
RATING = "Rating"


def curve_charts(found: RunSeries) -> Iterator[Markup]:
    """Yield the charts of all series."""
    panels = list(_panels(found))
    if not panels:
        yield el("p", "The run has not written metrics yet.", class_="dim")
        return
    yield el("span", "Axis: ", class_="dim")
    for axis, label in AXES.items():
        yield el("input", type="radio", name="over", id=f"over-{axis}", checked=axis == "step")
        yield el("label", f" {label}  ", for_=f"over-{axis}")
    yield el("p", "A tick at the upper edge is a promotion; a name ends with the newest value.", class_="source")
    yield el("div", *panels, class_="charts")


def _panels(found: RunSeries) -> Iterator[Markup]:
    for title in dict.fromkeys(one.chart for one in found.series):
        series = [one for one in found.series if one.chart == title]
        lines = [one for one in series if not (title == RATING and one.name != "elo")]
        drawn = [picture for axis in AXES if (picture := _over(found, title, series, lines, axis)) is not None]
        if drawn:
            yield _panel(title, series[0].unit, [(one.label, _last(one)) for one in lines], drawn)


def _over(found: RunSeries, title: str, series: list[Series], lines: list[Series], axis: str) -> Markup | None:
    def line(one: Series) -> Line:
        return Line(one.label, getattr(found.axes[one.group], axis), one.values)

    ends = {one.name: line(one) for one in series}
    band = Band(ends["elo_low"], ends["elo_high"]) if title == RATING and {"elo_low", "elo_high"} <= set(ends) else None
    marks = [at for one in found.promotions if (at := getattr(one, axis)) is not None]
    picture = line_chart(
        f"{title} over {AXES[axis]}", [line(one) for one in lines], unit=series[0].unit, band=band, marks=marks
    )
    return None if picture is None else el("div", picture, class_=f"over-{axis}")


def _panel(title: str, unit: str, newest: list[tuple[str, str]], pictures: list[Markup]) -> Markup:
    shown = "" if unit in ("share", "bytes") else unit
    legend = [
        el("li", _swatch(place) if len(newest) > 1 else "", f"{label} ", el("strong", value))
        for place, (label, value) in enumerate(newest)
    ]
    head = el("h3", el("span", title), el("span", shown, class_="unit"))
    return el("div", head, *pictures, el("ul", *legend, class_="legend"), class_="panel")


def _swatch(place: int) -> Markup:
    line = el("line", x1=0, x2=36, y1=6, y2=6, class_=f"line c{place % 6} d{place % 6}")
    return el("svg", line, viewBox="0 0 36 12", aria_hidden="true")


def _last(one: Series) -> str:
    known = [value for value in one.values if value is not None]  # none, where the thinned rows miss the few that have one
    return number(known[-1] if known else None, one.unit)
