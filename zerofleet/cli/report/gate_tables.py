"""Ladder, models and matches of a report: ratings with their intervals, lineage, verdicts, and the paths of the tests."""

from __future__ import annotations

from collections.abc import Sequence

from zerofleet.cli.report.charts import Band, Line, histogram, interval, line_chart, path_chart
from zerofleet.cli.report.markup import Markup, el, table
from zerofleet.cli.report.sources import source
from zerofleet.library.ladder_list import LadderPlayer
from zerofleet.library.model_list import ModelEntry
from zerofleet.library.run_report import RunReport
from zerofleet.supervisor.words import UNKNOWN

__all__ = ["MOST_ROWS", "ladder_section", "matches_section", "models_section"]

MOST_ROWS = 300
"""Rows of a table."""
NOT_ANCHORED = "not anchored"


def ladder_section(report: RunReport) -> list[Markup]:
    """Return the ladder: a curve of the champions among the rungs, and a row for each player."""
    players = report.ladder.players
    if not players:
        return [el("p", "No rated game has been played yet: there are no ratings.", class_="dim"), source(report, "report")]
    parts = []
    if not report.ladder.is_anchored:
        parts.append(el("p", "No version has played against a rung yet: ratings of versions are not anchored.", class_="note"))
    if (curve := _ladder_curve(players)) is not None:
        parts.append(el("div", curve, class_="panel figure"))
    rated = [one for one in players if one.elo is not None]
    ends = [end for one in rated for end in (one.elo_low, one.elo_high) if end is not None]
    over = (min(ends), max(ends)) if ends else (0.0, 0.0)
    rows = [(_name(one), *_rating(one.elo, one.elo_low, one.elo_high, over), f"{one.games:,}") for one in players]
    columns = ["player", ">Elo", ">95 % interval", "", ">games"]
    made = table("Ladder, strongest first", columns, rows, marked=[one.is_champion for one in players])
    about = el("p", "Elo with random at 0, from the gatekeeper's games.", class_="dim")
    return [*parts, about, made, source(report, "report")]


def models_section(report: RunReport) -> list[Markup]:
    """Return a row for each version, newest first."""
    versions = report.models.versions
    if not versions:
        text = "No model is stored yet: the trainer has not exported one."
        return [el("p", text, class_="dim"), source(report, "models")]
    shown = versions[:MOST_ROWS]
    columns = [
        ">version",
        "status",
        ">parent",
        ">Elo",
        ">95 % interval",
        ">rated games",
        ">steps",
        ">games",
        "exported, UTC",
        "verdict",
    ]
    made = table(
        "Versions, newest first",
        columns,
        [
            (
                f"{row.version}{' ★' if row.is_champion else ''}",
                row.status,
                str(row.parent_version or UNKNOWN),
                *_elo(row),
                f"{row.rated_games:,}" if row.rated_games else "",
                f"{row.train_steps:,}",
                f"{row.games_seen:,}",
                "" if row.created_at is None else f"{row.created_at:%Y-%m-%d %H:%M:%S}",
                row.reason or row.note,
            )
            for row in shown
        ],
        marked=[row.is_champion for row in shown],
        is_long=True,
    )
    return [_count(len(shown), len(versions), "Versions"), made, source(report, "models")]


def matches_section(report: RunReport) -> list[Markup]:
    """Return a row for each match, newest first, with its pairs by points and the path of its test."""
    found = report.matches
    parts = []
    if found.fault:
        parts.append(el("p", f"Bounds of the test are unknown: {found.fault}", class_="note"))
    if not found.matches:
        return [*parts, el("p", "No match has been played yet.", class_="dim"), source(report, "report")]
    paths = {one.id: one.path for one in report.latest}
    rows = []
    shown = found.matches[:MOST_ROWS]
    for row in shown:
        path, low, high = paths.get(row.id), row.llr_low, row.llr_high
        drawn = path_chart(path, low, high) if path and len(path) > 1 and low is not None and high is not None else ""
        rows.append(
            (
                f"{row.version} : {row.opponent}",
                {"gate": "gate match", "measurement": "measurement"}.get(row.kind, ""),
                row.status if row.state == "decided" else {"open": "in progress", "ended": "no verdict"}[row.state],
                f"+{row.wins} ={row.draws} -{row.losses}",
                f"{100 * row.share:.1f} %" if row.is_begun else "",
                f"{100 * row.share_low:.1f} to {100 * row.share_high:.1f} %" if row.is_begun else "",
                f"{row.log_likelihood_ratio:+.2f}",
                "" if low is None or high is None else f"{low:+.2f}, {high:+.2f}",
                histogram(row.pentanomial),
                drawn,
            )
        )
    columns = ["versions", "match", "verdict", "score", ">share", ">95 % interval", ">llr", "bounds", "pairs by points", "path"]
    made = table("Matches, newest first", columns, rows, is_long=True)
    about = [el("p", f"Rule: {found.rule}.")] if found.rule else []
    count = _count(len(shown), len(found.matches), "Matches")
    return [*parts, *about, count, made, source(report, "report")]


def _ladder_curve(players: Sequence[LadderPlayer]) -> Markup | None:
    models = sorted(
        (one for one in players if one.version is not None and one.elo is not None), key=lambda one: one.version or 0
    )
    at = [float(one.version or 0) for one in models]
    band = Band(Line("low", at, [one.elo_low for one in models]), Line("high", at, [one.elo_high for one in models]))
    levels = [(one.name, one.elo) for one in players if one.version is None and one.elo is not None]
    line = Line("champions", at, [one.elo for one in models])
    return line_chart("Elo of champions over versions, among rungs", [line], band=band, levels=levels)


def _name(one: LadderPlayer) -> str:
    star = " ★" if one.is_champion else ""
    return f"{one.name if one.version is None else f'version {one.version}'}{star}"


def _rating(elo: float | None, low: float | None, high: float | None, over: tuple[float, float]) -> tuple[str, str, Markup]:
    if elo is None or low is None or high is None:
        return NOT_ANCHORED, "", Markup("")
    if low == high:
        return f"{elo:.0f}", "", Markup("")
    return f"{elo:.0f}", f"{low:.0f} to {high:.0f}", interval(elo, low, high, over=over)


def _elo(row: ModelEntry) -> tuple[str, str]:
    if row.elo is None or row.elo_low is None or row.elo_high is None:
        return (NOT_ANCHORED if row.rated_games else "", "")
    return f"{row.elo:.0f}", f"{row.elo_low:.0f} to {row.elo_high:.0f}"


def _count(shown: int, all_of_them: int, what: str) -> Markup:
    return el("p", f"Newest {shown:,} of {all_of_them:,}." if shown < all_of_them else f"{what}: {shown:,}.", class_="dim")
