"""HTML page of a report: one file with its style and pictures, without scripts and without references to other documents."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from importlib import resources

from zerofleet.cli.report.accuracy_table import accuracy_section
from zerofleet.cli.report.curve_charts import curve_charts
from zerofleet.cli.report.gate_tables import ladder_section, matches_section, models_section
from zerofleet.cli.report.markup import Markup, el, table
from zerofleet.cli.report.sources import source
from zerofleet.cli.report.strips import Strip
from zerofleet.library.run_report import RunReport
from zerofleet.library.stored_games import GameRow
from zerofleet.supervisor.words import UNKNOWN

__all__ = ["html_page"]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_MARKS = "(fast): move of a fast search, no policy target. (reduced): of a reduced search after a resignation."
_SECTIONS = ("Overview", "Curves", "Accuracy", "Ladder", "Models", "Matches", "Games", "Settings", "Commands")


def html_page(report: RunReport, strips: Sequence[Strip]) -> str:
    """Return the page of a report, with strips of boards of some of its games."""
    style = Markup(resources.files("zerofleet.cli.report").joinpath("style.css").read_text("utf-8"))
    bodies = (
        [*_overview(report)],
        [*curve_charts(report.curves)],
        [*accuracy_section(report)],
        [*ladder_section(report)],
        [*models_section(report)],
        [*matches_section(report)],
        [*_games(report, strips)],
        [*_settings(report)],
        [*_commands(report)],
    )
    sections = [
        el("section", el("h2", name), *parts, id=name.lower(), aria_label=name)
        for name, parts in zip(_SECTIONS, bodies, strict=True)
    ]
    links = [el("a", name, href=f"#{name.lower()}") for name in _SECTIONS]
    head = (
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        el("title", f"{report.run.name} · Zerofleet"),
        el("style", style),
    )
    main = el("main", *sections)
    body = el("body", *_header(report), el("nav", *links, aria_label="Sections"), main)
    return f"<!doctype html>\n{el('html', el('head', *head), body, lang='en')}\n"


def _header(report: RunReport) -> list[Markup]:
    run = report.run
    state = el("span", "alive" if run.is_alive else "stopped", class_="tag good" if run.is_alive else "tag")
    champion = "none yet" if run.champion is None else f"version {run.champion}"
    rated = "not anchored"
    if run.elo is not None and run.elo_low is not None and run.elo_high is not None:
        rated = f"{run.elo:.0f} Elo, {run.elo_low:.0f} to {run.elo_high:.0f}"
        rated = rated if run.rated_version == run.champion else f"not anchored; version {run.rated_version}: {rated}"
    facts = {
        "Game": " ".join([run.game, *(f"{name}={value}" for name, value in run.parameters.items())]),
        "Preset": run.preset,
        "Seed": str(report.seed),
        "Directory": report.directory,
        "Begun": run.created_at.isoformat(timespec="seconds"),
        "Last seen": "never" if run.last_seen_at is None else run.last_seen_at.isoformat(timespec="seconds"),
        "Champion": champion if run.champion is None else f"{champion}, {rated}",
        "Games stored": f"{run.games_stored:,}",
        "Steps": f"{run.step:,}",
    }
    made = f"Report of Zerofleet {report.release}, made at {report.made_at.isoformat(timespec='seconds')} from the run's files."
    return [
        el("h1", f"{run.name} ", state),
        el("p", made, class_="dim"),
        _facts(facts),
        source(report, "run", "report"),
    ]


def _overview(report: RunReport) -> list[Markup]:
    found = report.overview
    parts = []
    if found.warning:
        parts.append(el("p", found.warning, class_="note"))
    panels = [
        el(
            "div",
            el("h3", panel.title.capitalize()),
            _figures([(f.label, f.value, f.note) for f in panel.figures]),
            class_="panel",
        )
        for panel in found.panels
    ]
    parts.append(el("div", *panels, class_="panels"))
    if found.events:
        events = [el("li", f"{one.at:%Y-%m-%d %H:%M:%S}: {one.text}") for one in found.events]
        parts += [el("h3", "Newest promotions, UTC"), el("ul", *events, class_="events")]
    return [*parts, source(report, "overview")]


def _games(report: RunReport, strips: Sequence[Strip]) -> list[Markup]:
    found = report.games
    if found is None:
        return [el("p", report.games_fault, class_="dim")]
    parts = [el("p", f"{found.total:,} games stored; the newest {len(found.games)}:")]
    parts.append(
        table(
            "Newest stored games",
            [">game", "uid", ">plies", "result", "ending", "models", "worker", "finished"],
            [
                (
                    str(row.index),
                    row.uid[:12],
                    str(row.plies),
                    _result(row),
                    row.ending,
                    " ".join(str(version or UNKNOWN) for version in row.versions),
                    row.worker,
                    row.finished_at or "unknown",
                )
                for row in found.games
            ],
        )
    )
    if any(strip.has_marks for strip in strips):
        parts.append(el("p", _MARKS, class_="dim"))
    for strip in strips:
        boards = [
            el("figure", el("img", src=_data(picture), alt=caption, loading="lazy"), el("figcaption", caption))
            for caption, picture in strip.boards
        ]
        parts.append(el("h3", f"Game {strip.row.index}: {_result(strip.row)}, {strip.row.plies} plies"))
        parts.append(
            el("div", *boards, class_="strip", tabindex=0, role="group", aria_label=f"Boards of game {strip.row.index}")
        )
    return [*parts, source(report, "games", "game")]


def _settings(report: RunReport) -> list[Markup]:
    found = report.settings
    if found.fault:
        return [el("p", f"The settings of the run are unknown: {found.fault}", class_="note")]
    if not found.changed:
        return [el("p", f"Every setting is that of the preset {found.preset}.")]
    rows = [(el("code", one.name), one.value, one.preset_value or UNKNOWN) for one in found.changed]
    about = f"Settings with which the run began, where they differ from those of the preset {found.preset}:"
    return [el("p", about), table("Settings that differ from the preset", ["setting", "run", "preset"], rows)]


def _commands(report: RunReport) -> list[Markup]:
    rows = [(name, el("code", command)) for name, command in report.commands.items()]
    about = "These commands print the same figures, from the folder in which the report was made:"
    return [el("p", about), table("Commands", ["figures", "command"], rows)]


def _result(row: GameRow) -> str:
    if len(set(row.scores)) == 1:
        return "draw"
    return "  ".join(f"{score:+.3g}" if score else "0" for score in row.scores)


def _facts(facts: Mapping[str, str]) -> Markup:
    return el("dl", *(part for name, value in facts.items() for part in (el("dt", name), el("dd", value))), class_="facts")


def _figures(rows: Sequence[tuple[str, str, str]]) -> Markup:
    parts = (part for label, value, note in rows for part in (el("dt", label), el("dd", value), el("dd", note)))
    return el("dl", *parts, class_="figures")


def _data(picture: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(picture.encode()).decode()}"
