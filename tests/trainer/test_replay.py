"""The replay store: what is on disk comes back into the window, and no more of it than the window needs."""

from __future__ import annotations

import numpy as np
import pytest
from small_trainer import settings_of

from trainer.checkpoint_files import save
from trainer.replay import MARK_EVERY_GAMES, AcceptedGame, Mark, Replay
from trainer.start import open_training
from trainer.window import SampleWindow
from zerofleet.errors import RecordRejected, RunDirectoryError
from zerofleet.presets import TrainSettings
from zerofleet.storage.game_log import GameLog

SETTINGS = TrainSettings(window_min=50, window_slope=0.4, window_max=10_000)


@pytest.fixture
def accepted(record):
    def make(replay, numbers):
        found = []
        for number in numbers:
            uid, payload = record(number)
            found.append(AcceptedGame(uid, payload, replay.read(payload)))
        return found

    return make


def everything(window):
    return {(s.tobytes(), v.tobytes()) for s, v in zip(window._rows.states, window._rows.value, strict=True)}


def test_stored_games_are_on_disk_and_in_the_window(game, tmp_path, accepted):
    replay = Replay.open(GameLog.open(tmp_path, writer=True), SampleWindow(game.spec(), SETTINGS))
    games = accepted(replay, range(5))
    replay.keep(games)
    assert len(replay.log) == 5
    assert replay.window.total == sum(len(game.samples) for game in games)
    with GameLog.open(tmp_path, writer=False) as reader:
        assert [(logged.uid, logged.payload) for logged in reader.scan()] == [(g.uid, g.payload) for g in games]
    replay.close()


def test_a_reopened_store_has_the_same_window_and_draws_the_same_batches(game, tmp_path, accepted):
    first = Replay.open(GameLog.open(tmp_path, writer=True), SampleWindow(game.spec(), SETTINGS))
    for begin in range(0, 60, 7):
        first.keep(accepted(first, range(begin, begin + 7)))
    first.close()
    second = Replay.open(GameLog.open(tmp_path, writer=True), SampleWindow(game.spec(), SETTINGS))
    assert (second.window.total, len(second.window)) == (first.window.total, len(first.window))
    for one, two in zip(*(w.draw(500, np.random.default_rng(1)).arrays for w in (first.window, second.window)), strict=True):
        np.testing.assert_array_equal(one, two)
    second.close()


@pytest.mark.slow
def test_a_restart_with_marks_reads_only_the_games_of_the_window(game, tmp_path, accepted, monkeypatch):
    settings = SETTINGS.model_copy(update={"window_max": 1000})
    first = Replay.open(GameLog.open(tmp_path, writer=True), SampleWindow(game.spec(), settings))
    for begin in range(0, 1400, 100):
        first.keep(accepted(first, range(begin, begin + 100)))
    marks = first.marks
    assert all(mark.game % MARK_EVERY_GAMES == 0 for mark in marks)
    assert marks[0].samples <= first.window.total - len(first.window) < marks[1].samples
    first.close()
    second = Replay.open(
        GameLog.open(tmp_path, writer=True), SampleWindow(game.spec(), settings, first=marks[0].samples), marks
    )
    assert marks[0].game > 500
    assert (second.window.total, len(second.window)) == (first.window.total, len(first.window))
    assert second.marks == marks
    for one, two in zip(*(w.draw(500, np.random.default_rng(1)).arrays for w in (first.window, second.window)), strict=True):
        np.testing.assert_array_equal(one, two)
    second.close()


def test_games_counted_by_the_checkpoint_but_missing_in_the_log_are_reported(game, tmp_path):
    with GameLog.open(tmp_path, writer=True) as log, pytest.raises(RunDirectoryError, match="games are missing"):
        Replay.open(log, SampleWindow(game.spec(), SETTINGS, first=2000), [Mark(256, 2000)])


def test_a_start_that_fails_releases_the_lock(game, tmp_path):
    opened = open_training(settings_of(tmp_path), game)
    opened.replay.close()
    opened.accounts.marks = (Mark(256, 2000),)
    save(tmp_path / "replay" / "checkpoints", *opened.learner.pack(opened.accounts))
    with pytest.raises(RunDirectoryError, match="games are missing"):
        open_training(settings_of(tmp_path), game)
    GameLog.open(tmp_path / "replay", writer=True).close()


def test_two_trainers_cannot_write_one_store(game, tmp_path):
    first = Replay.open(GameLog.open(tmp_path, writer=True), SampleWindow(game.spec(), SETTINGS))
    with pytest.raises(RunDirectoryError, match="another process"):
        Replay.open(GameLog.open(tmp_path, writer=True), SampleWindow(game.spec(), SETTINGS))
    first.close()


def test_an_unreadable_stored_game_is_left_out_of_the_window(game, tmp_path, accepted):
    replay = Replay.open(GameLog.open(tmp_path, writer=True), SampleWindow(game.spec(), SETTINGS))
    games = accepted(replay, range(3))
    replay.keep(games)
    replay.log.append([("f" * 32, b"from another time")])
    replay.close()
    again = Replay.open(GameLog.open(tmp_path, writer=True), SampleWindow(game.spec(), SETTINGS))
    assert again.window.total == sum(len(game.samples) for game in games)
    again.close()


def test_a_false_record_is_rejected_by_the_replay_store(game, tmp_path, record):
    replay = Replay.open(GameLog.open(tmp_path, writer=True), SampleWindow(game.spec(), SETTINGS))
    with pytest.raises(RecordRejected):
        replay.read(record(1, scores=(0.5, -0.5))[1])
    replay.close()


# -- deletion of old games ---------------------------------------------------------------------------------------------


@pytest.fixture
def of_100_games(game, tmp_path, accepted):
    def make(**options):
        """Return a store of 100 games in files of ten."""
        log = GameLog.open(tmp_path, writer=True, segment_bytes=400)
        replay = Replay(SampleWindow(game.spec(), SETTINGS), log, **options)
        for begin in range(0, 100, 10):
            replay.keep(accepted(replay, range(begin, begin + 10)))
        return replay

    return make


def test_games_beyond_those_to_keep_are_deleted_once_two_checkpoints_need_none_of_them(of_100_games, accepted):
    replay = of_100_games(kept_games=40)
    for needed in (50, 90, 70):
        replay.note_checkpoint([Mark(needed, 0)])
        before = replay.log.start_index
        replay.keep(accepted(replay, [100 + needed]))
        assert replay.log.start_index >= before
        if needed == 50:
            assert replay.log.start_index == 0  # the checkpoint before it may need any game
    assert replay.log.start_index == 60  # of 103 games
    assert (len(replay.log), replay.log.end_index) == (103, 103)
    replay.close()


def test_games_that_a_checkpoint_needs_stay_however_few_are_to_be_kept(of_100_games, accepted):
    replay = of_100_games(kept_games=1)
    for needed in (30, 60):
        replay.note_checkpoint([Mark(needed, 0)])
    replay.keep(accepted(replay, [100]))
    assert replay.log.start_index == 30
    replay.close()


def test_a_file_that_cannot_be_deleted_does_not_stop_new_games(tmp_path, of_100_games, accepted):
    replay = of_100_games(kept_games=1)
    for needed in (50, 60):
        replay.note_checkpoint([Mark(needed, 0)])
    path = tmp_path / "00000000.games"
    path.unlink()
    path.mkdir()  # which no unlink removes
    (late,) = accepted(replay, [100])
    before = replay.window.total
    replay.keep([late])
    assert (len(replay.log), replay.window.total, replay.log.start_index) == (101, before + len(late.samples), 0)
    path.rmdir()
    replay.keep(accepted(replay, [101]))
    assert replay.log.start_index == 50
    replay.close()


def test_every_game_stays_by_default(of_100_games, accepted):
    replay = of_100_games()
    for needed in (60, 90):
        replay.note_checkpoint([Mark(needed, 0)])
    replay.keep(accepted(replay, [100]))
    assert replay.log.start_index == 0
    replay.close()


def test_a_checkpoint_whose_games_were_deleted_is_reported(game, tmp_path, of_100_games):
    replay = of_100_games()
    start = replay.log.drop_before(50)
    replay.close()
    said = f"needs games from 0 on, the log begins with {start}"
    with GameLog.open(tmp_path, writer=True) as log, pytest.raises(RunDirectoryError, match=said):
        Replay.open(log, SampleWindow(game.spec(), SETTINGS), [Mark(0, 0)])
    remaining = Replay.open(GameLog.open(tmp_path, writer=True), SampleWindow(game.spec(), SETTINGS))  # without a checkpoint
    assert remaining.window.total > 0
    remaining.close()
