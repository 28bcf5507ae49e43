"""The learner `td_lambda`: experience from records, each game once and in order, export, kill and resume."""

import asyncio
import json
import math
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch
from safetensors.torch import load
from td_games import GAME, OF_FIRST, SETTINGS, play, read

from games.core import make
from games.reading import read_inputs
from games.views import first_to_move, seen_by_first
from trainer.learners.conformance import check_learner
from trainer.learners.contract import Accounts
from trainer.learners.td_lambda.learner import TdLambda
from trainer.learners.td_lambda.served import as_tensors
from trainer.replay import AcceptedGame
from trainer.settings import TrainerSettings
from trainer.start import open_training
from zerofleet.contracts.model_checks import MODEL_FILE, WEIGHTS_FILE
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.records import decode_record, validate
from zerofleet.errors import ConfigurationError, CorruptModel, InvalidRequest, VersionSkew
from zerofleet.evaluators.base import LeafBatch
from zerofleet.evaluators.in_process.evaluator import InProcessEvaluator
from zerofleet.evaluators.in_process.values import ValueNetwork
from zerofleet.presets.td_lambda import TdLambdaSettings


def settings_of(tmp_path, **td_lambda):
    return TrainerSettings(
        run_dir=tmp_path,
        game="tic_tac_toe",
        preset="tiny",
        train={"learner": "td_lambda"},
        td_lambda={"hidden": 8, "learning_rate": 0.3, "publish_every_games": 5, **td_lambda},
    )


def keep(training, records):
    games = [
        AcceptedGame(decode_record(record).uid, record, training.replay.window.read(validate(decode_record(record))))
        for record in records
    ]
    training.replay.keep(games)


def weights(learner):
    return [array.copy() for array in learner.net]


def assert_equal(one, two):
    for mine, other in zip(one, two, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_each_game_is_learned_from_once_and_in_order(tmp_path):
    records = play(8)
    training = open_training(settings_of(tmp_path), GAME)
    expected = TdLambda(GAME, training.settings.td_lambda, seed=training.settings.seed)
    assert training.newest_version == 1
    assert training.learner.steps_allowed() == 0
    keep(training, records[:3])
    keep(training, records[3:])
    for record in records:
        expected.window.add(expected.window.read(validate(decode_record(record))))
        report = expected.step()
        assert training.learner.step() == report
        assert report.samples == len(read(record).seats)
        assert report.learning_rate == 0.3
    assert training.learner.steps_allowed() == 0
    assert len(training.replay.window) == 0
    assert training.learner.reuse == 1.0
    assert_equal(weights(training.learner), weights(expected))
    training.replay.close()


@pytest.mark.parametrize("layers", [1, 3])
def test_the_learner_keeps_the_laws_of_the_contract(layers):
    check_learner(partial(settings_of, trace_decay=0.6, layers=layers), play(12))


def test_a_candidate_is_due_after_the_games_of_the_settings(tmp_path):
    training = open_training(settings_of(tmp_path), GAME)
    keep(training, play(12))
    training.train(60.0, lambda: False)
    assert (training.learner.state.step, training.candidate_due) == (5, True)
    assert training.publish_candidate() == 2
    assert not training.candidate_due
    training.train(60.0, lambda: False)
    assert training.publish_candidate() == 3
    assert training.learner.steps_allowed() == 2
    row = training.take_row()
    assert row["losses/value"] > 0
    assert "losses/policy" not in row
    manifest = training.store.verify("tic_tac_toe", 3, game=GAME)
    assert (manifest.train_steps, manifest.games_seen, manifest.parent_version) == (10, 12, 2)
    training.replay.close()


NO_POSITIONS = (0, 1, 2, 4, 3, 5, 7, 6)
"""Opening that leaves one move, which ends the game."""


def test_a_game_without_positions_gives_a_version_of_its_own_where_every_game_does(tmp_path):
    training = open_training(settings_of(tmp_path, publish_every_games=1), GAME)
    for version, records in ((2, play(1)), (3, play(1, seed=2, opening=NO_POSITIONS)), (4, play(1, seed=3))):
        keep(training, records)
        training.train(60.0, lambda: False)
        assert training.publish_candidate() == version
    stored = [load((training.store.directory("tic_tac_toe", version) / WEIGHTS_FILE).read_bytes()) for version in (2, 3)]
    assert all(torch.equal(stored[0][name], stored[1][name]) for name in stored[0])
    training.replay.close()


def test_a_trainer_that_was_killed_between_a_version_and_its_checkpoint_publishes_no_second_one(tmp_path):
    settings = settings_of(tmp_path, publish_every_games=1)
    first = open_training(settings, GAME)
    keep(first, play(1))
    first.train(60.0, lambda: False)
    assert first.publish(first.learner.export()) == 2
    first.replay.close()
    second = open_training(settings, GAME)
    second.train(60.0, lambda: False)
    assert second.publish_candidate() == 2
    second.replay.close()


def chances_of(net, spec, states):
    """The perceptron as its formula is written, on the numbers of `games.reading`."""
    planes = np.unpackbits(states, axis=1, bitorder="little")[:, : math.prod(spec.planes)].reshape(-1, *spec.planes)
    hidden = 1 / (1 + np.exp(-(read_inputs(planes, spec.reading) @ net.hidden + net.hidden_bias)))
    for further, bias in zip(net.deep, net.deep_bias, strict=True):
        hidden = 1 / (1 + np.exp(-(hidden @ further + bias)))
    return 1 / (1 + np.exp(-(hidden @ net.out + net.out_bias[0])))


def values_of(net, game, states, successor):
    """Values for the players to move of packed positions that they see."""
    spec = game.spec()
    if successor != "first_player":
        chances = chances_of(net, spec, states)
        return 1.0 - 2.0 * chances if successor == "own" else 2.0 * chances - 1.0
    planes = np.unpackbits(states, axis=1, count=math.prod(spec.planes), bitorder="little").reshape(-1, *spec.planes)
    seen = seen_by_first(planes, spec.other_view).reshape(len(states), -1)
    chances = chances_of(net, spec, np.packbits(seen, axis=1, bitorder="little"))
    first = first_to_move(planes)
    assert set(first.tolist()) == {False, True}
    return np.where(first, 2.0 * chances - 1.0, 1.0 - 2.0 * chances)


@pytest.mark.parametrize(("successor", "layers"), [("own", 1), ("every_ply", 1), ("own", 3), ("first_player", 1)])
def test_a_stored_version_answers_with_the_values_of_the_learner(tmp_path, successor, layers):
    training = open_training(settings_of(tmp_path, successor=successor, layers=layers), GAME)
    keep(training, play(5))
    training.train(60.0, lambda: False)
    version = training.publish_candidate()
    manifest = training.store.verify("tic_tac_toe", version, game=GAME)
    assert list(manifest.network["hidden"]) == [8] * layers
    states, legal, golden_policy, golden_value = manifest.golden.arrays()
    learner = training.learner
    mine = values_of(learner.net, GAME, states, successor)
    np.testing.assert_allclose(golden_value, np.stack([mine, -mine], axis=1), atol=1e-5)
    np.testing.assert_allclose(golden_policy.max(axis=1), 1.0 / (legal >= 0).sum(axis=1), atol=1e-3)
    module = torch.jit.load(training.store.directory("tic_tac_toe", version) / MODEL_FILE)
    with torch.inference_mode():
        policy, value = module(torch.from_numpy(states.copy()), torch.from_numpy(legal.copy()))
    with ThreadPoolExecutor(1) as thread:
        evaluator = InProcessEvaluator(training.store, GAME, executor=thread, keep=1)
        answer = asyncio.run(evaluator.evaluate(LeafBatch(states, legal), version=version))
    np.testing.assert_allclose(answer.value, value.numpy(), atol=1e-5)
    np.testing.assert_allclose(answer.policy, policy.numpy(), atol=1e-3)
    training.replay.close()


@pytest.mark.parametrize("successor", ["own", "first_player"])
@pytest.mark.parametrize(("encoding", "inputs"), [("naive", 17), ("extended", 50), ("feature", 82)])
def test_encodings_that_stand_for_numbers_are_served_and_evaluated_in_process_alike(tmp_path, encoding, inputs, successor):
    game = make("connect_four", rows=4, columns=4, encoding=encoding)
    settings = TrainerSettings(
        run_dir=tmp_path,
        game="connect_four",
        game_parameters={"rows": "4", "columns": "4", "encoding": encoding},
        preset="tiny",
        train={"learner": "td_lambda"},
        td_lambda={"hidden": 5, "successor": successor},
    )
    training = open_training(settings, game)
    assert training.learner.net.hidden.shape == (inputs, 5)
    model = model_name(game)
    manifest = training.store.verify(model, 1, game=game)
    assert manifest.network["inputs"] == inputs
    states, legal, _, golden_value = manifest.golden.arrays()
    mine = values_of(training.learner.net, game, states, successor)
    np.testing.assert_allclose(golden_value, np.stack([mine, -mine], axis=1), atol=1e-5)
    module = torch.jit.load(training.store.directory(model, 1) / MODEL_FILE)
    with torch.inference_mode():
        _, value = module(torch.from_numpy(states.copy()), torch.from_numpy(legal.copy()))
    local = InProcessEvaluator(training.store, game)(LeafBatch(states, legal), 1)
    np.testing.assert_allclose(local.value, value.numpy(), atol=1e-5)
    training.replay.close()


def test_another_network_is_not_evaluated_in_process(tmp_path):
    settings = settings_of(tmp_path).model_copy(update={"train": TrainerSettings(preset="tiny", game="tic_tac_toe").train})
    training = open_training(settings, GAME)
    states, legal, _, _ = training.store.manifest("tic_tac_toe", 1).golden.arrays()
    with ThreadPoolExecutor(1) as thread, pytest.raises(InvalidRequest, match="or an inference server"):
        asyncio.run(InProcessEvaluator(training.store, GAME, executor=thread).evaluate(LeafBatch(states, legal), version=1))
    training.replay.close()


def test_a_checkpoint_of_another_network_or_learner_or_count_of_samples_is_refused(tmp_path):
    open_training(settings_of(tmp_path), GAME).replay.close()
    with pytest.raises(VersionSkew, match="the checkpoint has network"):
        open_training(settings_of(tmp_path, hidden=9), GAME)
    with pytest.raises(VersionSkew, match="the checkpoint has network"):
        open_training(settings_of(tmp_path, layers=2), GAME)
    with pytest.raises(
        VersionSkew, match=r"td_lambda\.publish_every_games above 1, the settings have 1: .*restore the setting"
    ):
        open_training(settings_of(tmp_path, publish_every_games=1), GAME)
    other = TrainerSettings(run_dir=tmp_path, game="tic_tac_toe", preset="tiny")
    with pytest.raises(VersionSkew, match=r"is a checkpoint of the learner td_lambda, .*; restore train\.learner"):
        open_training(other, GAME)  # it is not damaged: to remove it would lose the run's state


def test_a_checkpoint_with_the_words_of_its_game_as_numbers_is_still_read():
    game = make("connect_four", rows=4, columns=4, encoding="feature")
    learner = TdLambda(game, SETTINGS, seed=1)
    counts, tensors = learner.pack(Accounts())
    stored = json.loads(counts)
    assert stored["parameters"]["encoding"] == "feature"
    stored["parameters"] = {name: str(value) for name, value in game._asdict().items()}
    again = TdLambda(game, SETTINGS, seed=2)
    again.restore(*TdLambda.unpack(json.dumps(stored).encode(), tensors, where="a test"))
    assert_equal(weights(again), weights(learner))


def test_a_network_of_one_hidden_layer_is_stored_as_before_there_were_several():
    learner = TdLambda(GAME, SETTINGS, seed=1)
    _, tensors = learner.pack(Accounts())
    assert sorted(load(tensors)) == ["hidden", "hidden_bias", "out", "out_bias"]
    assert sorted(load(TdLambda(GAME, SETTINGS.model_copy(update={"layers": 2}), seed=1).pack(Accounts())[1])) == [
        "deep",
        "deep_bias",
        "hidden",
        "hidden_bias",
        "out",
        "out_bias",
    ]


def test_a_stored_network_without_one_of_its_layers_is_refused(tmp_path):
    training = open_training(settings_of(tmp_path, layers=3), GAME)
    manifest = training.store.verify("tic_tac_toe", 1, game=GAME)
    tensors = {name: tensor.numpy() for name, tensor in as_tensors(training.learner.net).items()}
    states, legal, _, golden_value = manifest.golden.arrays()
    network = ValueNetwork(manifest, tensors, GAME.spec())
    np.testing.assert_allclose(network(LeafBatch(states, legal))[1], golden_value, atol=1e-5)
    with pytest.raises(CorruptModel, match=r"deep\.1\.bias has no such layer, want \(8,\)"):
        ValueNetwork(manifest, {name: array for name, array in tensors.items() if name != "deep.1.bias"}, GAME.spec())
    training.replay.close()


def test_the_learning_rate_falls_by_epochs():
    learner = TdLambda(GAME, TdLambdaSettings(learning_rate=0.3, learning_rate_decay=0.5, epoch_games=10), seed=1)
    rates = []
    for learner.state.step in (0, 9, 10, 25):
        rates.append(learner.rates.learning_rate)
    assert rates == [0.3, 0.3, 0.15, 0.075]


@pytest.mark.parametrize(("initial", "hidden", "bias"), [("scaled", 18**-0.5, 1.0), ("normal", 1.0, 1.0), ("small", 0.05, 0.0)])
def test_first_weights_have_the_distribution_of_the_settings(initial, hidden, bias):
    net = TdLambda(GAME, TdLambdaSettings(hidden=2_000, initial_weights=initial), seed=3).net
    assert net.hidden.shape == (18, 2_000)
    assert net.hidden.std() == pytest.approx(hidden, rel=0.05)
    assert net.hidden_bias.std() == pytest.approx(bias, rel=0.05)
    again = TdLambda(GAME, TdLambdaSettings(hidden=2_000, initial_weights=initial), seed=3).net
    assert_equal(net, again)
    deep = TdLambda(GAME, TdLambdaSettings(hidden=400, layers=3, initial_weights=initial), seed=3).net
    assert deep.deep.shape == (2, 400, 400)
    assert deep.deep.std() == pytest.approx(400**-0.5 if initial == "scaled" else hidden, rel=0.05)
    assert deep.deep_bias.std() == pytest.approx(bias, rel=0.1)


@pytest.mark.parametrize(
    ("hidden", "layers", "wanted"), [(100, 1, 21_401), (100, 2, 31_501), (100, 3, 41_601), (250, 2, 116_251)]
)
def test_networks_of_the_thesis_have_its_numbers_of_weights(hidden, layers, wanted):
    game = make("connect_four", encoding="feature")
    net = TdLambda(game, TdLambdaSettings(hidden=hidden, layers=layers), seed=0).net
    assert sum(array.size for array in net) == wanted


def test_weights_that_diverge_end_the_process():
    learner = TdLambda(GAME, SETTINGS, seed=0)
    learner.net.hidden[:] = np.nan
    learner.window.add(learner.window.read(validate(decode_record(play(1)[0]))))
    with pytest.raises(CorruptModel, match="diverged"):
        learner.step()


def test_the_learner_refuses_what_it_cannot_learn(tmp_path, two_ranks):
    with pytest.raises(ConfigurationError, match="3 players"):
        TdLambda(make("chinese_checkers_star37"), SETTINGS, seed=0)
    with pytest.raises(ConfigurationError, match="chinese_checkers_rhombus declares none"):
        TdLambda(make("chinese_checkers_rhombus"), OF_FIRST, seed=0)
    with pytest.raises(ConfigurationError, match="in one process"):
        TdLambda.open(GAME, settings_of(tmp_path), ranks=two_ranks)
    with pytest.raises(ConfigurationError, match="without torchrun"):
        TdLambda(GAME, SETTINGS, seed=0).invited(Accounts())
