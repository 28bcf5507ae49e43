"""Learner `td_lambda`: one step learns from one game, in order, and each game is used once.

The state is the weights (float64) and the number of positions learned from; nothing is drawn at random after the first weights,
so weights depend on seed and games alone, and a restored learner takes the next step of the stopped one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from games.core import Game
from trainer.export import Served
from trainer.learner import LearnerState
from trainer.learners.contract import Accounts
from trainer.learners.queue import GameQueue
from trainer.learners.td_lambda import checkpoint as checkpoints
from trainer.learners.td_lambda.experience import read_experience
from trainer.learners.td_lambda.rule import Episode, Rates, Rule, learn, new_traces, new_workspace
from trainer.learners.td_lambda.served import ValueModule, as_tensors, from_tensors
from trainer.ranks import Ranks
from trainer.settings import TrainerSettings
from zerofleet.contracts.manifests import NetworkDict
from zerofleet.errors import ConfigurationError, CorruptModel, VersionSkew
from zerofleet.evaluators.in_process.inputs import input_table
from zerofleet.evaluators.in_process.kernels import Perceptron
from zerofleet.evaluators.in_process.values import VALUE_PERCEPTRON
from zerofleet.presets.td_lambda import TdLambdaSettings

__all__ = ["GameReport", "TdLambda", "first_weights"]

_SMALL = 0.05  # standard deviation of small first weights


@dataclass(frozen=True, slots=True)
class GameReport:
    """Outcome of a step: the updates of one game."""

    samples: int
    learning_rate: float
    squared_error: float
    """Mean of the squared temporal differences."""
    largest_error: float
    skipped: bool = False

    @property
    def losses(self) -> dict[str, float]:
        """The mean squared temporal difference, as total and as loss of the value."""
        return {"total": self.squared_error, "value": self.squared_error}

    @property
    def gradient_norm(self) -> float:
        """Largest absolute temporal difference, which bounds the updates: the rule has no gradient of a loss."""
        return self.largest_error


class TdLambda:
    """TD(lambda) on a perceptron; see `trainer.learners.contract.Learning` for the members."""

    def __init__(self, game: Game, settings: TdLambdaSettings, *, seed: int, first: int = 0) -> None:
        """Make first weights. Raises `ConfigurationError` for a game without two players and perfect information."""
        spec = game.spec()
        if spec.num_players != 2 or spec.information != "perfect":
            raise ConfigurationError(
                "train.learner=td_lambda learns the chance of winning of two players with perfect information; "
                f"{spec.name} has {spec.num_players} players and {spec.information} information"
            )
        self.game = game
        self.settings = settings
        self.state = LearnerState()
        self.window = GameQueue(
            lambda played: read_experience(played, settings), first=first, keeps_empty=settings.publish_every_games == 1
        )
        self.progress = 0.0
        self.net = first_weights(spec.num_inputs, settings, seed=seed)
        self._traces = new_traces(self.net, spec.num_players, settings.trace_decay)
        self._table, self._work = input_table(spec), new_workspace(self.net, spec.num_players)

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
            raise ConfigurationError(f"train.learner=td_lambda trains in one process, torchrun started {ranks.size}")
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

    @staticmethod
    def unpack(counts: bytes, tensors: bytes, *, where: str) -> tuple[checkpoints.TdCheckpoint, dict[str, Tensor]]:
        """See `Learning.unpack`."""
        return checkpoints.unpack(counts, tensors, where=where)

    def pack(self, accounts: Accounts) -> tuple[bytes, bytes]:
        """See `Learning.pack`."""
        return checkpoints.pack(self.game, self.network, self.net, self.state, accounts)

    def restore(self, checkpoint: checkpoints.TdCheckpoint, tensors: dict[str, Tensor]) -> None:
        """See `Learning.restore`. Games learned from before are dropped as they are read from the log again."""
        checkpoints.require_same(checkpoint, self.game, self.network)
        self.net = checkpoints.weights_in(tensors)
        self.state = checkpoint.learner
        self.window.skip_to(self.state.samples_trained)

    def adopt(self, network: Mapping[str, object], tensors: dict[str, Tensor], *, name: str) -> None:
        """See `Learning.adopt`. The games in the log are not learned from again: which of them were is not known."""
        if dict(network) != self.network:
            raise VersionSkew(
                f"{name} has network {dict(network)}, the settings have {self.network}; restore the settings, or start "
                "another run"
            )
        self.net = from_tensors(tensors)
        self.window.skip_to(self.window.total)
        self.state.samples_trained = self.window.total

    @property
    def network(self) -> NetworkDict:
        """Description of the network for manifests and checkpoints."""
        inputs, units = self.net.hidden.shape
        return {"kind": VALUE_PERCEPTRON, "inputs": inputs, "hidden": (units,), "successor": self.settings.successor}

    @property
    def rates(self) -> Rates:
        """Constants of the rule for the next game."""
        settings = self.settings
        decay = settings.learning_rate_decay ** (self.state.step // settings.epoch_games)
        return Rates(settings.learning_rate * decay, settings.discount, settings.trace_decay)

    @property
    def reuse(self) -> float:
        """Share of the received positions that were learned from."""
        return self.state.samples_trained / max(1, self.window.total)

    def steps_allowed(self) -> int:
        """Return the number of games that wait."""
        return self.window.games

    def step(self) -> GameReport:
        """Learn from the next game. Raises `CorruptModel` when a weight is no longer finite."""
        episode, rates = self.window.take().episode, self.rates
        updates, squares, largest = learn(Rule(self.net, self._table, self._traces, rates, self._work), episode)
        if not np.isfinite(squares):
            raise CorruptModel(
                f"a temporal difference of game {self.state.step} is not finite: the weights have diverged; lower "
                "td_lambda.learning_rate and start another run"
            )
        self.state.step += 1
        self.state.samples_trained = self.window.taken
        self.state.progress = self.progress
        return GameReport(len(episode.seats), rates.learning_rate, squares / max(1, updates), largest)

    def is_candidate_due(self, accounts: Accounts) -> bool:
        """Return whether `publish_every_games` games were learned from since the last candidate."""
        return self.state.step - accounts.candidate_step >= self.settings.publish_every_games

    def export(self) -> Served:
        """Return the weights as a model of values, with a uniform policy."""
        of_opponent = self.settings.successor == "own"
        module = ValueModule(self.net, self.game.spec(), of_opponent=of_opponent).eval()
        return Served(module, as_tensors(self.net), self.network)

    def snapshot(self) -> Served:
        """See `export`: the weights need no samples."""
        return self.export()

    def invited(self, accounts: Accounts) -> list[bytes]:
        """See `Learning.invited`."""
        raise ConfigurationError("train.learner=td_lambda trains in one process; start the trainer without torchrun")


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
    )
