"""Learners by name: a trainer runs the one that `train.learner` names.

A further learner is a module with a class that has the members of `trainer.learners.contract.Learning`, a line in `LEARNERS`,
and its name among those of `zerofleet.presets.parts.LearnerName`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, cast

from zerofleet.presets.parts import LearnerName

if TYPE_CHECKING:
    from trainer.learners.contract import Learning

__all__ = ["LEARNERS", "learner_class"]

LEARNERS: Mapping[LearnerName, str] = {
    "alphazero": "trainer.learners.alphazero:AlphaZero",
    "td_lambda": "trainer.learners.td_lambda.learner:TdLambda",
    "sarsa_lambda": "trainer.learners.sarsa_lambda.learner:SarsaLambda",
    "dqn": "trainer.learners.deep_q.learner:Dqn",
    "deep_sarsa": "trainer.learners.deep_q.learner:DeepSarsa",
    "outcome": "trainer.learners.outcome.learner:Outcome",
    "combined": "trainer.learners.combined.learner:Combined",
}
"""Module and class of each learner."""


def learner_class(name: LearnerName) -> type[Learning]:
    """Return the class of a learner; its module is imported now, so that a trainer loads one learner only."""
    module, _, member = LEARNERS[name].partition(":")
    return cast("type[Learning]", getattr(import_module(module), member))
