"""HTML page of a report: one file with its style and figures, without scripts and without references to other documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

from zerofleet.cli.reproduce.drawings import draw_behaviour, draw_experiment
from zerofleet.cli.reproduce.figures import with_interval
from zerofleet.strength.behaviour.tables import read_stored
from zerofleet.strength.behaviour.text import CellText, cell_rows, column_headings
from zerofleet.strength.claims.verdicts import DEFAULT_TOLERANCE

__all__ = ["html_page"]

_VERDICTS = (
    "Beaten: the whole interval is beyond the figure to beat. Matched: it is beyond the figure to match, or holds it and is "
    f"narrow (at most {DEFAULT_TOLERANCE:g} each way, unless stated), which does not count for a claim of more, or less, than "
    "the figure; of a figure with -+, it is within. Missed: it is on the wrong side. Undecided: none of these. Not run: no "
    "result, or too short a training. The figure to match is the sense of a claim, such as 50 % for being ahead, and need not "
    "be the number of the thesis."
)
_TURNS = ("turns won", "turns drawn", "turns lost")
_TRAINING = {
    "points_learner": "share of the points",
    "plies_won": "plies of a game won",
    "value_of_moves": "value of the moves",
    "value": "mean squared error",
    "accuracy": "accuracy, held-out",
    "recall_6": "moves among the six best",
}
"""Measures of a training by judgement."""


def html_page(report: Mapping[str, Any]) -> str:
    """Return the page of a report as `zerofleet.cli.reproduce.report.build_report` returns it.

    Experiments without a complete stage are listed at the end, without their claims. Reports that earlier releases stored lack
    tables of behaviour and processor times: there these are left out.
    """
    style = resources.files("zerofleet.cli.reproduce").joinpath("style.css").read_text("utf-8")
    machine = report["machine"]
    run = [one for one in report["experiments"] if one["stages"]["complete"]]
    not_run = [one for one in report["experiments"] if not one["stages"]["complete"]]
    counts = Counter(claim["verdict"] for one in run for claim in one["claims"])
    summary = ", ".join(f"{counts[name]} {name}" for name in report["verdicts"] if counts[name]) or "no claims"
    if not_run:
        summary += f"; {len(not_run)} of {len(report['experiments'])} experiments not run"
    body = [
        f"<h1>{escape(report['title'])}</h1>",
        f"<p>{escape(report['source'])}</p>",
        f"<p>Profile {escape(report['profile'])}: {escape(summary)}. <code>{escape(report['command'])}</code></p>",
        f"<p>{escape(str(machine['processor']))}, {machine['cores']} cores, Python {escape(machine['python'])}; "
        + escape(", ".join(f"{name} {number}" for name, number in report["versions"].items()))
        + ". Intervals are of 95 %: over training seeds (Student) where there are several, else over games.</p>",
        "<h2>Headlines</h2>",
        f"<p>{_VERDICTS}</p>",
        _headlines(run),
    ]
    for number, experiment in enumerate(report["experiments"]):
        if experiment["stages"]["complete"]:
            body += _experiment(experiment, f"f{number}")
    if not_run:
        body.append("<h2>Not run</h2>")
        rows = [[escape(one["title"]), str(len(one["claims"])), _remedy(one)] for one in not_run]
        body.append(_table("Experiments not run", ["experiment", "claims", "command"], rows, numbers={1}))
    body.append("<h2>Not covered</h2>")
    rows = [[escape(one["text"]), escape(one["thesis"]), escape(one["why"])] for one in report["uncovered"]]
    body.append(
        _table("Claims not covered", ["claim", "thesis", "reason"], rows) if rows else "<p>Every claim has an experiment.</p>"
    )
    title = escape(report["title"])
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def _headlines(experiments: Iterable[Mapping[str, Any]]) -> str:
    rows = []
    for experiment in experiments:
        for claim in experiment["claims"]:
            found = claim["estimate"]
            size = "" if found is None else _size(claim)
            kind = claim["verdict"].replace(" ", "-")
            shown = f'<span class="v {kind}">{claim["verdict"]}</span>' + (
                f"<br/>{escape(claim['reason'])}" * bool(claim["reason"])
            )
            given = (escape(claim[name]) for name in ("text", "figure", "thesis"))
            rows.append([*given, _bar(claim["bar"]), with_interval(claim), size, shown])
    names = ["claim", "figure", "thesis", "to match; to beat", "here, 95 %", "games, seats, seeds", "verdict"]
    return _table("Headlines", names, rows, numbers={4})


def _bar(bar: Mapping[str, Any]) -> str:
    """Return the figures that decide a claim, which need not be the thesis's."""
    match, beat = (f"{bar['match'] if number is None else number:g}" for number in (bar["match"], bar["beat"]))
    if bar["better"] == "equal":
        return f"{match} -+ {bar['tolerance']:g}"
    words = ("at least", "more than") if bar["better"] == "higher" else ("at most", "less than")
    if not bar["tolerance"]:
        return f"{words[1]} {match}; {words[1]} {beat}"
    narrow = "" if bar["tolerance"] == DEFAULT_TOLERANCE else f"; narrow: {bar['tolerance']:g}"
    return f"{words[0]} {match}; {words[1]} {beat}{narrow}"


def _size(claim: Mapping[str, Any]) -> str:
    found = claim["estimate"]
    if found["interval"] == "count":
        return "a count"
    if not found["games"]:
        return f"{found['seeds']} seeds"
    seats = ", ".join(str(seat) for seat in claim["seats"])
    trained = f"; after {claim['trained_games']:,} games" if claim["trained_games"] else ""
    nodes = f"; {claim['nodes_per_move']:,.0f} positions or simulations a move" if claim["nodes_per_move"] else ""
    return f"{found['games']:,} games, seat {seats}, {found['seeds']} seed{'s' * (found['seeds'] > 1)}{trained}{nodes}"


def _experiment(experiment: Mapping[str, Any], prefix: str) -> list[str]:
    stages = experiment["stages"]
    body = [
        f'<h2 id="{escape(experiment["name"])}">{escape(experiment["title"])}</h2>',
        f"<p>{escape(experiment['about'])} Source: {escape(experiment['source'])}.</p>",
    ]
    if stages["planned"]:
        times = f": {_minutes(stages)}" if stages["complete"] else ""
        of = f"{stages['complete']} of {stages['planned']} stages complete{times}."
        body.append(f"<p><code>{escape(experiment['command'])}</code> {of}</p>")
    if experiment["left_out"]:
        body.append(f"<p>Left out: {escape(experiment['left_out'])}.</p>")
    if experiment["open_stages"]:
        body.append(f"<p>Not run: {escape(', '.join(experiment['open_stages']))}.</p>")
    body += [f"<p>Diverged: {escape(one)}.</p>" for one in experiment["diverged"]]
    title = experiment["title"]
    body.append(_figure(f"Figure: {title}", draw_experiment(dict(experiment), prefix)))
    rows = [_row(arm, row, first=row is arm["rows"][0]) for arm in experiment["arms"] for row in arm["rows"]]
    names = [
        "arm",
        "meeting",
        "seat",
        "trained",
        "games",
        "won, %",
        "drawn, %",
        "lost, %",
        "net, 95 %",
        "nodes",
        "ms",
        "processor ms",
        "thesis",
    ]
    if rows:
        body.append(_table(f"Arms: {title}", names, rows, numbers=set(range(2, 12))))
    if experiment["measures"]:
        names, rows = ["arm", "measure", "value, 95 %", "seeds"], [_measure(one) for one in experiment["measures"]]
        body.append(_table(f"Measures: {title}", names, rows, numbers={2, 3}))
    for number, one in enumerate(experiment.get("behaviour", ())):
        body += _behaviour(one, f"{prefix}b{number}")
    if lines := _trainings(experiment["trainings"]):
        body.append("<p>Training, means between two judgements and over seeds:</p>")
        names = ["arm", "games", *_TRAINING.values()]
        body.append(_table(f"Training: {title}", names, lines, numbers=set(range(1, len(names)))))
    return body


def _remedy(experiment: Mapping[str, Any]) -> str:
    """Return the command that runs an experiment, or the reason for which this profile has none."""
    if not experiment["stages"]["planned"] and experiment["left_out"]:
        return escape(experiment["left_out"])
    return f"<code>{escape(experiment['command'])}</code>"


def _behaviour(one: Mapping[str, Any], prefix: str) -> list[str]:
    """Return a table of behaviour with its picture, as `zerofleet behaviour` shows both."""
    found = read_stored(one["table"])
    trained = f", after {one['trained_games']:,} games of training" if one["trained_games"] else ""
    seat = f", seat {one['seat']}" if one["seat"] else ""
    of = f"{one['arm']}: {one['meeting']}{seat}{trained}, seed {one['seed']}, {found.games:,} games"
    shown = column_headings(found)
    numbers = {place for place, heading in enumerate(shown) if heading.numeric}
    rows = [[_with_interval_below(cell) for cell in row] for row in cell_rows(found)]
    return [
        f"<h3>{escape(found.title)}</h3>",
        f"<p>{escape(of)}.</p>",
        _figure(f"Figure: {found.title}, {of}", draw_behaviour(found, prefix)),
        _table(f"{found.title}, {of}", [heading.text for heading in shown], rows, numbers=numbers),
        *(f"<p>{escape(note)}</p>" for note in found.notes),
    ]


def _with_interval_below(cell: CellText) -> str:
    """Return a figure with its interval in a second line, so that tables with many figures fit in a window."""
    return escape(cell.text) + (f"<br/><small>{escape(cell.interval)}</small>" if cell.interval else "")


def _minutes(stages: Mapping[str, float | None]) -> str:
    """Return the times of the complete stages of an experiment."""
    core = f", {stages['core_minutes']:g} minutes of one core" if stages["core_minutes"] else ""
    return (
        f"{stages['wall_minutes']:g} minutes one after another{core}; expected {stages['expected_core_minutes']:g} of one core"
    )


def _trainings(trainings: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return a row for each arm and judgement of all its seeds, whose places differ where the budget is in samples."""
    groups: dict[tuple[str, int], list[Mapping[str, float]]] = {}
    for one in trainings:
        for rank, point in enumerate(one["points"]):
            groups.setdefault((one["arm"], rank), []).append(point)
    rows = []
    for (arm, _), points in groups.items():
        games = round(sum(point["games"] for point in points) / len(points))
        found = [[value for point in points if (value := point.get(name)) is not None] for name in _TRAINING]
        cells = [f"{sum(values) / len(values):,.3f}" if values else "" for values in found]
        if any(cells):
            rows.append([escape(arm), f"{games:,}", *cells])
    return rows


def _measure(one: Mapping[str, Any]) -> list[str]:
    found = one["estimate"]
    interval = "" if found["interval"] == "count" else f" ({found['low']:,.2f} to {found['high']:,.2f})"
    return [escape(one["arm"]), escape(one["measure"]), f"{found['value']:,.2f}{interval}", str(found["seeds"])]


def _row(arm: Mapping[str, Any], row: Mapping[str, Any], *, first: bool) -> list[str]:
    """Return the cells of a meeting; the result of the thesis is shown in the first row of an arm."""
    figures = row["figures"]
    net = figures["net"]
    names = ("nodes_per_move", "ms_per_move", "cpu_ms_per_move")
    nodes, ms, cpu_ms = ([f"{number:,.1f}" for number in row.get(name, ())] for name in names)
    return [
        escape(arm["label"]),
        f"{escape(row['meeting'])}<br/><code>{escape(row['subject'])}</code> against <code>{escape(row['opponent'])}</code>"
        + _turns(figures),
        str(row["seat"]),
        f"{row['trained_games']:,}" if row["trained_games"] else "",
        f"{row['games']:,}",
        *(f"{figures[name]['value']:.1f}" for name in ("won", "drawn", "lost")),
        f"{net['value']:+.1f} ({net['low']:.1f} to {net['high']:.1f})",
        " : ".join(nodes),
        " : ".join(ms),
        " : ".join(cpu_ms),
        escape(arm["thesis"]) if first else "",
    ]


def _turns(figures: Mapping[str, Any]) -> str:
    """Return the shares of the turns of a meeting of rock paper scissors; empty for other games."""
    found = [f"{figures[name]['value']:.1f} {name.split()[1]}" for name in _TURNS if name in figures]
    return f"<br/>of 100 turns {', '.join(found)}" if found else ""


def _figure(label: str, drawn: str) -> str:
    """Return an `<svg>` element in a box of its own; empty text without one."""
    return _box(label, drawn) if drawn else ""


def _table(
    label: str, names: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: frozenset[int] | set[int] = frozenset()
) -> str:
    def cell(tag: str, place: int, text: str) -> str:
        return f'<{tag} class="n">{text}</{tag}>' if place in numbers else f"<{tag}>{text}</{tag}>"

    head = "".join(cell("th", place, escape(name)) for place, name in enumerate(names))
    body = "".join("<tr>" + "".join(cell("td", i, text) for i, text in enumerate(row)) + "</tr>\n" for row in rows)
    return _box(label, f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>")


def _box(label: str, content: str) -> str:
    """Return content that scrolls sideways within the page, also by the keyboard."""
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(label)}">{content}</div>'
