"""Games for the learner `td_lambda`, and what it reads in their records."""

import numpy as np

from games.core import make
from trainer.learners.td_lambda.experience import read_experience
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.presets.td_lambda import TdLambdaSettings
from zerofleet.search.afterstates.block import AfterstateBlock
from zerofleet.search.afterstates.settings import AfterstateSettings

GAME = make("tic_tac_toe")
SETTINGS = TdLambdaSettings(hidden=8, learning_rate=0.3)
OF_FIRST = SETTINGS.model_copy(update={"successor": "first_player"})


def play(count, *, seed=1, opening=(), **changes):
    """Records of games chosen by values that depend on the position alone."""
    block = AfterstateBlock(GAME, AfterstateSettings(temperature=0.5, **changes), slots=count)
    for slot in range(count):
        block.begin(slot, seed=seed + slot, versions=[1, 1], opening=opening)
    while len(block.finished()) < count:
        states = block.advance().batch.states.astype(np.int64)
        first = states.sum(axis=1) % 101 / 50.5 - 1.0
        block.absorb(np.empty(0), np.stack([first, -first], axis=1).astype(np.float32))
    games = [block.take(slot) for slot in range(count)]
    return [encode_record(one, worker_id="w", uid=f"{seed + slot:032x}") for slot, one in enumerate(games)]


def read(record, settings=SETTINGS):
    return read_experience(validate(decode_record(record)), settings).episode
