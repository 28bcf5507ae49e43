"""Start of a trainer: from nothing, from a checkpoint, from a stored model, and the plan of its run."""

from __future__ import annotations

import functools
import shutil

import numpy as np
import pytest
from small_trainer import MODEL, NETWORK, TRAIN, settings_of
from structlog.testing import capture_logs

from trainer.replay import AcceptedGame
from trainer.start import open_training
from zerofleet.errors import RecordRejected, VersionSkew
from zerofleet.storage.game_log import GameLog

PLANNED = {**TRAIN, "min_samples": 1, "max_reuse": 1e9, "schedule": "linear", "schedule_over": "plan"}


def test_without_a_checkpoint_training_resumes_from_the_newest_model(tmp_path, game):
    first = open_training(settings_of(tmp_path), game)
    first.replay.close()
    shutil.rmtree(tmp_path / "replay")
    second = open_training(settings_of(tmp_path, seed=77), game)
    second.replay.close()
    one, two = (training.learner.network.state_dict() for training in (first, second))
    assert all((one[name] == two[name]).all() for name in one)
    assert second.store.versions(MODEL) == [1]


def test_without_a_checkpoint_the_samples_of_the_log_count_as_used(tmp_path, record, game):
    first = open_training(settings_of(tmp_path), game)
    games = [AcceptedGame(uid, payload, first.replay.read(payload)) for uid, payload in map(record, range(8))]
    first.replay.keep(games)
    first.replay.close()
    shutil.rmtree(tmp_path / "replay" / "checkpoints")
    second = open_training(settings_of(tmp_path), game)
    second.replay.close()
    assert second.replay.window.total > 0
    assert second.learner.steps_allowed() == 0


def test_without_a_checkpoint_the_newest_model_is_not_published_again(tmp_path, record, game):
    first = open_training(settings_of(tmp_path), game)
    games = [AcceptedGame(uid, payload, first.replay.read(payload)) for uid, payload in map(record, range(40))]
    first.replay.keep(games[:20])
    first.replay.close()
    shutil.rmtree(tmp_path / "replay" / "checkpoints")
    second = open_training(settings_of(tmp_path), game)
    assert second.replay.window.total > TRAIN["samples_per_candidate"]
    assert (second.accounts.candidate_version, second.candidate_due) == (1, False)
    second.replay.keep(games[20:])
    second.train(60.0, lambda: False)
    second.replay.close()
    assert second.candidate_due


def test_a_trainer_that_starts_while_another_one_ends_resumes_from_its_last_checkpoint(tmp_path, game, monkeypatch):
    first = open_training(settings_of(tmp_path), game)
    open_log = GameLog.open

    def open_after_its_end(*given, **named):
        first.learner.state.step += 7
        first.save()
        first.replay.close()
        return open_log(*given, **named)

    monkeypatch.setattr(GameLog, "open", open_after_its_end)
    second = open_training(settings_of(tmp_path), game)
    second.replay.close()
    assert second.learner.state.step == first.learner.state.step == 7


@pytest.mark.parametrize("reuse", [1.0, 20.0])
def test_another_reuse_on_resumption_holds_for_new_games_alone(tmp_path, record, game, reuse):
    first = open_training(settings_of(tmp_path), game)
    games = [AcceptedGame(uid, payload, first.replay.read(payload)) for uid, payload in map(record, range(30))]
    first.replay.keep(games[:20])
    while first.learner.steps_allowed():
        first.learner.step()
    first.note_candidate(1)
    first.save()
    first.replay.close()
    second = open_training(settings_of(tmp_path, train={**TRAIN, "max_reuse": reuse}), game)
    assert second.learner.steps_allowed() == 0
    second.replay.keep(games[20:])
    fresh = sum(len(one.samples) for one in games[20:])
    assert second.learner.steps_allowed() in {reuse * fresh // TRAIN["batch_size"] + carried for carried in (0, 1)}
    second.train(60.0, lambda: False)
    second.replay.close()
    assert second.candidate_due


def test_training_that_deletes_old_games_resumes_with_its_window(tmp_path, record, game, monkeypatch):
    monkeypatch.setattr("trainer.replay.MARK_EVERY_GAMES", 10)
    monkeypatch.setattr(GameLog, "open", functools.partial(GameLog.open, segment_bytes=400))
    settings = settings_of(tmp_path, keep_games=20, train={**TRAIN, "window_min": 100, "window_max": 100})
    first = open_training(settings, game)
    for begin in range(0, 100, 10):
        games = [(uid, payload, first.replay.read(payload)) for uid, payload in map(record, range(begin, begin + 10))]
        first.replay.keep([AcceptedGame(*one) for one in games])
        first.save()
    assert first.replay.log.start_index >= 50
    first.replay.close()
    second = open_training(settings, game)
    second.replay.close()
    assert (second.replay.window.total, len(second.replay.window)) == (first.replay.window.total, 100)
    one, two = (training.replay.window.draw(300, np.random.default_rng(1)).arrays for training in (first, second))
    assert all((left == right).all() for left, right in zip(one, two, strict=True))


def test_a_trainer_whose_stored_games_are_all_refused_waits_for_as_many_samples_as_at_its_first_step(
    tmp_path, record, game, monkeypatch
):
    monkeypatch.setattr("trainer.replay.MARK_EVERY_GAMES", 10)
    train = {**TRAIN, "min_samples": 60, "window_min": 100, "window_max": 100}
    first = open_training(settings_of(tmp_path, train=train), game)
    games = [AcceptedGame(uid, payload, first.replay.read(payload)) for uid, payload in map(record, range(80))]
    first.replay.keep(games[:40])
    first.learner.step()
    first.save()
    first.replay.close()

    def refuse(record):
        raise RecordRejected("version_skew", "of rules version 1, here 2")

    monkeypatch.setattr("trainer.replay.validate", refuse)
    second = open_training(settings_of(tmp_path, train=train), game)
    assert (len(second.replay.window), second.replay.window.total > train["min_samples"]) == (0, True)
    assert second.learner.steps_allowed() == 0
    assert second.publish_candidate() == 2
    for one in games[40:]:
        second.replay.keep([one])
        assert (second.learner.steps_allowed() > 0) == (len(second.replay.window) >= train["min_samples"])
    second.learner.step()
    second.replay.close()


def learn_from(training, game):
    """Take steps on a game, given as uid and payload."""
    uid, payload = game
    training.replay.keep([AcceptedGame(uid, payload, training.replay.read(payload))])
    training.train(0.05, lambda: False)


def test_the_learner_follows_the_plan_of_the_run(tmp_path, record, game):
    train = {**PLANNED, "samples_per_candidate": 10**6}
    for planned_end_s, share in ((0.0, 0.0), (1.0, 1.0)):
        training = open_training(settings_of(tmp_path, train=train, planned_end_s=planned_end_s), game)
        learn_from(training, record(int(planned_end_s)))
        assert training.learner.progress == share
        training.save()
        training.replay.close()
        active_s = training.accounts.active_s
    third = open_training(settings_of(tmp_path, train=train), game)
    third.replay.close()
    assert third.accounts.active_s == active_s > 0


@pytest.mark.parametrize(("learner", "warned"), [("alphazero", True), ("td_lambda", False)])
def test_a_schedule_over_the_plan_needs_one_where_the_learner_has_that_schedule(tmp_path, game, learner, warned):
    settings = settings_of(tmp_path, train={**PLANNED, "learner": learner})
    with capture_logs() as logged:
        open_training(settings, game).replay.close()
    assert ("schedule.without_plan" in [line["event"] for line in logged]) == warned


def test_a_run_resumed_without_a_planned_end_stays_at_the_end_of_its_schedule(tmp_path, record, game):
    train = {**PLANNED, "samples_per_candidate": 10**6}
    for planned_end_s in (1.0, 0.0):  # the first end has passed
        training = open_training(settings_of(tmp_path, train=train, planned_end_s=planned_end_s), game)
        learn_from(training, record(0))
        training.save()
        training.replay.close()
        assert training.learner.progress == 1.0


def test_a_model_without_a_checkpoint_goes_on_with_its_step_and_says_what_begins_anew(tmp_path, record, game):
    train = {**PLANNED, "samples_per_candidate": 10**6}
    training = open_training(settings_of(tmp_path, train=train), game)
    learn_from(training, record(0))
    step = training.learner.state.step
    assert training.publish_candidate() == 2
    training.replay.close()
    shutil.rmtree(tmp_path / "replay" / "checkpoints")
    with capture_logs() as logged:
        training = open_training(settings_of(tmp_path, train=train), game)
    training.replay.close()
    assert training.learner.state.step == step > 0
    assert [(line["version"], line["step"]) for line in logged if line["event"] == "training.without_checkpoint"] == [(2, step)]


def test_samples_that_no_longer_count_do_not_delay_the_next_candidate(tmp_path, record, game):
    settings = settings_of(tmp_path, train={"samples_per_candidate": 10**6})
    training = open_training(settings, game)
    learn_from(training, record(0))
    training.note_candidate(1)
    training.accounts.candidate_samples += 1_000  # of games that are not in the log any more
    training.save()
    training.replay.close()
    resumed = open_training(settings, game)
    resumed.replay.close()
    assert resumed.accounts.candidate_samples == resumed.replay.window.total > 0


def test_the_learner_follows_a_plan_that_the_caller_measures(tmp_path, record, game):
    training = open_training(settings_of(tmp_path, train=PLANNED, planned_end_s=1.0), game, progress=lambda: 0.25)
    learn_from(training, record(0))
    training.replay.close()
    assert training.learner.progress == 0.25


def test_a_stored_model_of_another_size_is_refused(tmp_path, game):
    open_training(settings_of(tmp_path), game).replay.close()
    shutil.rmtree(tmp_path / "replay")
    with pytest.raises(VersionSkew, match="has network"):
        open_training(settings_of(tmp_path, network={**NETWORK, "blocks": 2}), game)
