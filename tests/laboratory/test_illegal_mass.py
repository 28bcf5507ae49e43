"""Share of a policy on illegal moves: exact for policies that are known, and of a stored version."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from games.core import make, play
from games.positions import legal, new_state
from laboratory.illegal_mass import OPENING_PLIES, illegal_mass, stored_policy
from trainer.export import Lineage, export_network
from trainer.network import new_network
from zerofleet.presets import NetworkSettings
from zerofleet.storage.model_store import DirectoryStore

GAME = make("tic_tac_toe")


class Constant:
    """Policy head alone: the same logits in every position."""

    policy_activation = "softmax"

    def __init__(self, logits):
        self._logits = torch.tensor(logits)

    def __call__(self, planes):
        return self._logits.expand(len(planes), -1), None, []


def opened(games, *, seed):
    """Yield the positions after the random plies of each game."""
    rng = np.random.default_rng(seed)
    for _ in range(games):
        state = new_state(GAME)
        for _ in range(OPENING_PLIES):
            if actions := legal(GAME, state):
                play(GAME, state, actions[int(rng.integers(len(actions)))])
        yield state


def test_a_uniform_policy_has_the_share_of_the_illegal_actions():
    masses = []
    for state in opened(40, seed=3):
        while actions := legal(GAME, state):
            if len(actions) > 1:  # a forced move does not count
                masses.append(1.0 - len(actions) / 9)
            play(GAME, state, actions[0])
    assert illegal_mass(Constant([0.0] * 9), GAME, seed=3, games=40) == pytest.approx(np.mean(masses), abs=1e-6)


def test_a_policy_plays_its_best_legal_action():
    """Action 8 has nearly all of the policy: nothing is illegal while it is free, and nearly everything afterwards."""
    mass = illegal_mass(Constant([0.0] * 8 + [30.0]), GAME, seed=0, games=30)
    free = taken = 0
    for state in opened(30, seed=0):
        while actions := legal(GAME, state):
            if len(actions) > 1:
                free, taken = free + (8 in actions), taken + (8 not in actions)
            play(GAME, state, 8 if 8 in actions else actions[0])
    assert mass == pytest.approx(taken / (free + taken), abs=1e-6)


def test_a_stored_version_is_read_with_its_own_weights(tmp_path):
    settings = NetworkSettings(kind="perceptron", hidden=(8,))
    network = new_network(GAME.spec(), settings, seed=5).eval()
    store = DirectoryStore(tmp_path)
    version = export_network(store, GAME, network, settings, lineage=Lineage())
    stored = stored_policy(store, GAME, version)
    assert illegal_mass(stored, GAME, seed=1, games=10) == illegal_mass(network, GAME, seed=1, games=10)
