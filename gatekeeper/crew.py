"""Crew: objects that arbiter and watch share, and the back-off with which both retry."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gatekeeper.ledger import Ledger
from gatekeeper.pointer import ChampionPointer
from gatekeeper.promoter import Promoter
from gatekeeper.referee import Referee
from gatekeeper.served_versions import Serving
from gatekeeper.verdicts import Verdicts
from zerofleet.contracts.lineage import confirmed_champion
from zerofleet.contracts.promotions import Champion
from zerofleet.evaluators.base import Evaluator
from zerofleet.rpc.backoff import Backoff

__all__ = ["Crew", "new_backoff"]

FIRST_PAUSE_S = 0.2
MAX_PAUSE_S = 10.0


@dataclass(frozen=True, slots=True)
class Crew:
    """Objects of one model that arbiter and watch share."""

    ledger: Ledger
    pointer: ChampionPointer
    serving: Serving
    referee: Referee
    promoter: Promoter
    verdicts: Verdicts
    evaluator: Evaluator
    """Evaluator of matches and measurements."""

    @property
    def confirmed(self) -> Champion | None:
        """Last confirmed champion; see `lineage`."""
        return confirmed_champion(self.pointer.history, self.ledger.candidates())


def new_backoff() -> Backoff:
    """Return the back-off of one loop of decisions."""
    return Backoff(FIRST_PAUSE_S, MAX_PAUSE_S, rng=random.Random())  # noqa: S311 - jitter, not a secret
