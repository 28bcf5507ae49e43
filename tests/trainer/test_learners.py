"""Learners by name: each has the members of the contract, and the settings know the same names."""

import typing

import pytest

from trainer.learners import LEARNERS, learner_class
from trainer.learners.contract import Learning
from zerofleet.presets import TrainSettings
from zerofleet.presets.parts import LearnerName

MEMBERS = sorted(name for name in vars(Learning) if not name.startswith("_"))


def test_the_settings_list_the_learners_of_the_trainer():
    assert tuple(LEARNERS) == typing.get_args(LearnerName)
    assert TrainSettings().learner == "alphazero"


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_has_every_member_of_the_contract(name):
    cls = learner_class(name)
    assert MEMBERS == [
        "adopt",
        "export",
        "invited",
        "is_candidate_due",
        "open",
        "pack",
        "restore",
        "reuse",
        "snapshot",
        "step",
        "steps_allowed",
        "unpack",
    ]
    assert [name for name in MEMBERS if not hasattr(cls, name)] == []
