"""Habits of a run, on rows recorded in half an hour of Connect Four: preset `laptop`, a network of 3 x 48, 24 November 2026."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from test_arithmetic import COSTS, LAPTOP

from zerofleet.errors import InvalidRequest
from zerofleet.library.metrics import read_metrics
from zerofleet.library.planning.plan import Limits, make_plan
from zerofleet.library.planning.run_habits import habits_of, like_run

# elapsed seconds, games, searched moves, evaluations of self-play, of matches, of the ladder; all counted from the start
RECORDED = [
    (0.0, 0, 0, 0, 0, 0),
    (20.0, 577, 10_862, 85_877, 0, 0),
    (30.0, 1_784, 27_720, 208_312, 1_316, 0),
    (100.0, 9_094, 139_557, 1_065_355, 37_273, 715),
    (220.0, 19_610, 316_962, 2_455_374, 97_110, 52_100),
    (600.0, 51_367, 863_771, 6_656_508, 280_122, 244_563),
    (900.0, 76_355, 1_294_966, 9_929_344, 421_418, 361_592),
    (1200.0, 100_927, 1_720_518, 13_135_296, 559_680, 470_720),
]
NAMES = ("elapsed_s", "games", "moves", "selfplay_evaluations", "match_evaluations", "ladder_evaluations")


def metrics(rows):
    columns = np.array(rows, dtype=np.float64).reshape(-1, len(NAMES))
    return {f"run.{name}": columns[:, i] for i, name in enumerate(NAMES)}


def between(first_s, last_s):
    return [row for row in RECORDED if first_s <= row[0] <= last_s]


def test_habits_are_means_over_the_latest_ten_minutes():
    found = habits_of(metrics(RECORDED))
    assert (found.games, found.seconds) == (49_560, 600.0)
    assert found.moves_per_game == pytest.approx(17.29, abs=0.01)
    assert found.evaluations_per_game == pytest.approx(130.7, abs=0.1)
    assert found.gate_share == pytest.approx(0.072, abs=0.001)


def test_games_per_hour_of_the_rest_of_a_run_follow_from_its_first_minutes():
    """The bar is 15 %. The evaluations of the server are those of the same minutes; all that is predicted are the games."""
    early, late = between(100.0, 600.0), between(600.0, 1200.0)
    evaluations_per_second = sum(b - a for a, b in zip(early[0][3:], early[-1][3:], strict=True)) / (early[-1][0] - early[0][0])
    costs = replace(COSTS, evaluations_per_device=evaluations_per_second, evaluations_per_game=101.4, evaluations_per_move=7.26)
    happened = (late[-1][1] - late[0][1]) / (late[-1][0] - late[0][0]) * 3600
    untrained, trained = (
        make_plan(known, LAPTOP, gpus=1, workers=8, limits=Limits()).games_per_hour
        for known in (costs, like_run(costs, habits_of(metrics(early))))
    )
    assert trained == pytest.approx(happened, rel=0.05)
    assert untrained > 1.4 * happened  # games of the first seconds are short, and no match is played


def test_a_move_of_an_untrained_network_takes_as_many_evaluations_as_one_of_a_trained_network():
    """Hence the length of games alone has to be known: evaluations of a move may be those of `zerofleet bench serve`."""
    untrained = habits_of(metrics(between(20.0, 30.0)))
    trained = habits_of(metrics(RECORDED))
    per_move = [habits.evaluations_per_game / habits.moves_per_game for habits in (untrained, trained)]
    assert per_move[0] == pytest.approx(per_move[1], rel=0.05)
    assert trained.moves_per_game > 1.2 * untrained.moves_per_game


def test_a_continued_run_counts_from_its_latest_start():
    earlier = [(1790.0 + 10.0 * i, 500_000 + 9 * i, *row[2:]) for i, row in enumerate(RECORDED)]
    assert habits_of(metrics([*earlier, *RECORDED])) == habits_of(metrics(RECORDED))


@pytest.mark.parametrize("rows", [[], RECORDED[:1], [RECORDED[0], (10.0, 199, 3_000, 25_000, 0, 0)]])
def test_a_run_with_few_games_has_no_habits(rows):
    with pytest.raises(InvalidRequest, match="let it play"):
        habits_of(metrics(rows))


@pytest.mark.parametrize("missing", ["selfplay_evaluations", "match_evaluations", "ladder_evaluations"])
def test_rows_of_an_earlier_release_without_evaluations_are_refused(missing):
    columns = metrics(RECORDED)
    columns[f"run.{missing}"] = np.full(len(RECORDED), math.nan)
    with pytest.raises(InvalidRequest, match="with their evaluations"):
        habits_of(columns)


def test_damaged_rows_without_a_time_do_not_count(tmp_path):
    def written(*lines):
        (tmp_path / "run.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        return read_metrics(tmp_path)

    rows = [{"at": "2026-11-24T10:00:00+00:00", **dict(zip(NAMES, row, strict=True))} for row in RECORDED]
    untimed = [{**rows[-1], "elapsed_s": time} for time in (None, math.nan, "600", True)]
    assert habits_of(written(untimed[0], *rows[:4], *untimed, *rows[4:], *untimed)) == habits_of(metrics(RECORDED))
    with pytest.raises(InvalidRequest, match="no metrics"):
        habits_of(written(*untimed))
