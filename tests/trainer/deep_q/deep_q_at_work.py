"""Learners `dqn` and `deep_sarsa` on small games: settings, records and transitions."""

import numpy as np
import torch

from games.core import make
from trainer.learners.deep_q.learner import DeepSarsa, Dqn
from trainer.learners.deep_q.transitions import Transitions
from trainer.replay import AcceptedGame
from trainer.settings import TrainerSettings
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.search.afterstates.action_values import ActionValueBlock
from zerofleet.search.afterstates.settings import AfterstateSettings

SMALL = make("tic_tac_toe")
RHOMBUS = make("chinese_checkers_rhombus", encoding="signed")
SPEC = SMALL.spec()


def settings_of(tmp_path, learner="dqn", *, network=None, game="tic_tac_toe", parameters=None, **deep_q):
    return TrainerSettings(
        run_dir=tmp_path,
        game=game,
        game_parameters=parameters or {},
        preset="tiny",
        train={"learner": learner},
        network={"kind": "q_pool", "pool": 9, "q_channels": (8, 8)} if network is None else network,
        deep_q={"pool_by": "listed", "batch_size": 8, "draws": 8, "publish_every_games": 3, **deep_q},
    )


def on_rhombus(tmp_path, *, kind="q_pool", learner="dqn", padding="same", **deep_q):
    network = {"kind": kind, "pool": 6, "q_padding": padding}
    changes = {"pool_by": "heuristic", **deep_q}
    return settings_of(
        tmp_path, learner, network=network, game="chinese_checkers_rhombus", parameters={"encoding": "signed"}, **changes
    )


def opened(settings, game=SMALL):
    return (Dqn if settings.train.learner == "dqn" else DeepSarsa).open(game, settings)


def play(count, *, seed=1, **changes):
    """Records of games with random values of the moves."""
    settings = AfterstateSettings(**{"policy": "greedy", "learner_seat": "alternate", **changes})
    block, rng = ActionValueBlock(SMALL, settings, slots=count), np.random.default_rng(seed)
    for slot in range(count):
        block.begin(slot, seed=seed + slot, versions=[1, 1])
    while len(block.finished()) < count:
        legal = block.advance().batch.legal
        heads = [np.full(legal.shape, 0.5, np.float32), rng.random(legal.shape).astype(np.float32)]
        block.absorb(np.empty(0), np.empty(0), heads)
    games = [block.take(slot) for slot in range(count)]
    return [encode_record(one, worker_id="w", uid=f"{seed + slot:032x}") for slot, one in enumerate(games)]


def read(learner, record):
    return learner.window.read(validate(decode_record(record)))


def keep(training, records):
    training.replay.keep([AcceptedGame(decode_record(one).uid, one, read(training.learner, one)) for one in records])


def random_batch(game, count, *, pool, seed=1):
    """Transitions of random positions; half of them end the game."""
    spec, rng = game.spec(), np.random.default_rng(seed)
    batch = Transitions.empty(count, packed_bytes=spec.packed_bytes, pool=pool)
    batch.states[:] = rng.integers(256, size=batch.states.shape)
    batch.next_states[:] = rng.integers(256, size=batch.states.shape)
    batch.actions[:] = rng.integers(spec.num_actions, size=count)
    batch.ranks[:] = rng.integers(pool, size=count)
    batch.margins[:] = -rng.random(count)
    batch.rewards[:] = rng.uniform(-1, 1, size=count)
    batch.ended[:] = np.arange(count) % 2
    batch.next_pools[:] = rng.integers(spec.num_actions, size=batch.next_pools.shape)
    batch.next_margins[:] = -rng.random(batch.next_margins.shape)
    batch.next_ranks[:] = rng.integers(pool, size=count)
    return batch


def weights(learner):
    return torch.cat([tensor.flatten() for tensor in learner.network.state_dict().values()])
