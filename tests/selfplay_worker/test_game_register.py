"""Register of games: the record of a game that is too long for its searches."""

from __future__ import annotations

import numpy as np
import pytest
import structlog

import games
from selfplay_worker.game_register import GameRegister
from selfplay_worker.resignation import NEVER, ResignationCalibration
from selfplay_worker.settings import WorkerSettings
from zerofleet.contracts.records import decode_record, validate
from zerofleet.contracts.records.samples import random_game


def test_a_game_too_long_for_its_searches_is_stored_with_the_moves_played_and_logged_once(
    settings: WorkerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("selfplay_worker.game_register.MAX_RECORD_BYTES", 400)
    register = GameRegister(settings, ResignationCalibration(false_rate=0.05, highest=NEVER, window_games=1, min_games=1))
    game = random_game(games.make("connect_four"), 1)
    with structlog.testing.capture_logs() as lines:
        payloads = [register.finish(register.begin(1), game).payload for _ in range(2)]
    assert sum(line["event"] == "game.too_long" for line in lines) == 1
    for payload in payloads:
        assert len(payload) <= 400
        search = validate(decode_record(payload)).search
        assert search.actions.tolist() == game.moves.tolist()
        assert search.policy.tolist() == [1.0] * len(game.moves)
        np.testing.assert_array_equal(search.root_value, [move.root_value for move in game.searched])
