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
    undecided: bool = False
    """Whether a sequential test ended without a verdict."""


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
    """Sequential test; if undecided at the last group, the first player passes only with `undecided_passes`."""

    sprt: Sprt
    undecided_passes: bool = False

    def decide(self, standing: Standing, *, is_last: bool) -> Decision | None:
        """See `StoppingRule`."""
        evidence = self.log_likelihood_ratio(standing)
        verdict = self.sprt.verdict(evidence)
        undecided = verdict is Verdict.CONTINUE
        if undecided and not is_last:
            return None
        conclusion = f"{self.sprt.conclusion(verdict)}{' at the last game' if undecided else ''}"
        bounds = f"log-likelihood ratio {evidence:.2f}, bounds {self.sprt.lower:.2f} and {self.sprt.upper:.2f}"
        passes = self.undecided_passes if undecided else verdict is Verdict.STRONGER
        return Decision(passes, f"{conclusion}: {_score_text(standing)}, {bounds}", undecided)

    def log_likelihood_ratio(self, standing: Standing) -> float:
        """See `StoppingRule`."""
        if not standing.groups:
            return 0.0
        return float(self.sprt.evidence(*histogram(standing.group_scores)))


def _score_text(standing: Standing) -> str:
    total = standing.total
    return f"{total.wins} won, {total.draws} drawn, {total.losses} lost ({standing.share:.1%})"
