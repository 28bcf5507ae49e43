"""Training by SARSA(lambda) for a stage: the linear evaluation of Chinese Checkers on the rhombus."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from games.core import Game
from laboratory.evaluation import FunctionNetwork
from laboratory.value_training import ValueTraining
from trainer.checkpoint_files import load_latest
from trainer.export import Served
from trainer.learners.sarsa_lambda.learner import SarsaLambda
from trainer.learners.sarsa_lambda.served import served_linear
from zerofleet.agents.by_game.rhombus.values import load_values
from zerofleet.contracts.manifests import NetworkDict
from zerofleet.presets.theses.stages import SarsaStage
from zerofleet.search.afterstates.settings import AfterstateSettings

__all__ = ["SarsaTraining", "served_values", "stored_values"]


class SarsaTraining(ValueTraining):
    """Training of one stage in a folder; an interrupted one is continued."""

    kind = SarsaLambda
    _stage: SarsaStage
    _learner: SarsaLambda

    def new_learner(self, game: Game, first: int) -> SarsaLambda:
        """See `ValueTraining.new_learner`; raises `ConfigurationError` for another game."""
        return SarsaLambda(game, self._stage.sarsa, seed=self._stage.seed, first=first)

    @property
    def network(self) -> FunctionNetwork:
        """See `ValueTraining.network`."""
        return FunctionNetwork(load_values(self._learner.network, {"weights": self._learner.weights.copy()}))

    def play(self, games: int) -> AfterstateSettings:
        """See `ValueTraining.play`: the same at all times."""
        del games
        return self._stage.play


def stored_values(folder: Path) -> FunctionNetwork | None:
    """Return the linear evaluation of the newest checkpoint of a folder, None without one; raises `CorruptModel`."""
    found = _newest(folder)
    if found is None:
        return None
    network, weights = found
    return FunctionNetwork(load_values(network, {"weights": weights.numpy().copy()}))


def served_values(folder: Path) -> Served | None:
    """Return the same evaluation as a model to be stored, for any encoding of the game: all have the same planes."""
    found = _newest(folder)
    if found is None:
        return None
    network, weights = found
    return served_linear(weights, network)


def _newest(folder: Path) -> tuple[NetworkDict, Tensor] | None:
    """Return description and weights, float64 [3, F], of the newest checkpoint."""
    found = load_latest(folder, SarsaLambda.unpack)
    if found is None:
        return None
    checkpoint, tensors = found
    return checkpoint.network, tensors["weights"]
