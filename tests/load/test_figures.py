"""The arithmetic of the proofs under load."""

import math

import pytest
from load_figures import Overload, Swap, latency


def overload(**changes):
    given = {
        "rows": 10,
        "seconds": 2.0,
        "capacity_s": 1.0,
        "capacity_before": {"OK": [1.0] * 90},
        "capacity_after": {"OK": [1.0] * 110},
        "flood": {"OK": [5.0] * 150, "RESOURCE_EXHAUSTED": [2.0] * 1000},
        "probe": {"OK": [9.0], "RESOURCE_EXHAUSTED": [1.0, 2.0, 3.0, 60.0]},
        "worker_positions": 100.0,
        "memory_before_mib": 100.0,
        "memory_mib": [100.0, 130.0, 120.0, 131.0],
        "worker_rate_before": 50.0,
        "worker_rate_after": 49.0,
        "processor_s": (1.0, 0.5),
    }
    return Overload(**(given | changes))


def test_goodput_is_what_flood_and_worker_were_answered_by_what_the_server_can():
    found = overload()
    assert found.capacity == 1000.0
    assert found.goodput == 800.0
    assert found.share == pytest.approx(0.8)


def test_refusals_are_timed_where_the_client_is_idle():
    found = overload()
    assert found.quick_share == 0.75
    assert math.isnan(overload(probe={"OK": [1.0]}).quick_share)


def test_an_outcome_that_is_neither_answer_nor_refusal_shows():
    assert overload().other_statuses == set()
    assert overload(flood={"OK": [1.0], "UNKNOWN": [1.0]}).other_statuses == {"UNKNOWN"}


def test_memory_grows_when_its_second_half_is_higher():
    assert overload().memory_growth_mib == pytest.approx(1.0)


def test_a_distribution_of_nothing_is_no_number():
    assert latency([]).count == 0
    assert math.isnan(latency([]).p99)
    assert latency([1.0, 3.0]).p50 == 2.0


def test_swaps_are_judged_by_the_99th_percentile():
    found = Swap("server", 3, 1.0, [1.0] * 100, [1.0] * 98 + [3.0] * 2, [], [5.0])
    assert found.ratio == pytest.approx(3.0, abs=0.05)
    assert "| evaluations during them, failed | 100, 0 |" in found.page()


def test_the_page_shows_every_figure():
    page = overload().page()
    assert "| goodput under the flood | 800, 80% of capacity |" in page
    assert "| of them within 50 ms | 75.0% |" in page
    assert "| processor seconds a second of the device's process, of front ends | 0.50, 0.25 |" in page
    assert "nan" not in page
