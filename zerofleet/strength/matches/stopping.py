"""Stopping rules of a match: a fixed number of games, a fixed share, or the sequential test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from zerofleet.strength.matches.scoreboard import Standing
from zerofleet.strength.ratings import Sprt, Verdict, histogram

__all__ = ["Decision", "FixedGames", "SequentialTest", "ShareOfPoints", "StoppingRule"]


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision of a match."""

    first_wins: bool
    """Whether the first player (the candidate) is preferred."""
    reason: str
    """Text with the figures."""


class StoppingRule(Protocol):
    """Rule that decides from the standing alone, so that an interrupted match ends like an uninterrupted one."""

    def decide(self, standing: Standing, *, is_last: bool) -> Decision | None:
        """Return the decision, None to continue; never None if no games remain (`is_last`)."""
        ...

    def log_likelihood_ratio(self, standing: Standing) -> float:
        """Return the log-likelihood ratio of the sequential test, 0 for other rules."""
        ...


@dataclass(frozen=True, slots=True)
class FixedGames:
    """Plays all games and prefers the player with more points."""

    def decide(self, standing: Standing, *, is_last: bool) -> Decision | None:
        """See `StoppingRule`."""
        return Decision(standing.share > 0.5, _score_text(standing)) if is_last else None

    def log_likelihood_ratio(self, standing: Standing) -> float:
        """See `StoppingRule`."""
        return 0.0


@dataclass(frozen=True, slots=True)
class ShareOfPoints:
    """Prefers the first player with at least `share` of the points of `groups` groups.

    Stops early only if the remaining groups cannot change the decision: an earlier test would raise the rate of false passes.
    """

    share: float
    groups: int

    def decide(self, standing: Standing, *, is_last: bool) -> Decision | None:
        """See `StoppingRule`."""
        played = standing.groups if is_last else self.groups
        got, open_groups = sum(standing.group_scores), max(0, played - standing.groups)
        need = self.share * played - 1e-9
        if standing.groups and got >= need:
            return Decision(True, f"{_score_text(standing)}, at least {self.share:.0%} wanted")
        if got + open_groups < need or not open_groups:
            return Decision(False, f"{_score_text(standing)}, at least {self.share:.0%} wanted")
        return None

    def log_likelihood_ratio(self, standing: Standing) -> float:
        """See `StoppingRule`."""
        return 0.0


@dataclass(frozen=True, slots=True)
class SequentialTest:
    """Sequential test; if undecided at the last group, the first player does not pass."""

    sprt: Sprt

    def decide(self, standing: Standing, *, is_last: bool) -> Decision | None:
        """See `StoppingRule`."""
        ratio = self.log_likelihood_ratio(standing)
        text = f"{_score_text(standing)}, log-likelihood ratio {ratio:.2f} in ({self.sprt.lower:.2f}, {self.sprt.upper:.2f})"
        verdict = self.sprt.verdict(ratio)
        if verdict is not Verdict.CONTINUE:
            return Decision(verdict is Verdict.STRONGER, f"{verdict.value}: {text}")
        if is_last:
            return Decision(False, f"undecided at the last game: {text}")
        return None

    def log_likelihood_ratio(self, standing: Standing) -> float:
        """See `StoppingRule`."""
        if not standing.groups:
            return 0.0
        counts, scores = histogram(standing.group_scores)
        return float(self.sprt.log_likelihood_ratio(counts, scores))


def _score_text(standing: Standing) -> str:
    total = standing.total
    return f"{total.wins} won, {total.draws} drawn, {total.losses} lost ({standing.share:.1%})"
