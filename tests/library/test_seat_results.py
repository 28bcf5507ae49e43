"""Results by seat: shares of the points in windows of sampled games, with bounded work on a long and growing run."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import games
from zerofleet.contracts.records import encode_record
from zerofleet.contracts.records.samples import random_game
from zerofleet.errors import RecordRejected
from zerofleet.library import seat_results
from zerofleet.library.metrics import Metrics, read_metrics
from zerofleet.library.seat_results import MOST_SAMPLED, SeatSample, with_seats
from zerofleet.library.series import RunSeries
from zerofleet.storage.game_log import GameLog

NOTHING = RunSeries(axes={}, series=(), promotions=())
WON, LOST, DRAWN = (True, False), (False, True), (True, True)


class LongLog:
    """Stand-in for a game log of any length, which counts what is read."""

    def __init__(self, stored: int, *, first: int = 0) -> None:
        self.start_index, self.end_index, self.read = first, stored, []

    def get(self, number: int) -> None:
        self.read.append(number)
        raise RecordRejected("checksum", "no game is here")


def uid(number: int) -> str:
    return f"{number:032x}"


def store(directory: Path, numbers: Sequence[int], game: str = "tic_tac_toe", **parameters: int) -> GameLog:
    made, found = [], games.make(game, **parameters)
    for number in numbers:
        record = encode_record(random_game(found, number), worker_id="w", uid=uid(number), finished_at_ms=0)
        made.append((uid(number), record))
    log = GameLog.open(directory, writer=True)
    log.append(made)
    return log


@pytest.fixture
def metrics(tmp_path: Path) -> Callable[..., Metrics]:
    def write(rows: Sequence[tuple[float, int, float]] = ()) -> Metrics:
        text = "".join(json.dumps({"time": t, "step": step, "charts/games_ever": n}) + "\n" for t, step, n in rows)
        (tmp_path / "trainer.jsonl").write_text(text)
        return read_metrics(tmp_path)

    return write


def test_winners_are_the_seats_with_the_highest_score(tmp_path):
    log = store(tmp_path, range(6))
    numbers, winners = SeatSample().read(log)
    assert numbers.tolist() == list(range(6))
    for number, row in zip(numbers, winners, strict=True):
        scores = random_game(games.make("tic_tac_toe"), int(number)).scores
        assert row.tolist() == [bool(score == max(scores)) for score in scores]


def test_a_game_with_more_players_has_a_share_for_each_and_they_sum_to_one(tmp_path, metrics):
    found = with_seats(NOTHING, metrics(), *SeatSample().read(store(tmp_path / "log", range(3), "take_six", players=3)))
    shares = {one.name: one.values for one in found.series}
    assert list(shares) == ["seat_1", "seat_2", "seat_3", "draws"]
    assert sum(shares[f"seat_{seat}"][0] for seat in (1, 2, 3)) == pytest.approx(1.0)
    assert {one.label for one in found.series} >= {"first place shared"}


def test_windows_hold_equally_many_games_and_a_draw_is_half_a_point_for_each(metrics):
    winners = np.array([WON] * 50 + [LOST] * 25 + [DRAWN] * 25)
    rows = [(0.0, 0, 0.0), (3600.0, 1000, 100.0)]
    found = with_seats(NOTHING, metrics(rows), np.arange(100), winners)
    assert {one.name: one.values for one in found.series} == {
        "seat_1": (1.0, 0.25),
        "seat_2": (0.0, 0.75),
        "draws": (0.0, 0.5),
    }
    axes = found.axes["seats"]
    assert axes.games == pytest.approx((25.5, 75.5))
    assert axes.step == pytest.approx((255.0, 755.0))
    assert axes.hours == pytest.approx((0.255, 0.755))


def test_without_rows_of_the_trainer_a_window_has_no_step_and_no_hour(metrics):
    axes = with_seats(NOTHING, metrics(), np.arange(3), np.array([WON, LOST, DRAWN])).axes["seats"]
    assert (axes.step, axes.games, axes.hours) == ((None,), (2.0,), (None,))


def test_a_run_without_games_keeps_its_series(metrics):
    assert with_seats(NOTHING, metrics(), *SeatSample().read(LongLog(0))) is NOTHING  # type: ignore[arg-type]


def test_of_a_million_games_at_most_two_thousand_are_read_evenly_and_once(metrics):
    log, sample = LongLog(1_000_000), SeatSample()
    sample.read(log)  # type: ignore[arg-type]
    steps = set(np.diff(log.read).tolist())
    assert MOST_SAMPLED / 2 < len(log.read) <= MOST_SAMPLED
    assert (len(steps), log.read[0]) == (1, 0)
    log.read.clear()
    log.end_index += 5 * steps.pop()
    sample.read(log)  # type: ignore[arg-type]
    assert len(log.read) == 5
    log.read.clear()
    log.end_index = 1_050_000  # beyond 2,000 of every 512th: every second one is kept, and none is read again
    sample.read(log)  # type: ignore[arg-type]
    assert all(number > 1_000_000 for number in log.read)
    log.start_index, log.end_index = 999_990, 1_050_001
    assert len(sample.read(log)[0]) == 0  # type: ignore[arg-type]


def test_a_log_that_is_shorter_than_before_is_read_anew(tmp_path):
    sample = SeatSample()
    sample.read(store(tmp_path / "a", range(5)))
    numbers, winners = sample.read(other := store(tmp_path / "b", range(20, 23)))
    assert numbers.tolist() == [0, 1, 2]
    assert winners.tolist() == SeatSample().read(other)[1].tolist()


def test_damaged_games_are_left_out(tmp_path, monkeypatch):
    log, decode = store(tmp_path, range(4)), seat_results.decode_record
    monkeypatch.setattr(
        seat_results, "decode_record", lambda payload: decode(b"\xff" if payload == log.get(2).payload else payload)
    )
    assert SeatSample().read(log)[0].tolist() == [0, 1, 3]
