"""Learner `alphazero`: policy and value of one network, from searched positions drawn out of a replay window.

The steps are those of `trainer.learner`; this module adds what the service needs around them: candidates, checkpoints, ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor

from games.core import Game
from trainer import checkpoint as checkpoints
from trainer.candidates import samples_between_candidates
from trainer.checkpoint import Checkpoint
from trainer.checkpoint_parts import require_described
from trainer.export import Served, served_network
from trainer.follower import invitation
from trainer.learner import Learner
from trainer.learners.contract import Accounts
from trainer.network import new_network
from trainer.ranks import Ranks
from trainer.settings import TrainerSettings
from trainer.window import SampleWindow
from zerofleet.errors import ConfigurationError

__all__ = ["AlphaZero"]


class AlphaZero(Learner):
    """Learner of policy and value (Silver et al. 2018); see `trainer.learners.contract.Learning` for the members."""

    def __init__(
        self,
        game: Game,
        settings: TrainerSettings,
        *,
        first: int = 0,
        device: torch.device | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        spec = game.spec()
        if settings.train.batch_size == 1 and settings.network.normalisation == "batch":
            raise ConfigurationError(
                "train.batch_size=1 with network.normalisation=batch: a batch norm needs two positions at least; raise "
                "train.batch_size, or set network.normalisation=layer"
            )
        super().__init__(
            spec,
            new_network(spec, settings.network, seed=settings.seed),
            settings.train,
            SampleWindow(spec, settings.train, first=first),
            seed=settings.seed,
            device=device,
            ranks=ranks,
        )
        self._game = game
        self._all_settings = settings

    @classmethod
    def open(
        cls,
        game: Game,
        settings: TrainerSettings,
        *,
        first: int = 0,
        device: torch.device | None = None,
        ranks: Ranks | None = None,
    ) -> Self:
        """See `Learning.open`."""
        return cls(game, settings, first=first, device=device, ranks=ranks)

    @staticmethod
    def unpack(counts: bytes, tensors: bytes, *, where: str) -> tuple[Checkpoint, dict[str, Tensor]]:
        """See `Learning.unpack`."""
        return checkpoints.unpack(counts, tensors, where=where)

    def pack(self, accounts: Accounts) -> tuple[bytes, bytes]:
        """See `Learning.pack`."""
        return checkpoints.pack(self._game, self._all_settings.network, self, accounts)

    def restore(self, checkpoint: Checkpoint, tensors: dict[str, Tensor]) -> None:
        """See `Learning.restore`.

        Another `max_reuse` holds for samples that arrive from now on: a lower one for all would make steps wait for as many
        games as were played before, a higher one train the window for as many. Uses beyond the bound after a loss of games do
        not count either.
        """
        checkpoints.restore(self, self._game, self._all_settings.network, checkpoint, tensors)
        state, bound = self.state, self.settings.max_reuse
        if state.max_reuse is not None:
            state.samples_forgone += int((bound - state.max_reuse) * self.window.total)
        state.max_reuse = bound
        beyond = state.samples_trained + state.samples_forgone - int(bound * self.window.total)
        state.samples_forgone -= max(0, beyond)

    def adopt(self, network: Mapping[str, object], tensors: dict[str, Tensor], *, name: str) -> None:
        """See `Learning.adopt`. The samples in the log count as used: how often each was is not known."""
        require_described(network, self._all_settings.network, name=name)
        self.load_weights(tensors)
        self.state.samples_trained = int(self.settings.max_reuse * self.window.total)

    def is_candidate_due(self, accounts: Accounts) -> bool:
        """Return whether enough samples arrived since the last candidate and were trained on.

        The latter matters for a learner that lags behind: a candidate a few steps from the last one is a wasted match.
        """
        wanted = samples_between_candidates(accounts.candidate_samples, self.settings)
        received = self.window.total - accounts.candidate_samples
        trained = self.state.samples_trained - accounts.candidate_trained
        return received >= wanted and trained >= wanted * min(1.0, self.settings.max_reuse)

    def export(self) -> Served:
        """Return the averaged weights with statistics of their own, unless no sample is left; see `Learner.candidate`."""
        if not len(self.window):
            return self.snapshot()
        return served_network(self.candidate(), self._game, self._all_settings.network)

    def snapshot(self) -> Served:
        """Return the averaged weights with the statistics of the weights in training."""
        return served_network(self.average.network(self.network), self._game, self._all_settings.network)

    def invited(self, accounts: Accounts) -> list[bytes]:
        """See `Learning.invited`."""
        return invitation(self._game, self._all_settings, self, accounts)
