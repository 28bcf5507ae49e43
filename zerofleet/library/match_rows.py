"""Row of a match of the gate, from the point of view of the version that is measured."""

from __future__ import annotations

from typing import Literal

from zerofleet.library.values import Value

__all__ = ["Kind", "MatchRow", "Stage"]

Kind = Literal["gate", "measurement", ""]
Stage = Literal["open", "decided", "ended"]


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
