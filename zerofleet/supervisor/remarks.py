"""Remarks on diagnostics: a short reading of each figure for people, and whether it needs attention.

The limits are those of the alerts `SelfPlayHasBecomeNarrow` and `GateHoldsLearningBack`, as far as these have one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from zerofleet.supervisor.diagnostics import Diagnostics
from zerofleet.supervisor.words import share

__all__ = [
    "ADOPTION_LIMIT_S",
    "ENTROPY_LIMIT",
    "GATE_LIMIT",
    "NEW_POSITIONS_LIMIT",
    "OVERLOOKED_LIMIT",
    "RESIGNED_LIMIT",
    "Remark",
    "is_narrow",
    "on_adoption",
    "on_entropy",
    "on_gate",
    "on_openings",
    "on_overlooked_wins",
    "on_positions",
    "on_resignation",
    "warnings",
]

ENTROPY_LIMIT = 0.67
"""Target entropy as a share of its highest value, below which play is narrow if few positions are new: two thirds."""
NEW_POSITIONS_LIMIT = 0.65
"""Share of new positions below which play is narrow if the targets lost entropy."""
RESIGNED_LIMIT = 0.4
"""Share of resigned games above which too few wins are played out."""
OVERLOOKED_LIMIT = 0.05
"""Share of overlooked wins in one above which play is weak at the end of a game."""
WINS_NEEDED = 100
"""Wins in one before their share means anything."""
GATE_LIMIT = 0.1
"""Share of evaluations spent on matches above which the gate is expensive: twice what mode `watch` spends by default."""
ADOPTION_LIMIT_S = 120.0
"""Mean time from export to adoption above which self-play is far behind the learner."""


class Remark(NamedTuple):
    """Reading of a figure."""

    text: str
    needs_attention: bool = False


def on_resignation(found: Diagnostics) -> Remark:
    """Return the reading of the share of resigned games."""
    if found.resigned_share > RESIGNED_LIMIT:
        return Remark("too many: few are played out", needs_attention=True)
    return Remark("" if math.isnan(found.resigned_share) else "of the latest 1,000 games")


def on_overlooked_wins(found: Diagnostics) -> Remark:
    """Return the reading of the share of overlooked wins in one."""
    met = found.wins_taken + found.wins_overlooked
    if met >= WINS_NEEDED and found.overlooked_share > OVERLOOKED_LIMIT:
        return Remark("overlooks wins", needs_attention=True)
    return Remark(f"{found.wins_overlooked:,} of {met:,} since the start" if met else "")


def is_narrow(found: Diagnostics) -> bool:
    """Return whether play became narrow: the targets lost entropy and games repeat positions; either alone is no fault."""
    return (
        found.target_entropy < ENTROPY_LIMIT * found.highest_entropy  # false for unknown values
        and found.new_positions < NEW_POSITIONS_LIMIT
    )


def on_entropy(found: Diagnostics) -> Remark:
    """Return the reading of the target entropy."""
    if not found.highest_entropy > 0:
        return Remark("")
    text = f"{share(found.target_entropy / found.highest_entropy)} of its highest"
    return Remark(f"{text}: narrow", needs_attention=True) if is_narrow(found) else Remark(text)


def on_openings(found: Diagnostics) -> Remark:
    """Return the definition of the share of distinct openings, which has no limit of its own."""
    return Remark("" if math.isnan(found.distinct_openings) else "different first 8 plies per game")


def on_positions(found: Diagnostics) -> Remark:
    """Return the reading of the share of new positions."""
    if is_narrow(found):
        return Remark("narrow: games repeat themselves", needs_attention=True)
    return Remark("" if math.isnan(found.new_positions) else "among the latest 50,000")


def on_gate(found: Diagnostics) -> Remark:
    """Return the reading of the gate's share of evaluations."""
    if found.match_share > GATE_LIMIT:
        return Remark("the gate is expensive", needs_attention=True)
    return Remark("last 5 minutes")


def on_adoption(found: Diagnostics) -> Remark:
    """Return the reading of the time from export to adoption."""
    if found.adoption_s > ADOPTION_LIMIT_S:
        return Remark("the gate holds learning back", needs_attention=True)
    return Remark(f"mean of {found.adoptions:,}" if found.adoptions else "none yet")


def warnings(found: Diagnostics) -> list[str]:
    """Return the readings that need attention, with the name of the figure."""
    remarks = {
        "resigned games": on_resignation(found),
        "wins in one": on_overlooked_wins(found),
        "target entropy": on_entropy(found),
        "new positions": on_positions(found),
        "gate": on_gate(found),
        "export to adoption": on_adoption(found),
    }
    return [f"{name}: {remark.text}" for name, remark in remarks.items() if remark.needs_attention]
