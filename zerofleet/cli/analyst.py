"""What a model thinks of one position after a search: the engine behind `zerofleet play`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from games.core import Game
from zerofleet.evaluators.base import Evaluator
from zerofleet.search import RootAnalysis, SearchBlock, SearchSettings, step

__all__ = ["Analyst", "best_move", "ranked"]

LEAVES_AT_ONCE = 8  # one game alone would ask for one position a request; more in flight cost little strength


class Analyst:
    """Searches single positions with one version of a model."""

    def __init__(self, game: Game, evaluator: Evaluator, *, version: int, simulations: int) -> None:
        self.game = game
        self.version = version
        self.simulations = simulations
        self._evaluator = evaluator
        may_ask_several = game.spec().information == "perfect"
        leaves = max(1, min(LEAVES_AT_ONCE, simulations // 8)) if may_ask_several else 1
        self._settings = SearchSettings.for_play(game.spec(), simulations).model_copy(update={"leaves_per_game": leaves})

    async def analyse(self, moves: Sequence[int], *, seed: int) -> RootAnalysis:
        """Return the searched position after `moves` of the game with that seed; the game must not be over.

        Raises `IllegalMove`, and what the evaluator raises. Cancellation: nothing is kept.
        """
        block = SearchBlock(self.game, self._settings, slots=1)
        block.begin(0, seed=seed, versions=[self.version] * self.game.spec().num_players, opening=moves, hold=True)
        while not block.waiting():
            await step(block, self._evaluator)
        return block.analysis(0)


def best_move(analysis: RootAnalysis) -> int:
    """Return the move the search would play; the likeliest of the policy where nothing was searched."""
    if not analysis.visits.any():
        return int(analysis.actions[int(np.argmax(analysis.priors))])
    if analysis.principal_variation:
        return analysis.principal_variation[0]
    return int(analysis.actions[int(np.argmax(analysis.visits))])


def ranked(analysis: RootAnalysis) -> list[int]:
    """Return the indices of the legal moves, best first: by visits, then by prior."""
    order = np.lexsort((-analysis.priors, -analysis.visits))
    return [int(index) for index in order]
