"""Learner `td_lambda`: one step learns from one game, in order, and each game is used once.

The state is the weights (float64) and the number of positions learned from; nothing is drawn at random after the first weights,
so weights depend on seed and games alone, and a restored learner takes the next step of the stopped one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from games.core import Game
from games.positions import parameters_text
from trainer.checkpoint_parts import Counts, tensors_of
from trainer.export import Served
from trainer.learners.game_by_game import GameByGameLearner, Outcome
from trainer.learners.td_lambda.experience import Experience, read_experience
from trainer.learners.td_lambda.rule import Episode, Rates, Rule, learn, new_traces, new_workspace
from trainer.learners.td_lambda.served import as_tensors, from_tensors, value_module
from trainer.settings import TrainerSettings
from zerofleet.contracts.manifests import NetworkDict
from zerofleet.contracts.records import ValidatedGame
from zerofleet.errors import ConfigurationError
from zerofleet.evaluators.in_process.inputs import input_table
from zerofleet.evaluators.in_process.kernels import Perceptron, weights_by_name
from zerofleet.evaluators.in_process.values import VALUE_PERCEPTRON
from zerofleet.presets.td_lambda import TdLambdaSettings

__all__ = ["TdLambda", "first_weights"]

_SMALL = 0.05  # standard deviation of small first weights


@dataclass(frozen=True, slots=True, kw_only=True)
class TdCheckpoint(Counts):
    """The JSON part of a checkpoint."""

    td_lambda: int = 1
    """Schema."""
    counts_empty: bool | None = None
    """Whether a game without positions counted as one; `None` in a checkpoint of an earlier release."""


class TdLambda(GameByGameLearner[Experience]):
    """TD(lambda) on a perceptron; see `trainer.learners.contract.Learning` for the members."""

    name = "td_lambda"
    checkpoint_kind = TdCheckpoint
    rate_setting = "td_lambda.learning_rate"

    def __init__(self, game: Game, settings: TdLambdaSettings, *, seed: int, first: int = 0) -> None:
        """Make first weights. Raises `ConfigurationError` for a game without two players and perfect information."""
        spec = game.spec()
        if spec.num_players != 2 or spec.information != "perfect":
            raise ConfigurationError(
                "train.learner=td_lambda learns the chance of winning of two players with perfect information; "
                f"{spec.name} has {spec.num_players} players and {spec.information} information"
            )
        if settings.successor == "first_player" and spec.other_view is None:
            raise ConfigurationError(
                f"td_lambda.successor=first_player reads each position in the first player's view, and {spec.name} declares "
                "none (GameSpec.other_view; connect_four and tic_tac_toe have it); set td_lambda.successor=own or every_ply"
            )
        super().__init__(game, first=first, keeps_empty=settings.publish_every_games == 1)
        self.settings = settings
        self.net = first_weights(spec.num_inputs, settings, seed=seed)
        self._traces = new_traces(self.net, spec.num_players, settings.trace_decay)
        self._table, self._work = input_table(spec), new_workspace(self.net, spec.num_players)

    @classmethod
    def begin(cls, game: Game, settings: TrainerSettings, *, first: int, device: torch.device | None) -> Self:
        """See `OneProcessLearner.begin`; it trains on the CPU."""
        del device
        learner = cls(game, settings.td_lambda, seed=settings.seed, first=first)
        learner._compile()
        return learner

    def _compile(self) -> None:
        """Compile the rule, by a game without positions: the first real one would halt the service for seconds."""
        spec = self.game.spec()
        learn(
            Rule(self.net, self._table, self._traces, self.rates, self._work),
            Episode(
                states=np.zeros((0, spec.packed_bytes), dtype=np.uint8),
                seats=np.zeros(0, dtype=np.int8),
                cut=np.zeros(0, dtype=np.bool_),
                end_cut=np.zeros(spec.num_players, dtype=np.bool_),
                rewards=np.zeros(spec.num_players),
            ),
        )

    def checkpoint_entries(self) -> dict[str, Any]:
        """See `GameByGameLearner.checkpoint_entries`."""
        return {"counts_empty": self.window.keeps_empty}

    def require_fit(self, checkpoint: TdCheckpoint) -> None:
        """See `GameByGameLearner.require_fit`."""
        if checkpoint.parameters == {name: str(value) for name, value in self.game._asdict().items()}:
            # written before parameters that are words were stored as such
            checkpoint = replace(checkpoint, parameters=parameters_text(self.game))
        super().require_fit(checkpoint)
        self.require_counting(checkpoint.counts_empty)

    def learned(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """See `GameByGameLearner.learned`: a version has the layout of torch's linear layers."""
        return tensors_of(weights_by_name(from_tensors(tensors)))

    @property
    def publish_every_games(self) -> int:
        """See `GameByGameLearner.publish_every_games`."""
        return self.settings.publish_every_games

    @property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """The weights, float64."""
        return weights_by_name(self.net)

    @property
    def network(self) -> NetworkDict:
        """Description of the network for manifests and checkpoints."""
        inputs, units = self.net.hidden.shape
        hidden = (units,) * (1 + len(self.net.deep))
        return {"kind": VALUE_PERCEPTRON, "inputs": inputs, "hidden": hidden, "successor": self.settings.successor}

    @property
    def rates(self) -> Rates:
        """Constants of the rule for the next game."""
        settings = self.settings
        decay = settings.learning_rate_decay ** (self.state.step // settings.epoch_games)
        return Rates(settings.learning_rate * decay, settings.discount, settings.trace_decay)

    def read(self, played: ValidatedGame) -> Experience:
        """See `read_experience`."""
        return read_experience(played, self.settings)

    def learn(self, samples: Experience) -> Outcome:
        """Learn from the temporal differences of one game."""
        rates = self.rates
        updates, squares, largest = learn(Rule(self.net, self._table, self._traces, rates, self._work), samples.episode)
        return Outcome(squares / max(1, updates), largest, rates.learning_rate)

    def export(self) -> Served:
        """Return the weights as a model of values, with a uniform policy."""
        module = value_module(self.net, self.game.spec(), self.settings.successor).eval()
        return Served(module, as_tensors(self.net), self.network)


def first_weights(inputs: int, settings: TdLambdaSettings, *, seed: int) -> Perceptron:
    """Return normally distributed weights (`TdLambdaSettings.initial_weights`), determined by the seed."""
    rng = np.random.default_rng([seed, inputs, settings.hidden])
    weight, bias = {"scaled": (None, 1.0), "normal": (1.0, 1.0), "small": (_SMALL, 0.0)}[settings.initial_weights]
    into_hidden = inputs**-0.5 if weight is None else weight
    into_output = settings.hidden**-0.5 if weight is None else weight
    return Perceptron(
        hidden=rng.normal(0.0, into_hidden, (inputs, settings.hidden)),
        hidden_bias=rng.normal(0.0, bias, settings.hidden),
        out=rng.normal(0.0, into_output, settings.hidden),
        out_bias=rng.normal(0.0, bias, 1),
        deep=rng.normal(0.0, into_output, (settings.layers - 1, settings.hidden, settings.hidden)),
        deep_bias=rng.normal(0.0, bias, (settings.layers - 1, settings.hidden)),
    )
