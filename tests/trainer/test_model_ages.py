"""Which model is too old: the window's own oldest, whatever came meanwhile."""

from __future__ import annotations

import pytest

from trainer.learners.queue import GameQueue
from trainer.model_ages import ModelAges
from trainer.readers.base import RecordReader
from trainer.record_check import RecordCheck
from trainer.replay import Replay
from trainer.window import SampleWindow
from zerofleet.presets import TrainSettings
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.streams import Delivery


def test_the_oldest_model_version_follows_the_window():
    ages = ModelAges(0)
    for version in (1, 2, 3, 2, 5):
        ages.note(version, 10)
    assert [ages.oldest(begin) for begin in (0, 9, 10, 29, 30, 39, 40, 50)] == [1, 1, 2, 2, 2, 2, 5, 0]


def test_no_game_is_too_old_while_the_window_has_games_from_before_the_start():
    ages = ModelAges(100)
    ages.note(7, 10)
    assert ages.oldest(99) == 0
    assert ages.oldest(100) == 7


def test_model_ages_keep_a_bounded_number_of_entries():
    ages = ModelAges(0)
    for _ in range(10_000):
        ages.note(3, 1)
    assert len(ages._rising) == 1


@pytest.fixture
def replay(game, tmp_path):
    """A window of hardly more than one game."""
    opened = Replay.open(
        GameLog.open(tmp_path / "replay", writer=True), SampleWindow(game.spec(), TrainSettings(window_min=10, window_max=10))
    )
    yield opened
    opened.close()


def test_a_game_of_a_model_older_than_the_window_is_refused_unless_it_is_the_champions(game, replay, record):
    champion = 9

    def check_one(number: int, version: int):
        return check.check([Delivery("1", *record(number, version=version), 1)])

    check = RecordCheck(
        RecordReader(game, replay.window.read), replay, newest_version=lambda: 9, champion_version=lambda: champion
    )
    replay.keep(check_one(1, 2).accepted)
    for number in range(2, 12):
        replay.keep(check_one(number, 8).accepted)
    late = check_one(20, 2)
    assert [refusal.reason for refusal in late.refused] == ["stale_model"]
    assert "version 2, the window holds games from 8 on" in late.refused[0].text
    assert check_one(21, 8).accepted
    champion = 2  # after a rollback its games are all there are
    assert check_one(22, 2).accepted


def test_no_game_is_too_old_without_a_readable_champion(game, replay, record):
    check = RecordCheck(RecordReader(game, replay.window.read), replay, newest_version=lambda: 9)
    for number in range(10):
        replay.keep(check.check([Delivery("1", *record(number, version=8), 1)]).accepted)
    assert check.check([Delivery("1", *record(20, version=2), 1)]).accepted


def test_a_game_further_behind_than_the_settings_allow_is_refused_unless_it_is_the_champions(game, tmp_path, record):
    kept = Replay.open(GameLog.open(tmp_path / "replay", writer=True), GameQueue(lambda played: played.movers))
    champion = 9
    check = RecordCheck(
        RecordReader(game, kept.window.read), kept, newest_version=lambda: 9, champion_version=lambda: champion, max_staleness=3
    )

    def refused(number: int, version: int):
        return check.check([Delivery("1", *record(number, version=version), 1)]).refused

    assert [refused(number, version) for number, version in ((1, 9), (2, 6))] == [[], []]
    late = refused(3, 5)
    assert [refusal.reason for refusal in late] == ["stale_model"]
    assert "version 5, 4 behind the newest; train.max_staleness=3" in late[0].text
    champion = 5  # nothing newer is played
    assert refused(4, 5) == []
    assert not check._ages._rising, "a window that accepts late games has no need of ages, which nothing would remove"
    kept.close()
