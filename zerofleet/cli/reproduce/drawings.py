"""Figures of a report as inline SVG: curves of learning where there are several judgements, else intervals of the arms."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

from zerofleet.strength.behaviour.chart import behaviour_picture
from zerofleet.strength.behaviour.tables import BehaviourTable, Measured
from zerofleet.strength.charts import FAINT, INK, LINES

__all__ = ["draw_behaviour", "draw_experiment"]

_WIDTH_IN, _ROW_IN, _CURVE_IN = 7.2, 0.3, 3.2
_MOST_LINES = 12
"""Number of lines that remain distinct; if there are more, a line is the mean of a meeting over its seats, without a band."""


def draw_experiment(experiment: dict[str, Any], prefix: str) -> str:
    """Return an `<svg>` element of the arms' figures, empty text without results.

    `prefix` makes the element's identifiers unique on a page.
    """
    rows = [(arm, row) for arm in experiment["arms"] for row in arm["rows"]]
    if not rows:
        return ""
    places = {(arm["name"], row["meeting"], row["seat"]): 0 for arm, row in rows}
    for arm, row in rows:
        places[arm["name"], row["meeting"], row["seat"]] += 1
    return _curves(rows, prefix) if max(places.values()) > 1 else _intervals(rows, prefix)


def draw_behaviour(found: BehaviourTable, prefix: str) -> str:
    """Return an `<svg>` element of a table, drawn as `zerofleet behaviour --plot` draws it; empty text without figures."""
    if not any(isinstance(cell, Measured) for row in found.rows for cell in row):
        return ""
    return _inline(behaviour_picture(found, kind="svg").decode(), prefix)


def _curves(rows: Sequence[tuple[dict[str, Any], dict[str, Any]]], prefix: str) -> str:
    lines: dict[str, list[dict[str, Any]]] = {}
    for arm, row in rows:
        lines.setdefault(f"{arm['label']}: {row['meeting']}, seat {row['seat']}", []).append(row)
    pooled = len(lines) > _MOST_LINES
    if pooled:
        lines = {}
        for arm, row in rows:
            lines.setdefault(f"{arm['label']}: {row['meeting']}", []).append(row)
    figure, axes = _axes(_CURVE_IN + 0.19 * len(lines))
    for number, (label, points) in enumerate(lines.items()):
        at = sorted({point["trained_games"] for point in points})
        colour, style = LINES[number % len(LINES)], ("-", "--", ":", "-.")[number // len(LINES) % 4]
        axes.plot(at, [_mean_net(points, place) for place in at], style, marker="o", markersize=3, color=colour, label=label)
        if not pooled:
            ordered = sorted(points, key=lambda point: point["trained_games"])
            found = [point["figures"]["net"] for point in ordered]
            axes.fill_between(at, [one["low"] for one in found], [one["high"] for one in found], color=colour, alpha=0.12, lw=0)
    axes.set_xlabel("games of training")
    axes.set_ylabel("net score per 100 games" + ", mean of the seats" * pooled)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), fontsize=7, frameon=False)
    return _svg(figure, prefix)


def _mean_net(points: Sequence[dict[str, Any]], place: int) -> float:
    """Return the net score of all games at a place of judgement."""
    found = [(point["figures"]["net"]["value"], point["games"]) for point in points if point["trained_games"] == place]
    return float(sum(value * games for value, games in found) / sum(games for _, games in found))


def _intervals(rows: Sequence[tuple[dict[str, Any], dict[str, Any]]], prefix: str) -> str:
    figure, axes = _axes(0.9 + _ROW_IN * len(rows))
    for place, (_, row) in enumerate(rows):
        found = row["figures"]["net"]
        axes.plot([found["low"], found["high"]], [place, place], color=LINES[0], linewidth=2)
        axes.plot([found["value"]], [place], "o", color=LINES[0], markersize=5)
    labels = [f"{arm['label']}: {row['meeting']}, seat {row['seat']}" for arm, row in rows]
    axes.set_yticks(range(len(rows)), labels, fontsize=7)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("net score per 100 games, with 95 % interval")
    return _svg(figure, prefix)


def _axes(height_in: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # noqa: PLC0415 - with the first figure

    figure = Figure(figsize=(_WIDTH_IN, height_in), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(visible=True, color=FAINT, linewidth=0.7)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(colors=INK, labelsize=8)
    return figure, axes


def _svg(figure: Any, prefix: str) -> str:
    """Return the figure without declaration, metadata and references to other documents, its identifiers prefixed."""
    import matplotlib as mpl  # noqa: PLC0415

    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": prefix, "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return _inline(buffer.getvalue(), prefix)


def _inline(text: str, prefix: str) -> str:
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}-", text)
    return re.sub(r"\s*\n\s*", " ", text).strip() + "\n"  # a line for each point of a curve makes pages ten times as long
