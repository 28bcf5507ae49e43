"""Ratings of the ladder: computed in a thread, seldom, and only from new games.

With forty champions of a game of three players a rating takes a third of a second, in which the event loop would answer no call
and start no evaluation.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from functools import partial

from gatekeeper.ledger import Ledger
from gatekeeper.pointer import ChampionPointer
from zerofleet.contracts.promotions import Rung
from zerofleet.rpc.calls import to_its_end
from zerofleet.strength.ladders.standings import counted_games, standings_of
from zerofleet.strength.ratings import Placement, Tally

__all__ = ["PERIOD_S", "Ratings"]

PERIOD_S = 3.0
"""Shortest time from one rating to the next; a call gets one of at most this age."""


class Ratings:
    """Ratings of one model's champions and of the rungs."""

    def __init__(self, ledger: Ledger, pointer: ChampionPointer) -> None:
        self._ledger = ledger
        self._pointer = pointer
        self._turn = asyncio.Lock()
        self._counted: Sequence[Tally | Placement] | None = None
        """Games of `_rungs`."""
        self._rungs: Sequence[Rung] = ()
        self._rated_at_s = -math.inf

    async def rungs(self, *, max_age_s: float) -> Sequence[Rung]:
        """Return the ladder, strongest first, by the games of at most `max_age_s` ago.

        Cancellation: raised once a computation that has begun is complete.
        """
        async with self._turn:
            loop = asyncio.get_running_loop()
            now_s = loop.time()
            if now_s - self._rated_at_s >= max_age_s:
                counted = counted_games(self._ledger.gate, self._pointer.history)
                if counted != self._counted:
                    computed = loop.run_in_executor(None, partial(standings_of, counted))
                    await to_its_end(computed, partial(self._keep, counted))
                self._rated_at_s = now_s
            return self._rungs

    def _keep(self, counted: Sequence[Tally | Placement], rungs: Sequence[Rung]) -> None:
        self._counted, self._rungs = counted, rungs
