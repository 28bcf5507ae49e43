"""Live pages of a run on a terminal, drawn from `Readings` only: an overview, and the diagnostics of self-play and gate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from zerofleet.contracts.promotions import Candidate, CandidateStatus, Rung
from zerofleet.supervisor.child import ChildState
from zerofleet.supervisor.diagnostics_page import diagnostics_panels
from zerofleet.supervisor.figures import figures
from zerofleet.supervisor.panels import (
    ACCENT,
    GOOD,
    LABEL,
    LOOK,
    WRONG,
    beside,
    empty_table,
    figures_panel,
    framed,
)
from zerofleet.supervisor.readings import Match, Readings, ServiceReading
from zerofleet.supervisor.words import (
    clock,
    count,
    duration,
    memory,
    share,
)

__all__ = ["PAGES", "Event", "Title", "draw"]

PAGES = ("overview", "diagnostics")
"""Names of the pages; the first is shown at the start."""

ROWS, COMPACT_ROWS = 7, 4
"""Number of table rows, full and compact."""
WIDE_COLUMNS, TALL_LINES = 96, 30
"""Minimum terminal size for the full page."""
EVENTS_SHOWN = 4
SERVICE_ROWS = 3
"""Most rows of services; each beyond the first takes the place of an event."""

_STATUS_STYLES = {
    CandidateStatus.PROMOTED: GOOD,
    CandidateStatus.PLAYING: ACCENT,
    CandidateStatus.BROKEN: WRONG,
    CandidateStatus.QUEUED: LABEL,
    CandidateStatus.SUPERSEDED: LABEL,
    CandidateStatus.TRIAL: ACCENT,
    CandidateStatus.UNPROVEN: LABEL,
    CandidateStatus.WEAKER: WRONG,
}
_STATE_STYLES = {
    ChildState.READY: GOOD,
    ChildState.STARTING: LOOK,
    ChildState.RESTARTING: WRONG,
    ChildState.DRAINING: LOOK,
    ChildState.ENDED: LABEL,
    ChildState.SILENT: WRONG,
}


class Event(NamedTuple):
    """Event and its time since the start."""

    at_s: float
    text: str


@dataclass(frozen=True, slots=True)
class Title:
    """Constant facts of a run on the page."""

    game: str
    preset: str
    run_dir: str
    duration_s: float | None
    interrupt: str
    """Effect of Ctrl-C: `Ctrl-C stops it; the same command resumes`."""


def draw(
    title: Title,
    now: Readings,
    events: Sequence[Event],
    *,
    columns: int,
    lines: int,
    page: str = PAGES[0],
    has_keys: bool = False,
) -> RenderableType:
    """Return a page of `PAGES` for a terminal of this size; a small one has the same panels with less text.

    `has_keys`: keys select the page, and the last line lists them.
    """
    full = columns >= WIDE_COLUMNS and lines >= TALL_LINES
    panels = _overview_panels(now, full) if page == PAGES[0] else diagnostics_panels(now, full)
    services = _services(now, full, columns)
    return Group(
        _headline(title, now),
        *panels,
        *services,
        _events(events[max(0, len(events) - (EVENTS_SHOWN if full else 2) + len(services[1:])) :]),
        _footer(title, page if has_keys else None, columns),
    )


def _overview_panels(now: Readings, full: bool) -> list[RenderableType]:
    numbers = [figures_panel(name, rows, full) for name, rows in figures(now)]
    tables = [_candidates(now, full), _ladder(now, full)]
    return [beside(numbers, (1, 1, 1)), beside(tables, (3, 2) if full else (1, 1))]


def _headline(title: Title, now: Readings) -> RenderableType:
    name = Text.assemble(("zerofleet ", f"bold {ACCENT}"), (title.game, "bold"), (f"  {title.preset}", LABEL))
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(ratio=1)
    grid.add_column(justify="right")
    if title.duration_s is None:
        grid.add_row(name, Text.assemble((clock(now.elapsed_s), "bold"), (" elapsed", LABEL)))
    else:
        left_s = max(0.0, now.left_s if now.left_s is not None else title.duration_s)
        bar = ProgressBar(title.duration_s, title.duration_s - left_s, width=24, style=LABEL, complete_style=ACCENT)
        grid.add_column(width=24)
        told = Text.assemble((clock(now.elapsed_s), "bold"), (f" of {clock(title.duration_s)}", LABEL))
        grid.add_row(name, told, bar)
    return Padding(grid, (0, 1, 1, 1))


def _candidates(now: Readings, full: bool) -> Panel:
    rows = ROWS if full else COMPACT_ROWS
    table = (
        empty_table(">version", "verdict", ">won", ">drawn", ">lost", ">score", ">llr")
        if full
        else empty_table("", "", ">score", ">llr")
    )
    champion = now.champion.version if now.champion else 0
    for candidate in reversed(now.candidates[-rows:]):
        row = _candidate_row(candidate, now, is_champion=candidate.version == champion)
        table.add_row(*(row if full else [*row[:2], *row[5:]]))
    body = table if now.candidates else Text(now.phase or "waiting for the first network", style=LABEL)
    match = now.match
    ends = f"the match ends at llr {match.llr_low:+.2f} or {match.llr_high:+.2f}" if full and match and match.llr_high else ""
    return framed("candidates", body, height=rows + 3, subtitle=ends)


def _candidate_row(candidate: Candidate, now: Readings, *, is_champion: bool) -> list[RenderableType]:
    verdict = Text(candidate.status.value, style=_STATUS_STYLES.get(candidate.status, ""))
    if is_champion:
        verdict.append(" ★", style=LOOK)
    on_trial = candidate.status is CandidateStatus.TRIAL
    if on_trial and candidate.version in now.promoted_for_s:
        verdict.append(f" {duration(max(0.0, now.promoted_for_s[candidate.version]))}", style=LABEL)
    version = Text(str(candidate.version), style="bold" if is_champion else "")
    match = now.match
    if match is None or match.version != candidate.version:
        match = _decided(candidate)
    if match is None:
        return [version, verdict, "", "", "", "0 games" if on_trial else "", ""]
    score = share(math.nan if match.share is None else match.share)
    if match.share is not None and match.share_low is not None and match.share_high is not None:
        score += f" ±{50 * (match.share_high - match.share_low):.0f}"
    return [version, verdict, str(match.wins), str(match.draws), str(match.losses), score, f"{match.llr:+.2f}"]


def _decided(candidate: Candidate) -> Match | None:
    """Return the decided match of a candidate, None without one."""
    if (report := candidate.match) is None:
        return None
    counts = (report.wins, report.draws, report.losses)
    points = (report.share, report.share_low, report.share_high)
    return Match(candidate.version, *counts, report.log_likelihood_ratio, 0.0, 0.0, *points)


def _ladder(now: Readings, full: bool) -> Panel:
    rows = ROWS if full else COMPACT_ROWS
    table = empty_table("player", ">Elo", ">±", ">games") if full else empty_table("", ">Elo", ">±")
    for rung in _ladder_rows(now, rows):
        mine = now.is_champion(rung)
        style = "bold" if mine else ""
        margin = (rung.elo_high - rung.elo_low) / 2
        row: list[RenderableType] = [
            Text(_player(rung, mine), style=style),
            Text(f"{rung.elo:.0f}", style=style) if rung.anchored else Text("not anchored", style=LABEL),
            f"{margin:.0f}" if rung.anchored and margin else "",  # `random` is 0 by definition
            count(rung.games),
        ]
        table.add_row(*(row if full else row[:3]))
    age = f" · champion for {duration(now.champion_age_s)}" if now.champion and full else ""
    body = table if any(rung.games for rung in now.ladder) else Text("no games yet", style=LABEL)
    return framed(f"ladder{age}", body, height=rows + 3)


def _ladder_rows(now: Readings, rows: int) -> list[Rung]:
    """Return the version rated last, the classical rungs and, if there is room, other models, strongest first."""
    rated = now.rated_rung
    wanted = sorted(now.ladder, key=lambda rung: (rung != rated, rung.name.startswith("model:"), -rung.elo))
    return sorted(wanted[:rows], key=lambda rung: (not rung.anchored, -rung.elo))


def _player(rung: Rung, is_champion: bool) -> str:
    kind, _, number = rung.name.partition(":")
    name = {"model": f"version {number}", "alpha_beta": f"alpha-beta {number}"}.get(kind, rung.name)
    return f"{name} ★" if is_champion else name


def _services(now: Readings, full: bool, columns: int) -> list[Text]:
    """Return rows with the services; where `SERVICE_ROWS` are too few, the last one is cut."""
    warning = [Text(now.disk_warning, style=WRONG)] if now.disk_warning else []
    gap = "   " if full else "  "
    rows: list[Text] = []
    for part in (*warning, *(_service(service, full) for service in now.services)):
        if rows and (len(rows) == SERVICE_ROWS or rows[-1].cell_len + len(gap) + part.cell_len <= columns):
            rows[-1].append(gap).append_text(part)
        else:
            rows.append(Text(" ", no_wrap=True, overflow="ellipsis").append_text(part))
    return rows or [Text("")]


def _service(service: ServiceReading, full: bool) -> Text:
    style = _STATE_STYLES[service.state]
    line = Text.assemble(("● ", style), service.name.replace("_", " "))
    if service.state is ChildState.READY and full:
        line.append(f" {memory(service.memory_bytes)}", style=LABEL)
    elif service.state is not ChildState.READY and service.compiling is None:
        line.append(f" {service.state.value}", style=style)
    if service.compiling is not None:
        line.append(f" compiles, {service.compiling.time}", style=LOOK)
    if service.device:
        line.append(f" {service.device} {share(service.share)}", style=LABEL)
    if service.restarts:
        line.append(f" {service.restarts} restart{'s' if service.restarts > 1 else ''}", style=LOOK)
    return line


def _events(events: Sequence[Event]) -> RenderableType:
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(justify="right", style=LABEL, no_wrap=True, min_width=7)
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)  # without a ratio it takes the width of its text
    for event in events:
        grid.add_row(clock(event.at_s), event.text.partition("\n")[0])  # a log stays in its file
    return Padding(grid, (1, 0, 1, 0)) if events else Text("")


def _footer(title: Title, page: str | None, columns: int) -> RenderableType:
    """Return the last line, with the keys of the pages if one of them is given as the present one.

    Where it is too long, the second half of what Ctrl-C does is left out, then the beginning of the directory.
    """
    line = Text(" ", no_wrap=True, overflow="ellipsis")
    for number, name in enumerate(PAGES if page else (), start=1):
        line.append(f"{number} {name}", style=f"bold {ACCENT}" if name == page else LABEL)
        line.append("  ")
    line.append("run ", LABEL)
    for interrupt in (title.interrupt, title.interrupt.partition(";")[0]):
        room = columns - line.cell_len - cell_len(interrupt) - 3
        if cell_len(title.run_dir) <= room:
            break
    run_dir = title.run_dir if cell_len(title.run_dir) <= room else f"…{title.run_dir[-max(room - 1, 1) :]}"
    line.append(run_dir).append(f"   {interrupt}", LABEL)
    return line
