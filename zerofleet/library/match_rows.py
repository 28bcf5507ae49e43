"""Rows of the matches of the gate, each from the point of view of the version that is measured, and their pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from zerofleet.library.values import Value

__all__ = ["KINDS", "VERDICTS", "Kind", "MatchList", "MatchQuery", "MatchRow", "Stage", "page_of"]

Kind = Literal["gate", "measurement", ""]
Stage = Literal["open", "decided", "ended"]
KINDS = ("gate", "measurement")
"""Kinds of matches that a query names."""
VERDICTS = ("promoted", "rejected", "trial", "unproven", "weaker", "broken", "superseded", "open", "ended")
"""Verdicts that a query names: the status of the version of a decided match, or the state of any other."""


class MatchRow(Value):
    """Match of a candidate, or measurement of a version that was promoted at once, from its point of view."""

    id: str
    """Id in the journal; empty where the report of the verdict alone remains."""
    kind: Kind
    """Match of the gate before a promotion, or measurement after one; empty where the journal no longer tells."""
    version: int
    opponent: int
    """Version of the champion, or of the reference."""
    state: Stage
    """`open`, `decided` by its rule, or `ended` without a verdict, as when the champion changed meanwhile."""
    status: str
    """Status of the version at present: promoted, rejected, playing, trial, …"""
    reason: str
    pairs: int
    """Pairs of games that count: those before the decision; groups of all seatings in games of more players."""
    wins: int
    draws: int
    losses: int
    pentanomial: tuple[int, int, int, int, int]
    """Number of pairs by the version's score in half points: index 0 = no point, 4 = two wins."""
    is_begun: bool
    """Whether a game that counts has ended; without one the share is no figure."""
    share: float
    """Share of points in [0, 1]."""
    share_low: float
    """Lower end of its 95 % interval."""
    share_high: float
    """Upper end of its 95 % interval."""
    log_likelihood_ratio: float
    """Value of the sequential test; 0 when another rule decides."""
    llr_low: float | None
    """Bound at which the version fails; None without a sequential test, or while its settings are unknown."""
    llr_high: float | None
    """Bound at which it passes."""


class MatchList(Value):
    """Matches of a run, those of the newest version first, and of a version the newest first."""

    matches: tuple[MatchRow, ...]
    total: int
    """Number of matches that fit the query, those of other pages included."""
    next_before: int | None
    """Version with which a query for older ones goes on; None where none is left."""
    rule: str
    """Settings of the gate, in words."""
    fault: str
    """Reason why the settings of the gate are unknown; empty where they are known."""


@dataclass(frozen=True, slots=True)
class MatchQuery:
    """Wanted matches, newest first.

    Pages end between versions, as those of the list of models do: a version keeps its place while matches begin, and while the
    gatekeeper drops the oldest verdicts, which a count of matches would not.
    """

    limit: int
    """Maximum number of versions; all wanted matches of each are listed."""
    before: int | None = None
    """Version: only matches of older ones are listed."""
    version: int | None = None
    """Version whose matches are wanted; None for all."""
    opponent: int | None = None
    """Version against which they were played; None for any."""
    verdict: str | None = None
    """One of `VERDICTS`; None for any."""
    kind: str | None = None
    """One of `KINDS`; None for any."""

    def fits(self, row: MatchRow) -> bool:
        """Return whether every given condition holds for a match, apart from its page."""
        verdict = row.status if row.state == "decided" else row.state
        found = {"version": row.version, "opponent": row.opponent, "verdict": verdict, "kind": row.kind}
        return all(getattr(self, name) in {None, value} for name, value in found.items())


def page_of(listed: MatchList, query: MatchQuery) -> MatchList:
    """Return a page of the wanted matches of a list of all; the total is that of all pages."""
    wanted = [row for row in listed.matches if query.fits(row)]
    older = [row for row in wanted if query.before is None or row.version < query.before]
    versions = list(dict.fromkeys(row.version for row in older))
    oldest = versions[: query.limit][-1] if versions else 0
    shown = tuple(row for row in older if row.version >= oldest)
    next_before = oldest if len(shown) < len(older) else None
    return listed.model_copy(update={"matches": shown, "total": len(wanted), "next_before": next_before})
