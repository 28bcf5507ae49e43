"""The learner `outcome`: labels from records, the held-out split, gradients, overfitting, kill and resume, export."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from games import core, positions
from games.core import make
from selfplay_worker.opposition import make_opponents
from trainer.learners.contract import Accounts
from trainer.learners.outcome.labels import Labelled, is_held_out, read_labels
from trainer.learners.outcome.learner import Outcome
from trainer.learners.outcome.measures import measure
from trainer.ranks import Place, Ranks
from trainer.replay import AcceptedGame
from trainer.settings import TrainerSettings
from trainer.start import open_training
from zerofleet.contracts.model_checks import MODEL_FILE
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.played import EXPLORATORY
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.errors import ConfigurationError, CorruptModel, VersionSkew
from zerofleet.evaluators.base import LeafBatch
from zerofleet.evaluators.in_process.evaluator import InProcessEvaluator
from zerofleet.presets import NetworkSettings
from zerofleet.presets.outcome import OutcomeSettings
from zerofleet.search.afterstates.block import AfterstateBlock
from zerofleet.search.afterstates.settings import AfterstateSettings

NAME = "tic_tac_toe"
GAME = make(NAME)
NETWORK = {"kind": "perceptron", "hidden": [16, 12], "policy_head": "none", "value_output": "win_or_loss"}
NORMED = {**NETWORK, "normalisation": "batch"}
ALL_LEARN = {"held_out_share": 0.0, "undecided": "half", "sides": "both"}


class TwoRanks(Ranks):
    place = Place(0, 2, 0)


def play(count, *, seed=1, opening=(), **changes):
    """Records of random games."""
    block = AfterstateBlock(GAME, AfterstateSettings(policy="softmax", temperature=100.0, **changes), slots=count)
    for slot in range(count):
        block.begin(slot, seed=seed + slot, versions=[1, 1], opening=opening)
    while len(block.finished()) < count:
        block.absorb(np.empty(0), np.zeros((len(block.advance().batch), 2), dtype=np.float32))
    games = [block.take(slot) for slot in range(count)]
    return [encode_record(one, worker_id="w", uid=f"{seed + slot:032x}") for slot, one in enumerate(games)]


@pytest.fixture(scope="module")
def records():
    return play(40)


def valid(record):
    return validate(decode_record(record))


def read(record, **settings):
    return read_labels(valid(record), OutcomeSettings(**settings))


def decided(records, *, won_by):
    """The first record won by a seat."""
    return next(record for record in records if decode_record(record).scores[won_by] == 1.0)


def learner_of(network=None, **outcome):
    return Outcome(GAME, NetworkSettings(**(network or NETWORK)), OutcomeSettings(**{**ALL_LEARN, **outcome}), seed=3)


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


def test_the_moves_of_an_opposing_agent_are_labelled_too_and_those_of_a_random_opening_are_not(records):
    block = AfterstateBlock(
        GAME,
        AfterstateSettings(policy="greedy", opponents=("random",), learner_seat="first"),
        slots=12,
        opponents=make_opponents(GAME, AfterstateSettings(opponents=("random",), learner_seat="first")),
    )
    for slot in range(12):
        block.begin(slot, seed=slot, versions=[1, 1], opening=[4, 0])
    while len(block.finished()) < 12:
        block.absorb(np.empty(0), np.zeros((len(block.advance().batch), 2), dtype=np.float32))
    games = [encode_record(block.take(slot), worker_id="w", uid=f"{slot:032x}") for slot in range(12)]
    record = decided(games, won_by=0)
    played = valid(record)
    assert set(played.search.ply.tolist()) == set(range(2, len(played.record.moves), 2))  # the model's moves alone
    found = read(record, **ALL_LEARN)
    assert len(found) == len(played.record.moves) - 1 - 2
    for row in range(len(found)):
        ply = 3 + row
        np.testing.assert_array_equal(found.states[row], positions.encode_for(GAME, played.states[ply], ply % 2))
        assert found.labels[row] == (1.0 if ply % 2 == 0 else 0.0)


@pytest.mark.parametrize("winner", [0, 1])
def test_positions_after_moves_are_labelled_with_the_chance_of_their_player_to_move(records, winner):
    record = decided(records, won_by=winner)
    played = valid(record)
    found = read(record, **ALL_LEARN)
    plies = len(played.record.moves)
    assert len(found) == plies - 1  # the last move ends the game, which the rules decide
    for row in range(plies - 1):
        to_move = (row + 1) % 2
        assert found.labels[row] == (1.0 if to_move == winner else 0.0)
        np.testing.assert_array_equal(found.states[row], positions.encode_for(GAME, played.states[row + 1], to_move))


def test_one_side_learns_from_the_moves_of_one_seat_that_the_record_names_or_its_seed_draws(records):
    record = decided(records, won_by=0)
    seed = decode_record(record).seed
    labels = read(record, held_out_share=0.0, sides="one").labels
    assert set(labels.tolist()) == {0.0 if seed % 2 == 0 else 1.0}  # after a move of the winner the other is to move
    for seat, name in enumerate(("first", "second")):
        named = decided(play(40, learner_seat=name), won_by=0)
        assert set(read(named, held_out_share=0.0, sides="one").labels.tolist()) == {float(seat)}


def test_all_legal_moves_have_the_label_of_the_move_that_was_played(records):
    record = decided(records, won_by=1)
    played = valid(record)
    found = read(record, **ALL_LEARN, labels="all")
    wanted, labels = [], []
    for ply in range(len(played.record.moves)):
        for action in positions.legal(GAME, played.states[ply]):
            after = played.states[ply].copy()
            core.play(GAME, after, action)
            if not core.is_over(GAME, after):
                wanted.append(positions.encode_for(GAME, after, 1 - ply % 2))
                labels.append(float(ply % 2 == 0))
    np.testing.assert_array_equal(found.states, wanted)
    assert found.labels.tolist() == labels


def test_a_game_without_a_winner_is_left_out_or_labelled_one_half(records):
    drawn = next(record for record in records if decode_record(record).scores[0] == 0.0)
    assert len(read(drawn, held_out_share=0.0)) == 0
    assert set(read(drawn, **ALL_LEARN).labels.tolist()) == {0.5}


def test_equal_games_are_on_one_side_of_the_split_whatever_their_names():
    many = [valid(record) for record in play(300, seed=1)] + [valid(record) for record in play(300, seed=5_000)]
    parts = {}
    for one in many:
        parts.setdefault(tuple(one.record.moves), set()).add(is_held_out(one, 0.3))
    assert all(len(found) == 1 for found in parts.values())
    share = np.mean([found == {True} for found in parts.values()])
    assert 0.2 < share < 0.4
    assert not any(is_held_out(one, 0.0) for one in many)


def test_a_held_out_game_is_measured_and_never_trained_on(records):
    learner = learner_of(held_out_share=0.5, sides="one")
    learn_from(learner, records)
    held_out = [record for record in records if is_held_out(valid(record), 0.5)]
    assert 5 < len(held_out) < 35
    assert len(learner.window.held_out) + learner.window.games == len(records)
    assert len(learner.window.held_out) == len(held_out)
    trained = {game.states.tobytes() for game in learner.window.take(learner.window.games)}
    for game in learner.window.held_out:
        assert game.ranked is not None
        assert game.states.tobytes() not in trained
    before = weights_of(learner)
    learner.measure()
    assert same(before, weights_of(learner))  # statistics of batch norms included
    assert learner.network.training


def test_accuracy_and_recall_are_those_counted_by_hand(records):
    record = decided(records, won_by=0)
    played, game = valid(record), read(record, held_out_share=1.0 - 1e-9)
    perfect = {state.tobytes(): label for state, label in zip(game.states, game.labels, strict=True)}
    assert measure([game], lambda states: np.array([perfect.get(one.tobytes(), 0.5) for one in states]))["accuracy"] == 1.0
    wrong = measure([game], lambda states: np.array([1.0 - perfect.get(one.tobytes(), 0.5) for one in states]))
    assert wrong["accuracy"] == 0.0
    undecided = measure([game], lambda states: np.full(len(states), 0.5))
    assert undecided["accuracy"] == 0.0
    first, six, moves = 0, 0, 0
    for ply, action in enumerate(played.record.moves):  # equal chances: the order of the legal moves, wins by the rules first
        legal = positions.legal(GAME, played.states[ply])
        if len(legal) < 2 or played.search.flags[ply] & EXPLORATORY:
            continue
        chances = []
        for one in legal:
            after = played.states[ply].copy()
            core.play(GAME, after, one)
            chances.append((positions.final_scores(GAME, after)[ply % 2] + 1) / 2 if core.is_over(GAME, after) else 0.5)
        place = sorted(range(len(legal)), key=lambda i: (-chances[i], i)).index(legal.index(action))
        first, six, moves = first + (place < 1), six + (place < 6), moves + 1
    assert undecided["recall_1"] == pytest.approx(first / moves)
    assert undecided["recall_6"] == pytest.approx(six / moves)


@pytest.mark.parametrize("output", ["win_or_loss", "win_probability"])
def test_the_gradient_is_that_of_finite_differences(records, output):
    learner = learner_of({**NETWORK, "hidden": [5, 4], "activation": "tanh", "value_output": output}, learning_rate=1e-12)
    games = [learner.window.read(valid(record)) for record in records[:3]]
    states, labels = (np.concatenate([getattr(game, name) for game in games]) for name in ("states", "labels"))
    report = learner.train_on(games)
    step = 5e-3  # the network computes in single precision

    def loss():
        return float(((learner.chances(states).astype(np.float64) - labels) ** 2).mean())

    assert report.squared_error == pytest.approx(loss(), rel=1e-5)
    largest = 0.0
    for parameter in learner.network.parameters():
        flat, gradient = parameter.data.view(-1), parameter.grad.flatten()
        for index in range(0, len(flat), max(1, len(flat) // 5)):
            kept, values = flat[index].item(), []
            for shifted in (kept + step, kept - step):
                flat[index] = shifted
                values.append(loss())
            flat[index] = kept
            assert gradient[index].item() == pytest.approx((values[0] - values[1]) / (2 * step), abs=3e-5)
            largest = max(largest, abs(gradient[index].item()))
    assert largest > 0.01


def test_an_update_descends_the_gradient_of_the_mean_squared_error_once(records):
    learner = learner_of(learning_rate=0.5)
    games = [learner.window.read(valid(record)) for record in records[:2]]
    before = weights_of(learner)
    report = learner.train_on(games)
    names = [name for name, _ in learner.network.named_parameters()]
    gradients = {name: parameter.grad for name, parameter in learner.network.named_parameters()}
    for name in names:
        torch.testing.assert_close(learner.network.state_dict()[name], before[name] - 0.5 * gradients[name])
    assert report.samples == sum(len(game) for game in games)
    assert report.gradient_norm == pytest.approx(float(torch.stack([g.norm() for g in gradients.values()]).norm()), rel=1e-5)


@pytest.mark.parametrize("normalisation", ["none", "batch", "layer"])
def test_one_batch_is_learned_by_heart(records, normalisation):
    learner = learner_of({**NETWORK, "hidden": [64, 32], "normalisation": normalisation}, learning_rate=0.3, momentum=0.9)
    read_games = [learner.window.read(valid(record)) for record in records[:4]]
    wanted = {}
    for game in read_games:
        for state, label in zip(game.states, game.labels, strict=True):
            wanted.setdefault(state.tobytes(), label)
    states = np.array([np.frombuffer(one, np.uint8) for one in wanted])
    batch = [Labelled(states, np.array(list(wanted.values()), np.float32))]
    losses = [learner.train_on(batch).squared_error for _ in range(400)]
    assert losses[0] > 0.1
    assert losses[-1] < 0.005


def test_replays_are_drawn_from_the_games_learned_from(records):
    learner = learner_of(replays=3, memory_games=5)
    learn_from(learner, records[:8])
    reports = [learner.step() for _ in range(8)]
    sizes = [len(read(record, **ALL_LEARN)) for record in records[:8]]
    assert reports[0].samples == 4 * sizes[0]  # the memory holds the first game alone
    assert learner.window.games == 0
    assert len(learner.window) == sum(sizes[3:])  # kept: what a restart must read again
    assert learner.state.samples_trained == sum(report.samples for report in reports)


@pytest.mark.parametrize("changes", [{}, {"momentum": 0.9, "replays": 2, "memory_games": 4}, {"games_per_step": 2}])
def test_a_killed_trainer_resumes_with_the_step_that_it_would_have_taken(tmp_path, records, changes):
    first = open_training(settings_of(tmp_path, **changes), GAME)
    assert (first.newest_version, first.learner.steps_allowed()) == (1, 0)
    keep(first, records[:12])
    for _ in range(3):
        first.learner.step()
    first.save()
    saved, waiting = weights_of(first.learner), first.learner.window.games
    for _ in range(2):  # lost with the process
        first.learner.step()
    reached = weights_of(first.learner)
    assert not same(saved, reached)
    first.replay.close()
    second = open_training(settings_of(tmp_path, **changes), GAME)
    assert (second.learner.state.step, second.learner.window.games) == (3, waiting)
    assert same(weights_of(second.learner), saved)
    for _ in range(2):
        second.learner.step()
    assert same(weights_of(second.learner), reached)
    second.replay.close()


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


def test_a_run_without_its_checkpoint_goes_on_from_the_stored_weights(tmp_path, records):
    first = open_training(settings_of(tmp_path), GAME)
    stored = weights_of(first.learner)
    keep(first, records[:3])
    first.replay.close()
    for file in sorted((tmp_path / "replay" / "checkpoints").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    second = open_training(settings_of(tmp_path), GAME)
    assert same(weights_of(second.learner), stored)
    assert (len(second.replay.log), second.learner.steps_allowed()) == (3, 0)  # no game is used twice
    second.replay.close()


def test_weights_that_diverge_end_the_process(records):
    learner = learner_of()
    with torch.no_grad():
        next(learner.network.parameters()).fill_(float("nan"))
    learn_from(learner, records[:1])
    with pytest.raises(CorruptModel, match="diverged"):
        learner.step()


def test_the_learner_refuses_what_it_cannot_learn(tmp_path):
    for network, text in (
        ({**NETWORK, "policy_head": "dense"}, "policy_head=none"),
        ({**NETWORK, "value_output": "players"}, "win_or_loss or win_probability"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            learner_of(network)
    with pytest.raises(ConfigurationError, match="two players"):
        Outcome(make("chinese_checkers_star37"), NetworkSettings(**NETWORK), OutcomeSettings(), seed=0)
    with pytest.raises(ConfigurationError, match="in one process"):
        Outcome.open(GAME, settings_of(tmp_path), ranks=TwoRanks())
    with pytest.raises(ConfigurationError, match="without torchrun"):
        learner_of().invited(Accounts())
