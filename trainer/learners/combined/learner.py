"""Learner `combined`: `dqn` whose pool has the best moves by a network trained before, by the learner `outcome`.

    legal moves ── frozen network, alone or with the board value ──► six best ── Q-learning ──► move

The frozen network is part of every version, so a version plays alike wherever it is served. Manifests and checkpoints name it
by its hash: a run goes on with the network that it began with, or not at all.
"""

from __future__ import annotations

from games.core import Game
from trainer.learners.deep_q.learner import DeepQ
from trainer.settings import TrainerSettings

__all__ = ["Combined"]


class Combined(DeepQ):
    """Q-learning in the pool of a frozen network; see `trainer.learners.contract.Learning` for the members."""

    name = "combined"
    ON_POLICY = False

    def __init__(self, game: Game, settings: TrainerSettings, *, first: int = 0) -> None:
        """Make first weights. Raises as `DeepQ` and `trainer.pool_networks.stored_values` do."""
        by_network = settings.deep_q.model_copy(update={"pool_by": "network"})
        super().__init__(game, settings.model_copy(update={"deep_q": by_network}), first=first)
