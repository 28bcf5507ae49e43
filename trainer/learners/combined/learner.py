"""Learner `combined`: `dqn` whose pool has the best moves by a network trained before, by the learner `outcome`.

    legal moves ── frozen network, alone or with the board value ──► six best ── Q-learning ──► move

The frozen network is part of every version, so a version plays alike wherever it is served. Manifests and checkpoints name it
by its hash: a run goes on with the network that it began with, or not at all.
"""

from __future__ import annotations

from games.core import Game
from trainer.learners.deep_q.learner import DeepQ
from trainer.settings import TrainerSettings
from zerofleet.contracts.manifests import NetworkDict
from zerofleet.contracts.naming import model_name
from zerofleet.storage.model_store.opening import open_model_store

__all__ = ["Combined"]


class Combined(DeepQ):
    """Q-learning in the pool of a frozen network; see `trainer.learners.contract.Learning` for the members."""

    NAME = "combined"
    ON_POLICY = False

    def __init__(self, game: Game, settings: TrainerSettings, *, first: int = 0) -> None:
        """Make first weights. Raises as `DeepQ` and `trainer.pool_networks.stored_network` do."""
        by_network = settings.deep_q.model_copy(update={"pool_by": "network"})
        super().__init__(game, settings.model_copy(update={"deep_q": by_network}), first=first)
        chosen = settings.combined
        self._mix = chosen.mix
        self._frozen = open_model_store(chosen.models).manifest_sha256(model_name(game), chosen.version)

    @property
    def described(self) -> NetworkDict:
        """Description of the network and the frozen one, for manifests and checkpoints."""
        return {**super().described, "pool_network": self._frozen, "pool_mix": self._mix}
