"""Learners `dqn` and `deep_sarsa`: one step is one update on draws from the memory, after the transitions that pay for it.

Every transition enters the memory once, in the order of the game log, and allows `draws` draws; an update takes `batch_size` of
them. Draws depend on the seed and the number of the step, so a restored learner takes the next step of the stopped one.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from games.core import Game
from trainer.checkpoint_parts import load_arrays, named, require_network, tensors_of, under
from trainer.export import Served
from trainer.learner import LearnerState
from trainer.learners.contract import Accounts
from trainer.learners.deep_q import checkpoint as checkpoints
from trainer.learners.deep_q.memory import Memory
from trainer.learners.deep_q.served import ActionValueModule, OwnValues
from trainer.learners.deep_q.shaping import BoardValue
from trainer.learners.deep_q.transitions import TransitionQueue, Transitions, read_transitions
from trainer.learners.deep_q.values import targets_of, values_of
from trainer.learners.one_process import OneProcessLearner
from trainer.learners.report import ValueReport
from trainer.optimisation import fall, load_momentum, momentum_of, set_rate
from trainer.optimisers import SGD
from trainer.pool_sources import pool_source
from trainer.q_networks import QSA, new_q_network
from trainer.settings import TrainerSettings
from zerofleet.contracts.heads import MOVE_HEADS
from zerofleet.contracts.manifests import NetworkDict
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.records import ValidatedGame
from zerofleet.errors import ConfigurationError, Diverged
from zerofleet.storage.model_store.opening import open_model_store

__all__ = ["DeepQ", "DeepSarsa", "Dqn"]

_NETWORK, _TARGET, _MOMENTUM, _MEMORY = "network", "target", "momentum", "memory"


class DeepQ(OneProcessLearner):
    """Network of action values with its target network and memory; see `trainer.learners.contract.Learning` for the members."""

    ON_POLICY: ClassVar[bool]
    """Whether the target has the value of the next move as played, not the largest of the pool."""

    def __init__(self, game: Game, settings: TrainerSettings, *, first: int = 0) -> None:
        """Make first weights. Raises `ConfigurationError` for a game or settings that it does not support."""
        spec = game.spec()
        if spec.num_players != 2 or spec.information != "perfect":
            raise ConfigurationError(
                f"train.learner={self.name} needs a game of two players with perfect information; {spec.name} has "
                f"{spec.num_players} players and {spec.information} information"
            )
        self.game = game
        self.settings = settings.deep_q
        self.state = LearnerState()
        self.counts = checkpoints.Progress(taken=first)
        self._pool, self._seed, self._kind = settings.network.pool, settings.seed, settings.network
        self.network = new_q_network(spec, settings.network, seed=settings.seed)
        self.target = copy.deepcopy(self.network).requires_grad_(False)
        if self.settings.pool_by == "values":
            if not isinstance(self.network, QSA):
                raise ConfigurationError("deep_q.pool_by=values ranks moves by their values; set network.kind=q_sa")
            if self.settings.score_weight:
                raise ConfigurationError(
                    "deep_q.score_weight adds the scores of the pool to the values, which with deep_q.pool_by=values are the "
                    "same; set score_weight=0, or another pool_by"
                )
            self._source: torch.nn.Module = OwnValues(self.network)
        else:
            self._source = pool_source(self.settings.pool_by, game, settings)
        self._frozen: NetworkDict = {}
        if self.settings.pool_by == "network":
            chosen = settings.combined
            pool_network = open_model_store(chosen.models).manifest_sha256(model_name(game), chosen.version)
            self._frozen = {"pool_network": pool_network, "pool_mix": chosen.mix}
        if self.settings.shaping:
            BoardValue(game)  # raises for another game
        self._optimizer = SGD(self.network.parameters(), lr=self.settings.learning_rate, momentum=self.settings.momentum)
        self.memory = Memory(self.settings, packed_bytes=spec.packed_bytes, pool=self._pool)
        self.window = TransitionQueue(self.read, first=first)

    @classmethod
    def begin(cls, game: Game, settings: TrainerSettings, *, first: int, device: torch.device | None) -> Self:
        """See `OneProcessLearner.begin`; it trains on the CPU."""
        del device
        return cls(game, settings, first=first)

    @staticmethod
    def unpack(counts: bytes, tensors: bytes, *, where: str) -> tuple[checkpoints.DeepQCheckpoint, dict[str, Tensor]]:
        """See `Learning.unpack`."""
        return checkpoints.unpack(counts, tensors, where=where)

    def pack(self, accounts: Accounts) -> tuple[bytes, bytes]:
        """See `Learning.pack`."""
        tensors = {
            **named(_NETWORK, self.network.state_dict()),
            **named(_TARGET, self.target.state_dict()),
            **named(_MOMENTUM, momentum_of(self._optimizer, self.network)),
            **named(_MEMORY, tensors_of(self._remembered)),
        }
        return checkpoints.pack(
            self.game,
            self.described,
            tensors,
            name=self.name,
            replay=self.settings.replay,
            state=self.state,
            progress=self.counts,
            accounts=accounts,
        )

    def restore(self, checkpoint: checkpoints.DeepQCheckpoint, tensors: dict[str, Tensor]) -> None:
        """See `Learning.restore`. Transitions that entered the memory before are dropped as the log is read again."""
        checkpoints.require_fit(checkpoint, self.game, self.described, name=self.name, replay=self.settings.replay)
        self.network.load_state_dict(under(tensors, _NETWORK))
        self.target.load_state_dict(under(tensors, _TARGET))
        load_momentum(self._optimizer, self.network, under(tensors, _MOMENTUM))
        load_arrays(self._remembered, under(tensors, _MEMORY), name="the memory of the checkpoint")
        self.state, self.counts = checkpoint.learner, checkpoint.progress
        self.memory.inserted = self.counts.entered
        self.window.skip_to(self.counts.taken)

    def adopt(self, network: Mapping[str, object], tensors: dict[str, Tensor], *, name: str) -> None:
        """See `Learning.adopt`. The games in the log are not learned from again: which of them were is not known."""
        require_network(network, self.described, name=name)
        self.network.load_state_dict(tensors)
        self.target.load_state_dict(tensors)
        self.window.skip_to(self.window.total)
        self.counts.taken = self.window.total

    @property
    def described(self) -> NetworkDict:
        """Description of the network, and of the frozen one of its pool, for manifests and checkpoints."""
        kind = self._kind
        return {
            "kind": kind.kind,
            "q_channels": kind.q_channels,
            "q_padding": kind.q_padding,
            "pool": kind.pool,
            "pool_by": self.settings.pool_by,
            # left out where it is 0, as in earlier files
            **({"score_weight": self.settings.score_weight} if self.settings.score_weight else {}),
            **self._frozen,
        }

    @property
    def _remembered(self) -> dict[str, np.ndarray]:
        """Columns of the memory in a checkpoint; margins are left out where they have no weight, as in earlier files."""
        left_out = () if self.settings.score_weight else ("margins", "next_margins")
        return {name: column for name, column in self.memory.ring._asdict().items() if name not in left_out}

    @property
    def reuse(self) -> float:
        """Mean number of uses of a received transition."""
        return self.state.samples_trained / max(1, self.window.total)

    def steps_allowed(self) -> int:
        """Return the number of updates that the draws due, and those of the waiting transitions, allow."""
        return (self.counts.credit + self.settings.draws * len(self.window)) // self.settings.batch_size

    def read(self, played: ValidatedGame) -> Transitions:
        """See `read_transitions`."""
        return read_transitions(played, self.settings, pool=self._pool)

    def step(self) -> ValueReport:
        """Take transitions into the memory until a batch is due, and update. Raises `Diverged` when weights diverge."""
        settings = self.settings
        while self.counts.credit < settings.batch_size:
            transition, is_last = self.window.take()
            self.memory.insert(transition)
            self.counts.taken += 1
            self.counts.entered = self.memory.inserted
            self.counts.games += is_last
            self.counts.credit += settings.draws
        self.counts.credit -= settings.batch_size
        if self.state.step % settings.target_period == 0:
            self.target.load_state_dict(self.network.state_dict())
        report = self.update(self._drawn())
        self.state.step += 1
        self.state.samples_trained += settings.batch_size
        return report

    def update(self, batch: Transitions) -> ValueReport:
        """Descend the gradient of half the mean squared error of a batch once. Raises `Diverged` when weights diverge."""
        spec, settings = self.game.spec(), self.settings
        terms = {"discount": settings.discount, "score_weight": settings.score_weight}
        errors = self._values(batch) - targets_of(self.target, spec, batch, on_policy=self.ON_POLICY, **terms)
        loss = errors.square().mean()
        self._optimizer.zero_grad()
        (loss / 2.0).backward()  # type: ignore[no-untyped-call]
        gradients = [parameter.grad for parameter in self.network.parameters() if parameter.grad is not None]
        norm = float(torch.nn.utils.get_total_norm(gradients))
        if not (np.isfinite(norm) and np.isfinite(loss.item())):
            raise Diverged(
                f"the gradient of step {self.state.step} is not finite: the weights have diverged; lower "
                "deep_q.learning_rate and start another run"
            )
        rate = settings.learning_rate * fall(self.progress, floor=settings.rate_floor)
        set_rate(self._optimizer, rate)
        self._optimizer.step()
        return ValueReport(len(batch), rate, loss.item(), norm)

    def _values(self, batch: Transitions) -> Tensor:
        """Return Q(s, a) of the moves played, float32 [B]."""
        return values_of(self.network, self.game.spec(), batch, score_weight=self.settings.score_weight)

    def _drawn(self) -> Transitions:
        """Return the batch of this step."""
        rng = np.random.default_rng([self._seed, self.state.step])
        values = None
        if self.settings.sampling == "sweep":
            with torch.no_grad():
                values = self._values(self.memory.ring).numpy()
        return self.memory.ring.rows(self.memory.draw(self.settings.batch_size, rng, values))

    def is_candidate_due(self, accounts: Accounts) -> bool:
        """Return whether `publish_every_games` games entered the memory since the last candidate."""
        if accounts.candidate_step != self.counts.candidate_step:  # a version was published since the last step
            self.counts.candidate_step, self.counts.candidate_games = accounts.candidate_step, self.counts.games
        return self.counts.games - self.counts.candidate_games >= self.settings.publish_every_games

    def export(self) -> Served:
        """Return a copy of the network with the source of its pool."""
        module = ActionValueModule(
            self.network, self._source, self.game.spec(), pool=self._pool, score_weight=self.settings.score_weight
        )
        weights = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        return Served(copy.deepcopy(module).eval(), weights, self.described, MOVE_HEADS)


class Dqn(DeepQ):
    """Q-learning: the target has the largest value of the next pool."""

    name = "dqn"
    ON_POLICY = False


class DeepSarsa(DeepQ):
    """SARSA: the target has the value of the next move as played."""

    name = "deep_sarsa"
    ON_POLICY = True
