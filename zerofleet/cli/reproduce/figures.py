"""Figures of claims as text, with the decimals by which their verdicts can be checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zerofleet.strength.claims.tallies import Estimate
from zerofleet.strength.claims.verdicts import Bar, verdict

__all__ = ["figure_and_interval", "with_interval"]

_MOST_DECIMALS = 4


def figure_and_interval(claim: Mapping[str, Any]) -> tuple[str, str]:
    """Return figure and interval of a claim of a report; both are empty without a figure, a count has no interval."""
    if claim["estimate"] is None:
        return "", ""
    found = Estimate(**claim["estimate"])
    places = _decimals(found, Bar(**claim["bar"]))
    interval = "" if found.interval == "count" else f"{found.low:,.{places}f} to {found.high:,.{places}f}"
    return f"{found.value:,.{places}f}", interval


def with_interval(claim: Mapping[str, Any]) -> str:
    """Return `figure_and_interval` as one text."""
    figure, interval = figure_and_interval(claim)
    return f"{figure} ({interval})" if interval else figure


def _decimals(found: Estimate, bar: Bar) -> int:
    """Return the fewest decimals, at least one, that resolve the interval and leave the verdict on the rounded figures."""
    width = found.high - found.low
    fewest = max(1, math.ceil(-math.log10(width))) if width > 10.0**-_MOST_DECIMALS else 1
    exact = verdict(found, bar)
    enough = (places for places in range(fewest, _MOST_DECIMALS + 1) if verdict(_rounded(found, places), bar) == exact)
    return next(enough, fewest)


def _rounded(found: Estimate, places: int) -> Estimate:
    return replace(found, value=round(found.value, places), low=round(found.low, places), high=round(found.high, places))
