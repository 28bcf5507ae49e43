"""Hints in a position: the moves that win or lose within a few plies, without a model."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from games.core import Game, State
from zerofleet.agents.depth_first.alpha_beta import SearchedMoves
from zerofleet.agents.depth_first.deepening import finish
from zerofleet.agents.depth_first.minimax import MinimaxSearch
from zerofleet.errors import InvalidRequest

__all__ = ["OUTLOOK_PLIES", "OUTLOOK_S", "Outlook", "outlook_of"]

OUTLOOK_PLIES = 6
"""Depth of a hint, deep enough for a double threat."""

OUTLOOK_S = 0.5
"""Time of a hint, where positions have so many moves that six plies take seconds, as in Abalone; the depth is then less."""

_SLICE_NODES = 1 << 14  # between two looks at the clock: milliseconds


@dataclass(frozen=True, slots=True)
class Outlook:
    """Legal moves by outcome."""

    plies: int
    """Searched depth, 1 to `OUTLOOK_PLIES`."""
    kinds: dict[str, list[str]]
    """Moves in notation: wins, open and loses."""


def outlook_of(game: Game, state: State, *, clock: Callable[[], float] = time.perf_counter) -> Outlook:
    """Return the outcome of every legal move within `OUTLOOK_PLIES`, or the plies that `OUTLOOK_S` allows.

    Raises `InvalidRequest` for a game of other than two players or without perfect information.
    """
    spec = game.spec()
    if spec.num_players != 2 or spec.information != "perfect":
        raise InvalidRequest("hints need a model; play against one to get them")
    searched, plies = _deepest(MinimaxSearch(game, state, deepest=OUTLOOK_PLIES, root="all", estimated=False), clock)
    kinds = {"wins": searched.values > 0, "open": searched.values == 0, "loses": searched.values < 0}
    listed = {kind: [game.action_name(state, int(a)) for a in searched.actions[chosen]] for kind, chosen in kinds.items()}
    return Outlook(plies, listed)


def _deepest(search: MinimaxSearch, clock: Callable[[], float]) -> tuple[SearchedMoves, int]:
    """Return the moves with their values at the last depth completed in time, and that depth."""
    searched = finish(search, 1)  # loads the code, which is no part of the time
    ends_s = clock() + OUTLOOK_S
    for depth in range(2, OUTLOOK_PLIES + 1):
        search.begin(depth, None)
        while not search.run(_SLICE_NODES):
            if clock() >= ends_s:
                return searched, depth - 1
        searched = search.found()
    return searched, OUTLOOK_PLIES
