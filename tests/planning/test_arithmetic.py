from __future__ import annotations

from dataclasses import replace

import pytest

import games
from zerofleet.library.planning.costs import Costs
from zerofleet.library.planning.fleet_model import simulate
from zerofleet.library.planning.plan import Limits, make_plan
from zerofleet.presets import preset
from zerofleet.search import SearchSettings

COSTS = Costs(
    game="connect_four",
    preset="laptop",
    source="made up",
    simulations_per_core=1_000_000.0,
    evaluations_per_simulation=0.5,
    memory_per_worker=50_000_000.0,
    evaluations_per_device=100_000.0,
    evaluations_per_worker_core=50_000.0,
    evaluations_per_game=0.0,
    evaluations_per_move=0.0,
    bytes_asked=30.0,
    bytes_answered=20.0,
    samples_per_second=10_000.0,
    batch_size=256,
    games_taken_per_second=8_000.0,
    plies_per_game=20.0,
    bytes_per_record=1_000.0,
    disk_bytes_per_game=1_100.0,
    bytes_per_sample=100.0,
)
SEARCH = SearchSettings(simulations=100, fast_simulations=25, full_search_share=0.3)
LAPTOP = preset(games.make("connect_four"), "laptop").model_copy(update={"search": SEARCH})


def test_the_figures_follow_from_the_costs():
    found = make_plan(COSTS, LAPTOP, gpus=1, workers=1, limits=Limits())
    # 0.3 x 100 + 0.7 x 25 simulations a move, half of them ask, 20 moves: 475 evaluations a game
    assert found.evaluations_per_game == pytest.approx(475.0)
    assert found.saturates_first == "workers"
    assert found.evaluations_per_second == pytest.approx(50_000.0)
    assert found.games_per_hour == pytest.approx(50_000 / 475 * 3600)
    assert found.asked_bytes_per_second == pytest.approx(1_500_000.0)
    assert found.stream_bytes_per_second == pytest.approx(50_000 / 475 * 1_000)
    assert found.stream_memory_bytes == pytest.approx(10_000_000.0)
    assert found.load["workers"] == pytest.approx(1.0)
    assert found.load["inference servers"] == pytest.approx(0.5)


def test_measured_evaluations_of_a_game_replace_the_upper_bound_unless_a_length_is_given():
    measured = replace(COSTS, evaluations_per_game=100.0)
    assert make_plan(measured, LAPTOP, gpus=1, workers=1, limits=Limits()).evaluations_per_game == pytest.approx(100.0)
    longer = make_plan(measured, LAPTOP, gpus=1, workers=1, plies=40.0, limits=Limits())
    assert longer.evaluations_per_game == pytest.approx(950.0)


def test_games_of_another_length_take_the_measured_evaluations_of_a_move():
    measured = replace(COSTS, evaluations_per_game=100.0, evaluations_per_move=8.0)
    usual, longer = (make_plan(measured, LAPTOP, gpus=1, workers=1, plies=plies, limits=Limits()) for plies in (None, 40.0))
    assert (usual.evaluations_per_game, longer.evaluations_per_game) == pytest.approx((100.0, 320.0))
    # 12.5 searched moves in a game of the usual length, 0.3 of which are samples
    rates = [found.samples_per_second / found.games_per_hour * 3600 for found in (usual, longer)]
    assert rates == pytest.approx([12.5 * 0.3, 40.0 * 0.3])


def test_the_gate_takes_its_share_of_the_servers():
    alone, shared = (
        make_plan(replace(COSTS, gate_share=share), LAPTOP, gpus=1, workers=8, limits=Limits()) for share in (0.0, 0.1)
    )
    assert shared.saturates_first == "inference servers"
    assert shared.games_per_hour == pytest.approx(0.9 * alone.games_per_hour)
    assert (alone.gate_share, shared.gate_share) == (0.0, 0.1)


@pytest.mark.parametrize(
    ("gpus", "workers", "change", "first"),
    [
        (1, 8, {}, "inference servers"),
        (1000, 1000, {}, "stream"),
        (1000, 1000, {"games_taken_per_second": 100.0}, "trainer's intake"),
        (1, 1000, {"bytes_asked": 1e6}, "network of the inference servers"),
    ],
)
def test_what_saturates_first_is_named(gpus, workers, change, first):
    found = make_plan(replace(COSTS, **change), LAPTOP, gpus=gpus, workers=workers, limits=Limits())
    assert found.saturates_first == first
    assert max(found.load.values()) == pytest.approx(1.0)


def test_a_trainer_that_is_too_slow_uses_each_sample_less_often():
    assert make_plan(COSTS, LAPTOP, gpus=1, workers=1, limits=Limits()).uses_of_a_sample == LAPTOP.train.max_reuse
    slow = replace(COSTS, samples_per_second=100.0)
    assert make_plan(slow, LAPTOP, gpus=1, workers=1, limits=Limits()).uses_of_a_sample < 1


@pytest.mark.parametrize(("gpus", "workers"), [(4, 4), (4, 40)])
def test_the_simulation_agrees_with_the_arithmetic(gpus, workers):
    expected = make_plan(COSTS, LAPTOP, gpus=gpus, workers=workers, limits=Limits())
    happened = simulate(COSTS, LAPTOP, gpus=gpus, workers=workers, seconds=20.0, limits=Limits())
    assert happened.evaluations_per_second == pytest.approx(expected.evaluations_per_second, rel=0.05)
    assert happened.games_per_second * 3600 == pytest.approx(expected.games_per_hour, rel=0.05)


def test_the_same_seed_gives_the_same_figures():
    first, again, other = (
        simulate(COSTS, LAPTOP, gpus=1, workers=4, seconds=3.0, limits=Limits(), seed=seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_games_gather_in_the_stream_while_the_trainer_is_away_and_go_afterwards():
    happened = simulate(COSTS, LAPTOP, gpus=4, workers=8, seconds=20.0, trainer_away=(5.0, 10.0), limits=Limits())
    rate = happened.games_per_second
    assert happened.stream_most_games == pytest.approx(5 * rate, rel=0.1)
    assert happened.stream_left_games < rate / 100
    assert happened.stream_most_bytes == pytest.approx(happened.stream_most_games * 1000, rel=0.01)


def test_a_full_stream_makes_workers_wait():
    limits = Limits(high_water=500)
    happened = simulate(COSTS, LAPTOP, gpus=4, workers=8, seconds=20.0, trainer_away=(5.0, 15.0), limits=limits)
    lanes = 8 * LAPTOP.selfplay.lanes
    assert 500 <= happened.stream_most_games <= 500 + 10 * lanes  # what was on its way
