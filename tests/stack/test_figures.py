"""Arithmetic of `benchmarks.stack`: readings of processes to rates, limits and bounds for other machines."""

from __future__ import annotations

import pytest

from benchmarks.stack.driver import Plan
from benchmarks.stack.figures import Reading, Turn, Usage, expected_rate, medians, turn_of


def readings(**changes: list[Reading]) -> dict[str, list[Reading]]:
    return {"server": [Reading(0.0, 5.0)], "worker": [Reading(0.0, 1.0, 100, 200)], "front end": [], **changes}


def test_rates_of_workers_add_up_and_processor_time_is_divided_by_all_positions():
    before = readings(worker=[Reading(0.0, 1.0, 100, 200), Reading(1.0, 2.0, 0, 0)])
    after = readings(
        server=[Reading(10.0, 6.0)], worker=[Reading(10.0, 3.0, 1_000_100, 1_500_200), Reading(6.0, 5.0, 1_000_000, 500_000)]
    )
    turn = turn_of(before, after)
    assert turn.positions_per_s == pytest.approx(1_000_000 / 10 + 1_000_000 / 5)
    assert turn.simulations_per_position == pytest.approx(1.0)
    assert turn.seconds_per_million == {"server": pytest.approx(0.5), "worker": pytest.approx(2.5)}


def test_two_readings_without_a_position_in_between_are_refused():
    with pytest.raises(ValueError, match="measure longer"):
        turn_of(readings(), readings())


def test_the_median_of_turns_is_taken_for_each_figure():
    turns = [Turn(rate, 1.0, {"server": 1 / rate, "worker": rate}) for rate in (1.0, 4.0, 2.0)]
    assert medians(turns) == Turn(2.0, 1.0, {"server": 0.5, "worker": 2.0})


def test_the_limit_of_a_process_is_the_rate_at_which_it_fills_a_core():
    assert Usage(2.5).limit == pytest.approx(400_000)


@pytest.mark.parametrize(
    ("processes", "cores", "device", "rate", "first"),
    [
        ({"server": 1, "worker": 1}, 2, 1e9, 250_000, "worker"),
        ({"server": 1, "worker": 12}, 16, 1e9, 2_000_000, "server"),
        ({"server": 2, "worker": 12}, 16, 1e9, 3_000_000, "worker"),
        ({"server": 2, "worker": 12}, 9, 1e9, 2_000_000, "cores"),
        ({"server": 2, "worker": 12}, 16, 1_500_000, 1_500_000, "device"),
    ],
)
def test_the_bound_of_a_machine_is_the_least_of_its_processes_cores_and_device(processes, cores, device, rate, first):
    usage = {"server": Usage(0.5), "worker": Usage(4.0)}
    found, name = expected_rate(usage, processes, cores=cores, device_limit=device)
    assert (found, name) == (pytest.approx(rate), first)


def test_front_ends_are_processes_of_each_server_from_two_on():
    assert Plan(workers=3, servers=2, front_ends=2).processes == {"server": 2, "front end": 4, "worker": 3}
    assert Plan(workers=3, servers=2, front_ends=1).processes == {"server": 2, "worker": 3}
