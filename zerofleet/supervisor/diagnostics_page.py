"""Panels of the second page: diagnostics of self-play, evaluations by purpose, and the way of a network to the workers."""

from __future__ import annotations

import math

from rich.console import RenderableType
from rich.panel import Panel
from rich.text import Text

from zerofleet.supervisor import remarks
from zerofleet.supervisor.diagnostics import ENDINGS, Diagnostics
from zerofleet.supervisor.panels import ACCENT, LABEL, LOOK, beside, empty_table, framed
from zerofleet.supervisor.readings import Readings
from zerofleet.supervisor.remarks import Remark
from zerofleet.supervisor.words import UNKNOWN, compact, count, decimals, duration, share, sparkline

__all__ = ["diagnostics_panels"]

TREND_CELLS, SMALL_TREND_CELLS = 24, 12
ROWS = 7
"""Height of the lower panels."""


def diagnostics_panels(now: Readings, full: bool) -> list[RenderableType]:
    """Return the panels of the page; without `full`, trends are shorter."""
    found = now.diagnostics
    lower = [_endings(found, full), _evaluations(found), _networks(now)]
    return [_self_play(found, full), beside(lower, (1, 1, 1))]


def _self_play(found: Diagnostics, full: bool) -> Panel:
    nats = UNKNOWN if math.isnan(found.target_entropy) else f"{decimals(found.target_entropy, 2)} nat"
    rows = (
        ("resigned games", share(found.resigned_share), "resigned_share", remarks.on_resignation(found)),
        ("wins in one overlooked", _per_cent(found.overlooked_share), "overlooked_share", remarks.on_overlooked_wins(found)),
        ("target entropy", nats, "target_entropy", remarks.on_entropy(found)),
        ("distinct openings", share(found.distinct_openings), "distinct_openings", remarks.on_openings(found)),
        ("new positions", share(found.new_positions), "new_positions", remarks.on_positions(found)),
    )
    table = empty_table("", ">now", "since start", "")
    table.columns[-1].ratio = 1
    for name, value, trend, remark in rows:
        table.add_row(Text(name, style=LABEL), value, Text(_thinned(found, trend, full), style=ACCENT), _told(remark))
    return framed("self-play", table)


def _endings(found: Diagnostics, full: bool) -> Panel:
    table = empty_table("ending", ">games", ">share")
    for ending in ENDINGS:
        games = found.endings.get(ending, 0)
        name = ending.replace("_", " ") if full else ending.partition("_")[0]
        part = games / found.games if found.games else math.nan
        table.add_row(Text(name, style=LABEL), compact(games), _per_cent(part))
    table.columns[0].ratio = 1
    return framed("games by ending", table, height=ROWS + 1)


def _evaluations(found: Diagnostics) -> Panel:
    parts = {"self-play": found.selfplay_evaluations, "gate": found.match_evaluations, "ladder": found.ladder_evaluations}
    table = empty_table("purpose", ">number", ">share")
    for name, number in parts.items():
        part = number / found.evaluations if found.evaluations else math.nan
        table.add_row(Text(name, style=LABEL), compact(number), _per_cent(part))
    table.add_row(Text("gate now", style=LABEL), "", _marked(_per_cent(found.match_share), remarks.on_gate(found)))
    table.add_row(Text("per sample", style=LABEL), compact(found.evaluations_per_sample), "")
    table.columns[0].ratio = 1
    return framed("evaluations", table, height=ROWS + 1)


def _networks(now: Readings) -> Panel:
    found = now.diagnostics
    playing = str(now.champion.version) if now.champion else UNKNOWN
    waiting = sum(not candidate.status.settled for candidate in now.candidates)
    adoption = remarks.on_adoption(found)
    table = empty_table("figure", ">value")
    table.add_row(Text("playing version", style=LABEL), playing)
    table.add_row(Text("age since export", style=LABEL), duration(found.network_age_s))
    table.add_row(Text("until adoption", style=LABEL), _marked(duration(found.adoption_s), adoption))
    table.add_row(Text("adopted", style=LABEL), count(found.adoptions))
    table.add_row(Text("undecided", style=LABEL), count(waiting))
    table.columns[0].ratio = 1
    return framed("network", table, height=ROWS + 1)


def _thinned(found: Diagnostics, name: str, full: bool) -> str:
    values = found.trends.get(name, ())
    return sparkline(values if full else values[-1::-2][::-1], TREND_CELLS if full else SMALL_TREND_CELLS)


def _told(remark: Remark) -> Text:
    return Text(remark.text, style=LOOK if remark.needs_attention else LABEL)


def _marked(value: str, remark: Remark) -> Text:
    return Text(value, style=LOOK if remark.needs_attention else "")


def _per_cent(part: float) -> str:
    """Return a share with one decimal place below 10 %."""
    return share(part) if math.isnan(part) or not part or part >= 0.0995 else f"{100 * part:.1f} %"
