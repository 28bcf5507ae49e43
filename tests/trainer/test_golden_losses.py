"""Losses of the default settings: the figures of the release before weights and further targets were added."""

from __future__ import annotations

import pytest

from games.core import make
from trainer.learner import Learner
from trainer.network import new_network
from trainer.samples import extract
from trainer.window import SampleWindow
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.contracts.records.samples import random_game
from zerofleet.presets import NetworkSettings, TrainSettings


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "heads", "share", "losses"),
    [
        ("tic_tac_toe", (), 0.0, [2.48489, 2.3743558, 2.665679]),
        ("tic_tac_toe", (), 0.5, [1.9418356, 1.8156117, 2.0618587]),
        ("connect_four", ("plies_left",), 0.0, [3.0280538, 2.9713881, 2.8921452]),
        ("connect_four", ("plies_left",), 0.5, [2.4741127, 2.3264017, 2.2986567]),
        ("rock_paper_scissors", ("opponents",), 0.5, [2.8138857, 2.5651407, 2.6248837]),
    ],
)
def test_the_default_settings_train_as_they_always_did(name, heads, share, losses):
    game = make(name)
    train = TrainSettings(batch_size=64, min_samples=1, warmup_steps=3, max_reuse=1e9, search_value_share=share)
    network = NetworkSettings(blocks=1, channels=8, policy_channels=2, value_channels=2, value_hidden=8, heads=heads)
    window = SampleWindow(game.spec(), train)
    for seed in range(40):
        payload = encode_record(random_game(game, seed), worker_id="w", uid=f"{seed:032x}")
        window.add(extract(validate(decode_record(payload)), train))
    learner = Learner(game.spec(), new_network(game.spec(), network, seed=1), train, window, seed=5)
    reports = [learner.step() for _ in range(12)]
    # Equal to the last bit on one machine; the tolerance is for convolutions of others.
    assert [reports[step].total for step in (0, 5, 11)] == pytest.approx(losses, rel=1e-4)
