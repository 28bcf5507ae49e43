"""Training by TD(lambda) for a stage, and its stored network."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from games.core import Game
from laboratory.divergence import require_finite
from laboratory.evaluation import FunctionNetwork, Network, ValueNetwork
from laboratory.value_training import ValueTraining
from trainer.checkpoint_files import load_latest
from trainer.learners.td_lambda.learner import TdLambda
from zerofleet.evaluators.in_process.first_player import FirstPlayerPerceptron
from zerofleet.evaluators.in_process.kernels import Perceptron, perceptron_of
from zerofleet.presets.theses.stages import TdStage
from zerofleet.search.afterstates.settings import AfterstateSettings

__all__ = ["TdTraining", "stored_network"]

_SIGNS = {"own": -1.0, "every_ply": 1.0}  # of a network's value for the player to move


class TdTraining(ValueTraining):
    """Training of one stage in a folder; an interrupted one is continued."""

    kind = TdLambda
    _stage: TdStage
    _learner: TdLambda

    def new_learner(self, game: Game, first: int) -> TdLambda:
        """See `ValueTraining.new_learner`. A game that the first move after the opening ends is a step without samples."""
        settings = self._stage.td.model_copy(update={"publish_every_games": 1})  # every game is a step
        return TdLambda(game, settings, seed=self._stage.seed, first=first)

    @property
    def network(self) -> Network:
        """See `ValueTraining.network`."""
        return _network(self._learner.net, self._game, self._stage.td.successor)

    def most_games(self, before: int) -> int:
        """See `ValueTraining.most_games`: rates change between blocks."""
        return min(super().most_games(before), self._stage.td.epoch_games - before % self._stage.td.epoch_games)

    def play(self, games: int) -> AfterstateSettings:
        """See `ValueTraining.play`: epsilon and temperature decay by epoch."""
        stage = self._stage
        decay = stage.exploration_decay ** (games // stage.td.epoch_games)
        rates = {"epsilon": stage.play.epsilon * decay, "temperature": stage.play.temperature * decay}
        return stage.play.model_copy(update=rates)


def stored_network(game: Game, folder: Path) -> Network | None:
    """Return the network of the newest checkpoint of a folder, None without one; raises `CorruptModel`."""
    found = load_latest(folder, TdLambda.unpack)
    if found is None:
        return None
    checkpoint, tensors = found
    return _network(
        perceptron_of({name: tensor.numpy().copy() for name, tensor in tensors.items()}),
        game,
        str(checkpoint.network["successor"]),
    )


def _network(net: Perceptron, game: Game, successor: str) -> Network:
    """Return weights as a network; raises `Diverged` for weights that are not finite in single precision."""
    if successor != "first_player":
        return ValueNetwork(net, game.spec(), sign=_SIGNS[successor])
    with np.errstate(over="ignore"):
        found = FirstPlayerPerceptron(net, game.spec())
    require_finite("weights", *found.of_first, *found.of_second, rate="td_lambda.learning_rate")
    return FunctionNetwork(found)
