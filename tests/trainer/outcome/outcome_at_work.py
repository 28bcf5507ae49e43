"""Learner `outcome` on tic-tac-toe: settings, records and their labels."""

import numpy as np
import torch

from games.core import make
from trainer.learners.outcome.labels import read_labels
from trainer.learners.outcome.learner import OutcomeLearner
from trainer.replay import AcceptedGame
from trainer.settings import TrainerSettings
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.presets import NetworkSettings
from zerofleet.presets.outcome import OutcomeSettings
from zerofleet.search.afterstates.block import AfterstateBlock
from zerofleet.search.afterstates.settings import AfterstateSettings

NAME = "tic_tac_toe"
GAME = make(NAME)
NETWORK = {"kind": "perceptron", "hidden": [16, 12], "policy_head": "none", "value_output": "win_or_loss"}
NORMED = {**NETWORK, "normalisation": "batch"}
ALL_LEARN = {"held_out_share": 0.0, "undecided": "half", "sides": "both"}


def play(count, *, seed=1, opening=(), **changes):
    """Records of random games."""
    block = AfterstateBlock(GAME, AfterstateSettings(policy="softmax", temperature=100.0, **changes), slots=count)
    for slot in range(count):
        block.begin(slot, seed=seed + slot, versions=[1, 1], opening=opening)
    while len(block.finished()) < count:
        block.absorb(np.empty(0), np.zeros((len(block.advance().batch), 2), dtype=np.float32))
    games = [block.take(slot) for slot in range(count)]
    return [encode_record(one, worker_id="w", uid=f"{seed + slot:032x}") for slot, one in enumerate(games)]


def valid(record):
    return validate(decode_record(record))


def read(record, **settings):
    return read_labels(valid(record), OutcomeSettings(**settings))


def decided(records, *, won_by):
    """The first record won by a seat."""
    return next(record for record in records if decode_record(record).scores[won_by] == 1.0)


def learner_of(network=None, **outcome):
    return OutcomeLearner(GAME, NetworkSettings(**(network or NETWORK)), OutcomeSettings(**{**ALL_LEARN, **outcome}), seed=3)


def settings_of(tmp_path, network=None, **outcome):
    return TrainerSettings(
        run_dir=tmp_path,
        game=NAME,
        preset="tiny",
        train={"learner": "outcome"},
        network=network or NORMED,
        outcome={"publish_every_games": 3, **ALL_LEARN, **outcome},
    )


def keep(training, records):
    games = [AcceptedGame(decode_record(one).uid, one, training.replay.window.read(valid(one))) for one in records]
    training.replay.keep(games)


def learn_from(learner, records):
    for record in records:
        learner.window.add(learner.window.read(valid(record)))


def weights_of(learner):
    return {name: tensor.clone() for name, tensor in learner.network.state_dict().items()}


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)
