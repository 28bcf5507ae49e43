"""Training by `outcome`: kill and resume, stored versions, history."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch
from outcome_at_work import (
    GAME,
    NETWORK,
    NORMED,
    keep,
    learner_of,
    settings_of,
    valid,
)

from games import positions
from games.core import make
from trainer.learners.conformance import check_learner
from trainer.learners.contract import Accounts
from trainer.learners.outcome.learner import OutcomeLearner
from trainer.start import open_training
from zerofleet.contracts.model_checks import MODEL_FILE
from zerofleet.contracts.naming import model_name
from zerofleet.errors import ConfigurationError, VersionSkew
from zerofleet.evaluators.base import LeafBatch
from zerofleet.evaluators.in_process.evaluator import InProcessEvaluator
from zerofleet.presets import NetworkSettings
from zerofleet.presets.outcome import OutcomeSettings


@pytest.mark.parametrize("changes", [{}, {"momentum": 0.9, "replays": 2, "memory_games": 4}, {"games_per_step": 2}])
def test_the_learner_keeps_the_laws_of_the_contract(records, changes):
    check_learner(partial(settings_of, **changes), records)


def test_a_checkpoint_that_counts_other_samples_is_refused(tmp_path, records):
    first = open_training(settings_of(tmp_path), GAME)
    keep(first, records[:4])
    first.learner.step()
    first.save()
    first.replay.close()
    for changes, network in (({"sides": "one"}, NORMED), ({"held_out_share": 0.2}, NORMED), ({}, NETWORK)):
        with pytest.raises(VersionSkew, match="start another run"):
            open_training(settings_of(tmp_path, network=network, **changes), GAME)


@pytest.mark.parametrize("normalisation", ["none", "batch", "layer"])
@pytest.mark.parametrize(("output", "place"), [("win_or_loss", "before"), ("win_probability", "after")])
def test_a_stored_version_answers_alike_on_the_server_and_in_the_worker(tmp_path, records, normalisation, output, place):
    network = {**NETWORK, "normalisation": normalisation, "normalise": place, "value_output": output}
    training = open_training(settings_of(tmp_path, network=network, learning_rate=0.3), GAME)
    keep(training, records)
    training.train(60.0, lambda: False)
    assert training.candidate_due
    version = training.publish_candidate()
    manifest = training.store.verify(model_name(GAME), version, game=GAME)
    assert (manifest.network["kind"], manifest.train_steps) == ("perceptron", 3)
    played = [valid(record) for record in records[10:14]]
    states = np.array(
        [positions.encode_for(GAME, state, ply % 2) for one in played for ply, state in enumerate(one.states[:-1])]
    )
    legal = np.full((len(states), 9), -1, np.int16)
    legal[:, :4] = [0, 2, 4, 6]
    module = torch.jit.load(training.store.directory(model_name(GAME), version) / MODEL_FILE)
    with torch.inference_mode():
        policy, value = module(torch.from_numpy(states), torch.from_numpy(legal))
    with ThreadPoolExecutor(1) as thread:
        evaluator = InProcessEvaluator(training.store, GAME, executor=thread)
        answer = asyncio.run(evaluator.evaluate(LeafBatch(states, legal), version=version))
    np.testing.assert_allclose(answer.value, value.numpy(), atol=1e-5)
    np.testing.assert_allclose(answer.policy, policy.numpy(), atol=1e-3)
    assert answer.policy[0, :4].tolist() == [0.25] * 4
    training.learner.network.eval()
    np.testing.assert_allclose(training.learner.chances(states), (answer.value[:, 0] + 1) / 2, atol=1e-5)
    training.replay.close()


def test_the_measures_of_held_out_games_are_in_the_history_of_the_run(tmp_path, records):
    training = open_training(settings_of(tmp_path, held_out_share=0.3, measure_every_games=2, publish_every_games=1_000), GAME)
    keep(training, records)
    training.train(60.0, lambda: False)
    row = training.take_row()
    for name in ("accuracy", "recall_1", "recall_6"):
        assert 0.0 <= row[f"charts/{name}"] <= 1.0
    assert row["charts/recall_1"] <= row["charts/recall_6"]
    assert 0.0 < row["losses/value"] < 1.0
    assert "charts/accuracy" not in training.take_row()
    training.replay.close()


def test_the_learner_refuses_what_it_cannot_learn(tmp_path, two_ranks):
    for network, text in (
        ({**NETWORK, "policy_head": "dense"}, "policy_head=none"),
        ({**NETWORK, "value_output": "players"}, "win_or_loss or win_probability"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            learner_of(network)
    for game in (make("othello", size=4, margin=True), make("abalone", captures=1, ply_cost=0.001)):
        with pytest.raises(ConfigurationError, match=r"has wins of several sizes; leave (margin|ply_cost) at the default"):
            OutcomeLearner(game, NetworkSettings(**NETWORK), OutcomeSettings(), seed=0)
    with pytest.raises(ConfigurationError, match="two players"):
        OutcomeLearner(make("chinese_checkers_star37"), NetworkSettings(**NETWORK), OutcomeSettings(), seed=0)
    with pytest.raises(ConfigurationError, match="in one process"):
        OutcomeLearner.open(GAME, settings_of(tmp_path), ranks=two_ranks)
    with pytest.raises(ConfigurationError, match="without torchrun"):
        learner_of().invited(Accounts())
