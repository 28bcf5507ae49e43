"""Learner `outcome`: one step is an update on the positions of the next games, followed by updates on earlier ones.

    loss = mean over the positions of (p - y)^2        p = chance that the player to move wins, y = its label

The state is the network, the momentum of its weights and the number of the next sample. Replays are drawn by a generator of the
seed and the step, so weights depend on seed, settings and the order of games alone, and a restored learner takes the next
step of the stopped one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import torch
from torch import Tensor

from games import positions
from games.core import Game
from trainer.checkpoint_parts import named, require_described, under
from trainer.export import Served, served_network
from trainer.exported_module import unpack_planes
from trainer.learner import LearnerState
from trainer.learners.contract import Accounts
from trainer.learners.one_process import OneProcessLearner
from trainer.learners.outcome import checkpoint as checkpoints
from trainer.learners.outcome.games import LabelledGames
from trainer.learners.outcome.labels import Labelled
from trainer.learners.outcome.measures import measure
from trainer.learners.report import ValueReport
from trainer.network import new_network
from trainer.optimisation import load_momentum, momentum_of
from trainer.optimisers import SGD
from trainer.settings import TrainerSettings
from zerofleet.agents.uct.afterstates import afterstates_of
from zerofleet.errors import ConfigurationError, Diverged
from zerofleet.presets import NetworkSettings
from zerofleet.presets.outcome import OutcomeSettings

__all__ = ["OutcomeLearner"]

_CHANCES = ("win_probability", "win_or_loss")
_SIZES_OF_WINS = ("margin", "ply_cost")
"""Parameters with which wins have scores below 1. So have games cut at a maximum of plies, which are undecided."""
_NETWORK, _MOMENTUM = "network", "momentum"
_ROWS = 1024  # of one evaluation without gradients


class OutcomeLearner(OneProcessLearner):
    """Supervised learning of won and lost; see `trainer.learners.contract.Learning` for the members."""

    name = "outcome"

    def __init__(
        self,
        game: Game,
        network: NetworkSettings,
        settings: OutcomeSettings,
        *,
        seed: int,
        first: int = 0,
        device: torch.device | None = None,
    ) -> None:
        """Make first weights. Raises `ConfigurationError` for an unfit game or network."""
        _require_fit(game, network)
        self.game = game
        self.settings = settings
        self.state = LearnerState()
        self.window = LabelledGames(settings, first=first)
        self.device = device or torch.device("cpu")
        self.network = new_network(game.spec(), network, seed=seed).to(self.device).train()
        self._described = network
        self._seed = seed
        self._optimizer = SGD(self.network.parameters(), lr=settings.learning_rate, momentum=settings.momentum)

    @classmethod
    def begin(cls, game: Game, settings: TrainerSettings, *, first: int, device: torch.device | None) -> Self:
        """See `OneProcessLearner.begin`."""
        start = positions.new_state(game)
        afterstates_of(game, start, np.array(positions.legal(game, start)))  # compiled now: a first game would wait for it
        return cls(game, settings.network, settings.outcome, seed=settings.seed, first=first, device=device)

    @staticmethod
    def unpack(counts: bytes, tensors: bytes, *, where: str) -> tuple[checkpoints.OutcomeCheckpoint, dict[str, Tensor]]:
        """See `Learning.unpack`."""
        return checkpoints.unpack(counts, tensors, where=where)

    def pack(self, accounts: Accounts) -> tuple[bytes, bytes]:
        """See `Learning.pack`."""
        tensors = {
            **named(_NETWORK, self.network.state_dict()),
            **named(_MOMENTUM, momentum_of(self._optimizer, self.network)),
        }
        return checkpoints.pack(
            self.game,
            self._described,
            self.settings,
            tensors,
            position=self.window.position,
            state=self.state,
            accounts=accounts,
        )

    def restore(self, checkpoint: checkpoints.OutcomeCheckpoint, tensors: dict[str, Tensor]) -> None:
        """See `Learning.restore`. Games learned from before become the memory as they are read from the log again."""
        checkpoints.require_fit(checkpoint, self.game, self._described, self.settings)
        self.network.load_state_dict(under(tensors, _NETWORK))
        load_momentum(self._optimizer, self.network, under(tensors, _MOMENTUM))
        self.state = checkpoint.learner
        self.window.skip_to(checkpoint.position)

    def adopt(self, network: Mapping[str, object], tensors: dict[str, Tensor], *, name: str) -> None:
        """See `Learning.adopt`. The games in the log are not learned from again: which of them were is not known."""
        require_described(network, self._described, name=name)
        self.network.load_state_dict(tensors)
        self.window.skip_to(self.window.total)

    @property
    def reuse(self) -> float:
        """Mean number of uses of a received position; held-out ones have none."""
        return self.state.samples_trained / max(1, self.window.total)

    def steps_allowed(self) -> int:
        """Return the number of updates for which games wait."""
        return self.window.games // self.settings.games_per_step

    def step(self) -> ValueReport:
        """Learn from the next games, then from replays. Raises `Diverged` when a loss is no longer finite."""
        settings, rng = self.settings, np.random.default_rng([self._seed, self.state.step])
        reports = [self.train_on(self.window.take(settings.games_per_step))]
        reports += [self.train_on(self.window.draw(settings.games_per_step, rng)) for _ in range(settings.replays)]
        self.state.step += 1
        every = max(1, settings.measure_every_games // settings.games_per_step)
        return ValueReport(
            sum(one.samples for one in reports),
            settings.learning_rate,
            float(np.mean([one.squared_error for one in reports])),
            max(one.gradient_norm for one in reports),
            self.measure() if self.state.step % every == 0 else {},
        )

    def train_on(self, games: Sequence[Labelled]) -> ValueReport:
        """Take one update on the positions of some games. Raises `Diverged` when the loss is not finite."""
        states = torch.from_numpy(np.concatenate([game.states for game in games])).to(self.device)
        labels = torch.from_numpy(np.concatenate([game.labels for game in games])).to(self.device)
        loss = (self._chances(states) - labels).square().mean()
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.network.parameters() if p.grad is not None]).item()
        if not np.isfinite(norm):
            raise Diverged(
                f"the gradient of step {self.state.step} is not finite: the weights have diverged; lower outcome.learning_rate "
                "and start another run"
            )
        self._optimizer.step()
        self.state.samples_trained += len(labels)
        return ValueReport(len(labels), self.settings.learning_rate, loss.item(), norm)

    def measure(self) -> dict[str, float]:
        """Return the measures on the held-out games of the window; none without any."""
        self.network.eval()
        try:
            return measure(self.window.held_out, self.chances)
        finally:
            self.network.train()

    @torch.no_grad()
    def chances(self, states: np.ndarray) -> np.ndarray:
        """Return the chances of winning of the players to move in packed positions, float32 [B], in the network's mode."""
        parts = [self._chances(torch.from_numpy(part).to(self.device)).cpu() for part in _parts(states)]
        return torch.cat([*parts, torch.zeros(0)]).numpy()

    def _chances(self, states: Tensor) -> Tensor:
        planes = unpack_planes(states, *self.game.spec().planes).float()
        value: Tensor = self.network(planes)[1]
        return (value[:, 0] + 1.0) / 2.0

    def is_candidate_due(self, accounts: Accounts) -> bool:
        """Return whether `publish_every_games` games were learned from since the last candidate."""
        learned = (self.state.step - accounts.candidate_step) * self.settings.games_per_step
        return learned >= self.settings.publish_every_games

    def export(self) -> Served:
        """Return the network as a model of values, with a uniform policy."""
        return served_network(self.network, self.game, self._described)


def _require_fit(game: Game, network: NetworkSettings) -> None:
    spec = game.spec()
    if spec.num_players != 2 or spec.information != "perfect":
        raise ConfigurationError(
            "train.learner=outcome learns the chance of winning of two players with perfect information; "
            f"{spec.name} has {spec.num_players} players and {spec.information} information"
        )
    if scaled := sorted(positions.changed_parameters(game).keys() & _SIZES_OF_WINS):
        raise ConfigurationError(
            "train.learner=outcome learns from games that a player wins with the score 1, others are undecided; "
            f"{positions.titled(game)} has wins of several sizes; leave {' and '.join(scaled)} at the default"
        )
    if network.policy_head != "none" or network.value_output not in _CHANCES or network.heads:
        raise ConfigurationError(
            "train.learner=outcome learns a chance of winning alone; set network.policy_head=none, network.value_output="
            f"win_or_loss or win_probability and no network.heads, got policy_head={network.policy_head}, "
            f"value_output={network.value_output} and heads={list(network.heads)}"
        )


def _parts(states: np.ndarray) -> list[np.ndarray]:
    return [states[first : first + _ROWS] for first in range(0, len(states), _ROWS)]
