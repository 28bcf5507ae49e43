"""The trainer in a warm start: no version before the games of agents are there and learnt; then as in any run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from games.core import make
from trainer.readers.base import RecordReader
from trainer.record_check import RecordCheck
from trainer.settings import TrainerSettings
from trainer.start import open_training
from zerofleet.contracts.records import encode_record
from zerofleet.contracts.records.samples import random_game
from zerofleet.errors import UnfitModel
from zerofleet.search import EXTERNAL
from zerofleet.storage.streams import Delivery

NETWORK = {"blocks": 1, "channels": 8, "policy_channels": 2, "value_channels": 2, "value_hidden": 8}
TRAIN = {"batch_size": 16, "min_samples": 20, "max_reuse": 2.0, "samples_per_candidate": 60, "average_decay": 0.5}
GAMES = 6


def settings_of(tmp_path, **changes) -> TrainerSettings:
    given = {"run_dir": tmp_path, "game": "tic_tac_toe", "preset": "tiny", "network": NETWORK, "train": TRAIN}
    return TrainerSettings(**{**given, "warm_start": {"games": GAMES, "agents": "random"}, **changes})


def of_agents(number: int, game=None, *, worker: str = "w", taught: bool = True) -> Delivery:
    """A delivered game of agents."""
    played = random_game(game or make("tic_tac_toe"), number, version=0)
    players = len(played.scores)
    played = replace(played, versions=(EXTERNAL,) * players, searched=played.searched if taught else ())
    uid = f"{number:032x}"
    return Delivery(str(number), uid, encode_record(played, worker_id=worker, uid=uid, agents=("random",) * players), 1)


def check_of(training) -> RecordCheck:
    reader = RecordReader(training.game, training.replay.window.read)
    return RecordCheck(reader, training.replay, lambda: training.newest_version)


def take(training, numbers, **how) -> None:
    check = check_of(training)
    checked = check.check([of_agents(number, **how) for number in numbers])
    assert not checked.refused
    training.replay.keep(checked.accepted)


def trained(training) -> None:
    training.train(60.0, lambda: False)


@pytest.mark.slow
def test_no_version_is_published_before_training_on_the_games_of_agents(tmp_path):
    training = open_training(settings_of(tmp_path), make("tic_tac_toe"))
    assert training.newest_version == 0
    take(training, range(GAMES - 1))
    trained(training)
    assert (training.learner.steps_allowed(), training.candidate_due) == (0, False)
    take(training, range(GAMES, GAMES + 4))
    assert not training.candidate_due  # what has come is still to be learnt
    trained(training)
    assert training.candidate_due
    assert training.publish_candidate() == 1
    assert (training.newest_version, training.candidate_due, training.warm_starting) == (1, False, False)
    assert training.learner.state.samples_trained > 0
    training.replay.close()


def test_games_that_are_on_disk_and_not_yet_in_the_window_do_not_end_the_warm_start(tmp_path, monkeypatch):
    training = open_training(settings_of(tmp_path), make("tic_tac_toe"))
    add, due = training.replay.window.add, []

    def look(samples):
        due.append((len(training.replay.log), training.candidate_due))
        add(samples)

    monkeypatch.setattr(training.replay.window, "add", look)
    take(training, range(GAMES))
    assert due == [(GAMES, False)] * GAMES
    assert not training.candidate_due
    trained(training)
    assert training.candidate_due
    training.replay.close()


@pytest.mark.slow
def test_a_restarted_trainer_resumes_its_warm_start(tmp_path):
    first = open_training(settings_of(tmp_path), make("tic_tac_toe"))
    take(first, range(3))
    trained(first)
    first.save()
    steps = first.learner.state.step
    first.replay.close()
    second = open_training(settings_of(tmp_path), make("tic_tac_toe"))
    assert (second.newest_version, second.learner.state.step, len(second.replay.log)) == (0, steps, 3)
    take(second, range(3, GAMES))
    trained(second)
    assert second.publish_candidate() == 1
    second.replay.close()


@pytest.mark.slow
def test_a_kill_between_the_first_version_and_its_checkpoint_does_not_repeat_the_warm_start(tmp_path):
    first = open_training(settings_of(tmp_path), make("tic_tac_toe"))
    take(first, range(GAMES))
    trained(first)
    first.save()
    first.publish(first.learner.export())  # and dies
    first.replay.close()
    second = open_training(settings_of(tmp_path), make("tic_tac_toe"))
    assert (second.newest_version, second.warm_starting, second.candidate_due) == (1, False, False)
    second.replay.close()


@pytest.mark.slow
def test_games_without_samples_also_end_the_warm_start(tmp_path):
    training = open_training(settings_of(tmp_path), make("tic_tac_toe"))
    take(training, range(GAMES), taught=False)
    assert len(training.replay.window) == 0
    assert training.candidate_due
    assert training.publish_candidate() == 1
    training.replay.close()


def test_an_unfit_first_version_ends_the_process(tmp_path):
    training = open_training(settings_of(tmp_path), make("tic_tac_toe"), export=_refuse)
    take(training, range(GAMES), taught=False)
    with pytest.raises(UnfitModel):
        training.publish_candidate()
    training.replay.close()


def _refuse(*_, **__):
    raise UnfitModel("weights are not finite")


def test_games_of_models_are_refused_before_the_first_version(tmp_path):
    training = open_training(settings_of(tmp_path), make("tic_tac_toe"))
    check = check_of(training)
    uid = "a" * 32
    payload = encode_record(random_game(training.game, 1, version=1), worker_id="w", uid=uid)
    assert [refusal.reason for refusal in check.check([Delivery("1", uid, payload, 1)]).refused] == ["model_version"]
    training.replay.close()


@pytest.mark.slow
def test_games_of_agents_alone_may_have_their_own_limit_of_moves(tmp_path):
    game, longer = make("chinese_checkers_star37", moves_cap=5), make("chinese_checkers_star37", moves_cap=8)
    settings = settings_of(tmp_path, game="chinese_checkers_star37", game_parameters={"moves_cap": "5"})
    training = open_training(settings, game)
    reader = RecordReader(game, training.replay.window.read, warm_start_game=longer)
    check = RecordCheck(reader, training.replay, lambda: 1)
    uid = "b" * 32
    of_model = encode_record(random_game(longer, 1, version=1), worker_id="w", uid=uid)
    checked = check.check([of_agents(1, longer), of_agents(2, game), Delivery("3", uid, of_model, 1)])
    assert [accepted.uid for accepted in checked.accepted] == [f"{1:032x}"]
    assert [refusal.reason for refusal in checked.refused] == ["other_game", "other_game"]
    training.replay.keep(checked.accepted)
    assert training.replay.window.total == 24
    training.replay.close()


def test_a_game_of_agents_that_two_workers_played_counts_once(tmp_path):
    training = open_training(settings_of(tmp_path), make("tic_tac_toe"))
    check = check_of(training)
    again = [of_agents(1, worker=name) for name in ("w0", "w1")]
    other = replace(of_agents(2), uid=of_agents(1).uid)
    checked = check.check(again)
    assert (len(checked.accepted), checked.duplicates, len(checked.settled)) == (1, 1, 2)
    training.replay.keep(checked.accepted)
    assert check.check([other]).duplicates == 1
    training.replay.close()


def test_without_a_warm_start_the_first_version_is_published_at_once(tmp_path):
    training = open_training(settings_of(tmp_path, warm_start={"games": 0}), make("tic_tac_toe"))
    assert (training.newest_version, training.warm_starting) == (1, False)
    training.replay.close()
