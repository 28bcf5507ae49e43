"""Declarations of the learners of the values of moves: `dqn`, `deep_sarsa` and `combined`. They share the part `deep_q`."""

from __future__ import annotations

from zerofleet.errors import ConfigurationError
from zerofleet.presets import Preset
from zerofleet.presets.learners.declaration import LearnerDeclaration

__all__ = ["COMBINED", "DEEP_SARSA", "DQN"]


def _require(preset: Preset, settings: None) -> None:
    del settings
    learner = preset.train.learner
    pool_by = "network" if learner == "combined" else preset.deep_q.pool_by  # whatever is set
    if pool_by == "network" and not (preset.combined.models and preset.combined.version):
        raise ConfigurationError(
            f"train.learner={learner} with deep_q.pool_by={pool_by} takes the pool of a trained network; set "
            "combined.models=runs/outcome/models and combined.version=7"
        )
    if preset.warm_start.games:
        raise ConfigurationError(
            f"warm_start.games={preset.warm_start.games}: the games of agents have no pools, from which train.learner="
            f"{learner} learns; set it to 0, and play against agents with afterstates.opponents"
        )
    if pool_by == "values" and preset.network.kind != "q_sa":
        raise ConfigurationError(
            f"deep_q.pool_by=values ranks every legal move by its value, and network.kind={preset.network.kind} values ranks; "
            "set q_sa"
        )


DQN = LearnerDeclaration(implementation="trainer.learners.deep_q.learner:Dqn", require=_require, of_actions=True)
DEEP_SARSA = LearnerDeclaration(implementation="trainer.learners.deep_q.learner:DeepSarsa", require=_require, of_actions=True)
COMBINED = LearnerDeclaration(implementation="trainer.learners.combined.learner:Combined", require=_require, of_actions=True)
