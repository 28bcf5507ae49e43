"""Searched positions as people read them: named moves with prior, visits and value, and the expected line."""

from __future__ import annotations

import math
from collections.abc import Sequence

from games import positions
from games.core import Game, State
from zerofleet.contracts.opinions import MoveOpinion, Opinion
from zerofleet.search.root import RootAnalysis

__all__ = ["searched_opinion"]


def searched_opinion(game: Game, state: State, moves: Sequence[int], seed: int, analysis: RootAnalysis) -> Opinion:
    """Return the opinion of a search of `state`, the position after `moves` of the game with this seed."""
    opinions = tuple(
        MoveOpinion(
            game.action_name(state, int(analysis.actions[i])),
            int(analysis.actions[i]),
            float(analysis.priors[i]),
            int(analysis.visits[i]),
            None if math.isnan(analysis.values[i]) else float(analysis.values[i]),
        )
        for i in analysis.ranking()
    )
    names = positions.move_names(game, [*moves, *analysis.principal_variation], seed)
    value = tuple(float(v) for v in analysis.value)
    return Opinion(analysis.version, analysis.to_move, value, opinions, tuple(names[len(moves) :]), is_over=False)
