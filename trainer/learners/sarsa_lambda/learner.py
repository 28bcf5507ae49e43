"""Learner `sarsa_lambda`: one step learns from one game, in order, and each game is used once.

The state is 15 weights (float64) and the number of moves learned from; nothing is drawn at random after the first weights, so
weights depend on seed and games alone, and a restored learner takes the next step of the stopped one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from games.core import Game
from trainer.export import Served
from trainer.learner import LearnerState
from trainer.learners.contract import Accounts
from trainer.learners.queue import GameQueue
from trainer.learners.sarsa_lambda import checkpoint as checkpoints
from trainer.learners.sarsa_lambda.experience import read_experience
from trainer.learners.sarsa_lambda.leaves import with_leaves
from trainer.learners.sarsa_lambda.rule import Rates, learn, new_rule
from trainer.learners.sarsa_lambda.served import LinearModule
from trainer.ranks import Ranks
from trainer.settings import TrainerSettings
from zerofleet.agents.by_game.rhombus.evaluation import FEATURES
from zerofleet.agents.by_game.rhombus.values import LINEAR, PHASES
from zerofleet.contracts.manifests import NetworkDict
from zerofleet.errors import ConfigurationError, CorruptModel, VersionSkew
from zerofleet.presets.sarsa_lambda import SarsaLambdaSettings

__all__ = ["GameReport", "SarsaLambda"]


@dataclass(frozen=True, slots=True)
class GameReport:
    """Outcome of a step: the updates of one game."""

    samples: int
    learning_rate: float
    squared_error: float
    """Mean of the squared errors."""
    largest_error: float
    skipped: bool = False

    @property
    def losses(self) -> dict[str, float]:
        """The mean squared error, as total and as loss of the value."""
        return {"total": self.squared_error, "value": self.squared_error}

    @property
    def gradient_norm(self) -> float:
        """Largest absolute error, which bounds the updates: the rule has no gradient of a loss."""
        return self.largest_error


class SarsaLambda:
    """SARSA(lambda) and its siblings on a linear evaluation; see `trainer.learners.contract.Learning` for the members."""

    def __init__(self, game: Game, settings: SarsaLambdaSettings, *, seed: int, first: int = 0) -> None:
        """Make first weights. Raises `ConfigurationError` for a game other than the rhombus with short hops."""
        if not isinstance(game, ChineseCheckersRhombus) or game.long_hops:
            raise ConfigurationError(
                "train.learner=sarsa_lambda learns weights of features of chinese_checkers_rhombus without long_hops, and the "
                f"game is {game.spec().name}; set train.learner=td_lambda or alphazero"
            )
        self.game = game
        self.settings = settings
        self.state = LearnerState()
        self.window = GameQueue(lambda played: read_experience(played, settings), first=first)
        self.progress = 0.0
        self.weights = np.random.default_rng([seed, PHASES]).normal(0.0, settings.initial_deviation, (PHASES, len(FEATURES)))
        self.weights[:, FEATURES.index("distance")] += settings.initial_distance
        self._learned = np.ones_like(self.weights)
        if settings.third_phase == "distance":
            self._learned[-1] = np.array([name == "distance" for name in FEATURES])
        self.weights *= self._learned

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
        """See `Learning.open`; it trains on the CPU, in one process."""
        del device
        if ranks is not None and ranks.size > 1:
            raise ConfigurationError(f"train.learner=sarsa_lambda trains in one process, torchrun started {ranks.size}")
        return cls(game, settings.sarsa_lambda, seed=settings.seed, first=first)

    @staticmethod
    def unpack(counts: bytes, tensors: bytes, *, where: str) -> tuple[checkpoints.SarsaCheckpoint, dict[str, Tensor]]:
        """See `Learning.unpack`."""
        return checkpoints.unpack(counts, tensors, where=where)

    def pack(self, accounts: Accounts) -> tuple[bytes, bytes]:
        """See `Learning.pack`."""
        return checkpoints.pack(self.game, self.network, self.weights, self.state, accounts)

    def restore(self, checkpoint: checkpoints.SarsaCheckpoint, tensors: dict[str, Tensor]) -> None:
        """See `Learning.restore`. Games learned from before are dropped as they are read from the log again."""
        checkpoints.require_same(checkpoint, self.game, self.network)
        self.weights = tensors["weights"].numpy().copy()
        self.state = checkpoint.learner
        self.window.skip_to(self.state.samples_trained)

    def adopt(self, network: Mapping[str, object], tensors: dict[str, Tensor], *, name: str) -> None:
        """See `Learning.adopt`. The games in the log are not learned from again: which of them were is not known."""
        if dict(network) != self.network:
            raise VersionSkew(
                f"{name} has network {dict(network)}, the settings have {self.network}; restore the settings, or start "
                "another run"
            )
        self.weights = tensors["weights"].double().numpy().copy()
        self.window.skip_to(self.window.total)
        self.state.samples_trained = self.window.total

    @property
    def network(self) -> NetworkDict:
        """Description of the evaluation for manifests and checkpoints."""
        settings = self.settings
        described: NetworkDict = {"kind": LINEAR, "phases": PHASES, "features": FEATURES}
        return {**described, "output": settings.output, "third_phase": settings.third_phase}

    @property
    def rates(self) -> Rates:
        """Constants of the rule."""
        settings = self.settings
        return Rates(settings.learning_rate, settings.discount, settings.trace_decay)

    @property
    def reuse(self) -> float:
        """Share of the received moves that were learned from."""
        return self.state.samples_trained / max(1, self.window.total)

    def steps_allowed(self) -> int:
        """Return the number of games that wait."""
        return self.window.games

    def step(self) -> GameReport:
        """Learn from the next game. Raises `CorruptModel` when a weight is no longer finite."""
        episode, settings = self.window.take().episode, self.settings
        squashes, method = settings.output == "tanh", settings.method
        if method == "td_leaf":
            episode, method = with_leaves(episode, self.weights), "sarsa"
        rule = new_rule(self.weights, self.rates, method=method, squashes=squashes, learned=self._learned)
        updates, squares, largest = learn(rule, episode)
        if not (np.isfinite(squares) and np.isfinite(self.weights).all()):
            raise CorruptModel(
                f"an update of game {self.state.step} is not finite: the weights have diverged; lower "
                "sarsa_lambda.learning_rate and start another run"
            )
        self.state.step += 1
        self.state.samples_trained = self.window.taken
        self.state.progress = self.progress
        return GameReport(len(episode.seats), settings.learning_rate, squares / max(1, updates), largest)

    def is_candidate_due(self, accounts: Accounts) -> bool:
        """Return whether `publish_every_games` games were learned from since the last candidate."""
        return self.state.step - accounts.candidate_step >= self.settings.publish_every_games

    def export(self) -> Served:
        """Return the weights as a model of values, with a uniform policy."""
        weights = torch.from_numpy(self.weights).float()
        return Served(LinearModule(weights).eval(), {"weights": weights}, self.network)

    def snapshot(self) -> Served:
        """See `export`: the weights need no samples."""
        return self.export()

    def invited(self, accounts: Accounts) -> list[bytes]:
        """See `Learning.invited`."""
        raise ConfigurationError("train.learner=sarsa_lambda trains in one process; start the trainer without torchrun")
