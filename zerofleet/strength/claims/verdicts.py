"""Verdicts: a stated figure against our estimate, by the 95 % interval.

better = higher          better = lower           better = equal
beaten     low > beat    beaten     high < beat   matched   interval within match -+ tolerance
missed     high < match  missed     low > match   missed    interval outside of it
matched    low >= match, or the interval holds `match` and is narrow: half its width is at most `tolerance`
undecided  otherwise: more games or seeds are needed
diverged   a training that the claim needs ended with weights that are not finite; no figure decides this verdict
not run    no estimate, or one under other conditions than the claim's

With `tolerance` 0 the claim is an advantage over `match`, such as 0 of a difference or half of the points: an interval that
holds `match` is undecided, however narrow.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from zerofleet.strength.claims.tallies import Estimate

__all__ = ["DEFAULT_TOLERANCE", "DIVERGED", "VERDICTS", "Bar", "Verdict", "deciding_width", "games_for", "verdict"]

Verdict: TypeAlias = Literal["beaten", "matched", "missed", "undecided", "diverged", "not run"]
VERDICTS: tuple[Verdict, ...] = ("beaten", "matched", "missed", "undecided", "diverged", "not run")
DIVERGED: Verdict = "diverged"
"""Verdict without a figure; also the name of the reason in the result of a stage whose training diverged."""
DEFAULT_TOLERANCE = 5.0  # percentage points


class Bar(BaseModel):
    """Figures that decide a verdict, in percentage points."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    better: Literal["higher", "lower", "equal"] = "higher"
    """Direction of improvement; `equal`: the claim is the figure itself."""
    match: float
    """Figure to match."""
    beat: float | None = None
    """Figure to beat; None: `match`."""
    tolerance: float = Field(default=DEFAULT_TOLERANCE, ge=0)
    """Half the width of a narrow interval, 0: none is; with `equal`, the largest difference that counts as none."""

    def as_json(self) -> dict[str, str | float | None]:
        """Return the figures alone, of a subclass as well, as a report holds them."""
        return {"better": self.better, "match": self.match, "beat": self.beat, "tolerance": self.tolerance}


def verdict(found: Estimate | None, bar: Bar) -> Verdict:
    """Return the verdict on a claim."""
    if found is None:
        return "not run"
    if bar.better == "equal":
        return _equal(found, bar)
    sign = 1.0 if bar.better == "higher" else -1.0
    low, high = sorted((sign * found.low, sign * found.high))
    match, beat = sign * bar.match, sign * (bar.match if bar.beat is None else bar.beat)
    if low > beat:
        return "beaten"
    if high < match:
        return "missed"
    if bar.tolerance == 0.0:
        return "matched" if low > match else "undecided"
    if low >= match or (high - low) / 2.0 <= bar.tolerance:
        return "matched"
    return "undecided"


def deciding_width(found: Estimate, bar: Bar) -> float:
    """Return half the width of an interval that decides an undecided claim if the figure stays.

    It then no longer holds the figure to match, or is narrow. With `equal` its end is at the edge of the band.
    """
    distance = abs(found.value - bar.match)
    return abs(bar.tolerance - distance) if bar.better == "equal" else max(bar.tolerance, distance)


def games_for(found: Estimate, half_width: float) -> int:
    """Return the number of games with which half of an interval over games is about `half_width`, above 0.

    The width of an interval falls with the root of the number of games.
    """
    return math.ceil(found.games * ((found.high - found.low) / 2.0 / half_width) ** 2)


def _equal(found: Estimate, bar: Bar) -> Verdict:
    lowest, highest = bar.match - bar.tolerance, bar.match + bar.tolerance
    if lowest <= found.low and found.high <= highest:
        return "matched"
    if found.high < lowest or found.low > highest:
        return "missed"
    return "undecided"
