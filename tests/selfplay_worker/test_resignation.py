"""The resignation threshold: what counts, in which order, and when there is enough."""

import numpy as np
import pytest

import games
from selfplay_worker.resignation import NEVER, ResignationCalibration
from zerofleet.search import PlayedGame, SearchedMove

X_WINS = [0, 3, 1, 4, 2]
DRAW = [0, 1, 2, 4, 3, 5, 7, 6, 8]


def played(moves: list[int], values: dict[int, float], *, control: bool = True) -> PlayedGame:
    """Return a game in which the mover of each ply in `values` thought so of it."""
    game = games.make("tic_tac_toe")
    state = games.replay(game, moves)
    nothing = np.zeros(0, dtype=np.uint16)
    searched = []
    for ply, value in values.items():
        root = np.array([value, -value] if ply % 2 == 0 else [-value, value], dtype=np.float32)
        one = np.ones(1, dtype=np.int32)
        searched.append(SearchedMove(ply, 1, one, one, nothing, root, 1))
    return PlayedGame(
        game=game,
        seed=0,
        versions=(1, 1),
        opening_plies=0,
        moves=np.array(moves, dtype=np.int32),
        searched=tuple(searched),
        scores=games.final_scores(game, state),
        resigned_seat=None,
        resignation_control=control,
        tag=None,
    )


LOST_AS_FEARED = played(X_WINS, {1: -0.855, 3: -0.955})  # second player loses
FALSE_ALARM = played(X_WINS, {0: -0.905})  # first player feared it, and won
DRAWN_ALARM = played(DRAW, {1: -0.905})


def calibration(**changes: float) -> ResignationCalibration:
    values = {"false_rate": 0.05, "highest": -0.5, "window_games": 1000, "min_games": 4} | changes
    return ResignationCalibration(
        false_rate=values["false_rate"],
        highest=values["highest"],
        window_games=int(values["window_games"]),
        min_games=int(values["min_games"]),
    )


def see(statistic: ResignationCalibration, *finished: PlayedGame) -> None:
    for game in finished:
        statistic.finished(statistic.started(), game)


def test_no_player_resigns_without_evidence() -> None:
    statistic = calibration(min_games=4)
    see(statistic, *[LOST_AS_FEARED] * 3)
    assert statistic.threshold() == NEVER


def test_the_highest_threshold_with_a_low_enough_false_rate_is_chosen() -> None:
    statistic = calibration()
    see(statistic, *[LOST_AS_FEARED] * 30)
    assert statistic.threshold() == pytest.approx(-0.5)
    see(statistic, *[FALSE_ALARM] * 3)  # 3 of 33 are false from -0.9 on, none below
    assert statistic.threshold() == pytest.approx(-0.91)
    see(statistic, *[LOST_AS_FEARED] * 40)  # 3 of 73
    assert statistic.threshold() == pytest.approx(-0.5)


def test_a_threshold_below_the_false_resignations_is_still_found() -> None:
    statistic = calibration()
    sure = played(X_WINS, {1: -0.975})
    see(statistic, *[sure] * 10, *[FALSE_ALARM] * 10)
    assert statistic.threshold() == pytest.approx(-0.91)
    assert statistic.false_ratio(statistic.threshold()) == 0.0
    assert statistic.false_ratio(-0.9) == 0.5


def test_resigning_a_drawn_game_is_false() -> None:
    statistic = calibration(min_games=1)
    see(statistic, DRAWN_ALARM)
    assert statistic.threshold() == NEVER
    assert statistic.false_ratio(-0.9) == 1.0


def test_only_the_first_resignation_of_a_game_counts() -> None:
    """At -0.8 the first player would have resigned at ply 0, falsely; that the second was right later is no excuse."""
    statistic = calibration(min_games=1)
    see(statistic, played(X_WINS, {0: -0.905, 3: -0.985}))
    assert statistic.false_ratio(-0.8) == 1.0
    assert statistic.false_ratio(-0.95) == 0.0


def test_games_with_resignation_do_not_enter_the_statistic() -> None:
    statistic = calibration(min_games=1)
    see(statistic, played(X_WINS, {1: -0.9}, control=False))
    assert statistic.threshold() == NEVER


def test_a_long_game_holds_back_those_that_started_after_it() -> None:
    """Short games end first; counting them at once would leave the long ones, and their false alarms, out."""
    statistic = calibration(min_games=4)
    long_game = statistic.started()
    see(statistic, *[LOST_AS_FEARED] * 10)
    assert statistic.threshold() == NEVER
    statistic.finished(long_game, FALSE_ALARM)
    assert statistic.threshold() == pytest.approx(-0.91)  # 1 of 11 is false above
    see(statistic, *[LOST_AS_FEARED] * 10)
    assert statistic.threshold() == pytest.approx(-0.5)


def test_an_abandoned_game_holds_back_nothing() -> None:
    statistic = calibration(min_games=4)
    dropped = statistic.started()
    see(statistic, *[LOST_AS_FEARED] * 4)
    statistic.abandoned(dropped)
    assert statistic.threshold() == pytest.approx(-0.5)


def test_the_window_forgets_the_games_that_started_first() -> None:
    statistic = calibration(window_games=10, min_games=4)
    see(statistic, *[FALSE_ALARM] * 10)
    see(statistic, *[LOST_AS_FEARED] * 9)
    assert statistic.false_ratio(-0.5) == pytest.approx(0.1)
    see(statistic, LOST_AS_FEARED)
    assert statistic.threshold() == pytest.approx(-0.5)


def test_the_rate_of_false_resignations_stays_at_the_target_with_noisy_values() -> None:
    """Values are the truth plus noise: most games at -0.9 are lost, some are not."""
    rng = np.random.default_rng(5)
    statistic = calibration(window_games=4000)
    for _ in range(2000):
        value = float(-rng.uniform(0.5, 1.0))
        is_lost = rng.random() < 0.5 - value / 2  # -1: always, -0.5: three in four
        see(statistic, played(X_WINS, {1 if is_lost else 0: value}))
    chosen = statistic.threshold()
    assert -0.87 < chosen < -0.75  # of games below t, (1 + t) / 4 are false on average: 5 % at -0.8
    assert 0.0 < statistic.false_ratio(chosen) <= 0.05


def test_an_upper_bound_of_minus_one_disables_resignation() -> None:
    statistic = calibration(highest=-1.0, min_games=1)
    assert not statistic.enabled
    see(statistic, LOST_AS_FEARED)
    assert statistic.threshold() == NEVER
    assert statistic.false_ratio(NEVER) == 0.0
