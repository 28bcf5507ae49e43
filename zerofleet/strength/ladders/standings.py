"""Standings of a run's ladder: ratings of its champions and of the classical rungs, and which of them are anchored.

    random ── alpha_beta:1 ── … ── uct:200          rungs, linked to the anchor by games
       └──────── model:7 ────────────┘              anchored: played rungs itself
                    │ gate match
                 model:9                            not anchored: no game against a rung

Without games against the rungs the scale of a rating is that of the prior: the number moves by hundreds of Elo as other
players' games arrive, and its interval spans thousands. Such a rating is not to be shown as a number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from zerofleet.contracts.lineage import confirmed_versions
from zerofleet.contracts.promotions import Champion, Rung
from zerofleet.strength.gate_record import GateRecord
from zerofleet.strength.ladders.rungs import ANCHOR
from zerofleet.strength.ratings import Placement, Tally, rate

__all__ = ["RATED_CHAMPIONS", "counted_games", "standings", "standings_of"]

RATED_CHAMPIONS = 40  # the latest; the cost of rating is cubic in their number
_MODEL = "model:"


def standings(record: GateRecord, history: Sequence[Champion]) -> list[Rung]:
    """Return the ladder, strongest first and what is not anchored last, from a gate's record and all champions, oldest first.

    Rates the classical players and the latest confirmed champions, from all their games with each other.
    """
    return standings_of(counted_games(record, history))


def counted_games(record: GateRecord, history: Sequence[Champion]) -> list[Tally | Placement]:
    """Return the games that `standings` rates, in milliseconds."""
    champions = confirmed_versions(history, record.candidates.values())[-RATED_CHAMPIONS:]
    models = {f"{_MODEL}{version}" for version in champions}
    return record.evidence(lambda name: name in models or not name.startswith(_MODEL))


def standings_of(counted: Sequence[Tally | Placement]) -> list[Rung]:
    """Return the standings by these games, in up to half a second for games of three players."""
    anchored = _anchored(counted)
    rated = sorted(rate(counted, anchor=ANCHOR), key=lambda rating: rating.name not in anchored)
    return [Rung(r.name, r.elo, r.low, r.high, r.games, anchored=r.name in anchored) for r in rated]


def _anchored(results: Iterable[Tally | Placement]) -> Collection[str]:
    """Return the rungs that a chain of games links to the anchor, and the models that played against one of them."""
    met = [_players(one) for one in results]
    linked = {ANCHOR}
    while found := {name for names in met if names & linked for name in names} - linked:
        linked |= found
    rungs = {name for name in linked if not name.startswith(_MODEL)}
    return rungs | {name for names in met if names & rungs for name in names}


def _players(result: Tally | Placement) -> set[str]:
    return {result.first, result.second} if isinstance(result, Tally) else set(result.players)
