"""Hints in a position: the moves that win or lose within a few plies, without a model."""

from __future__ import annotations

from games.core import Game, State
from zerofleet.agents.depth_first.alpha_beta import search_moves
from zerofleet.errors import InvalidRequest

__all__ = ["OUTLOOK_PLIES", "outlook_kinds"]

OUTLOOK_PLIES = 6  # instant on any machine, and deep enough for a double threat


def outlook_kinds(game: Game, state: State) -> dict[str, list[str]]:
    """Return the legal moves in notation by outcome within `OUTLOOK_PLIES`: wins, open and loses.

    Raises `InvalidRequest` for a game of other than two players or without perfect information.
    """
    spec = game.spec()
    if spec.num_players != 2 or spec.information != "perfect":
        raise InvalidRequest("hints need a model; play against one to get them")
    searched = search_moves(game, state, OUTLOOK_PLIES)
    kinds = {"wins": searched.values > 0, "open": searched.values == 0, "loses": searched.values < 0}
    return {kind: [game.action_name(state, int(a)) for a in searched.actions[chosen]] for kind, chosen in kinds.items()}
