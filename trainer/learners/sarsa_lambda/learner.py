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

from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from games.core import Game
from trainer.checkpoint_parts import Counts
from trainer.export import Served
from trainer.learners.game_by_game import GameByGameLearner, Outcome
from trainer.learners.sarsa_lambda.experience import Experience, read_experience
from trainer.learners.sarsa_lambda.leaves import with_leaves
from trainer.learners.sarsa_lambda.rule import Rates, learn, new_rule
from trainer.learners.sarsa_lambda.served import served_linear
from trainer.settings import TrainerSettings
from zerofleet.agents.by_game.rhombus.evaluation import FEATURES
from zerofleet.agents.by_game.rhombus.values import LINEAR, PHASES
from zerofleet.contracts.manifests import NetworkDict
from zerofleet.contracts.records import ValidatedGame
from zerofleet.errors import ConfigurationError
from zerofleet.presets.sarsa_lambda import SarsaLambdaSettings

__all__ = ["SarsaLambda"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SarsaCheckpoint(Counts):
    """The JSON part of a checkpoint."""

    sarsa_lambda: int = 1
    """Schema."""


class SarsaLambda(GameByGameLearner[Experience]):
    """SARSA(lambda) and its siblings on a linear evaluation; see `trainer.learners.contract.Learning` for the members."""

    name = "sarsa_lambda"
    checkpoint_kind = SarsaCheckpoint
    rate_setting = "sarsa_lambda.learning_rate"

    def __init__(self, game: Game, settings: SarsaLambdaSettings, *, seed: int, first: int = 0) -> None:
        """Make first weights. Raises `ConfigurationError` for a game other than the rhombus with short hops."""
        if not isinstance(game, ChineseCheckersRhombus) or game.long_hops:
            raise ConfigurationError(
                "train.learner=sarsa_lambda learns weights of features of chinese_checkers_rhombus without long_hops, and the "
                f"game is {game.spec().name}; set train.learner=td_lambda or alphazero"
            )
        super().__init__(game, first=first)
        self.settings = settings
        self.weights = np.random.default_rng([seed, PHASES]).normal(0.0, settings.initial_deviation, (PHASES, len(FEATURES)))
        self.weights[:, FEATURES.index("distance")] += settings.initial_distance
        self._learned = np.ones_like(self.weights)
        if settings.third_phase == "distance":
            self._learned[-1] = np.array([name == "distance" for name in FEATURES])
        self.weights *= self._learned

    @classmethod
    def begin(cls, game: Game, settings: TrainerSettings, *, first: int, device: torch.device | None) -> Self:
        """See `OneProcessLearner.begin`; it trains on the CPU."""
        del device
        return cls(game, settings.sarsa_lambda, seed=settings.seed, first=first)

    @property
    def publish_every_games(self) -> int:
        """See `GameByGameLearner.publish_every_games`."""
        return self.settings.publish_every_games

    @property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """The weights, float64 [3, F]."""
        return {"weights": self.weights}

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

    def read(self, played: ValidatedGame) -> Experience:
        """See `read_experience`."""
        return read_experience(played, self.settings)

    def learn(self, samples: Experience) -> Outcome:
        """Learn from the errors of one game."""
        episode, settings = samples.episode, self.settings
        squashes, method = settings.output == "tanh", settings.method
        if method == "td_leaf":
            episode, method = with_leaves(episode, self.weights), "sarsa"
        rule = new_rule(self.weights, self.rates, method=method, squashes=squashes, learned=self._learned)
        updates, squares, largest = learn(rule, episode)
        return Outcome(squares / max(1, updates), largest, settings.learning_rate)

    def export(self) -> Served:
        """Return the weights as a model of values, with a uniform policy."""
        return served_linear(torch.from_numpy(self.weights), self.network)
