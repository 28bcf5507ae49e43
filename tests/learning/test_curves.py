"""Means over seeds, their intervals, and the comparison of two results."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from zerofleet.strength.learning.curves import Difference, compare, curve, t_interval


def judged(planned: float, value: float, low: float = 0.0, high: float = 1.0) -> dict[str, Any]:
    return {"planned": planned, "measures": [{"name": "sign", "value": value, "low": low, "high": high, "of": 100}]}


def seed(number: int, *judgements: dict[str, Any]) -> dict[str, Any]:
    return {"seed": number, "judgements": list(judgements)}


def test_the_interval_over_seeds_is_students():
    low, high = t_interval([1.0, 2.0, 3.0])
    assert (low, high) == pytest.approx((2 - 4.303 / math.sqrt(3), 2 + 4.303 / math.sqrt(3)))
    low, high = t_interval([0.0, 1.0])
    assert high == pytest.approx(0.5 + 12.706 / 2)


def test_the_interval_of_many_seeds_is_as_wide_as_in_any_table():
    values = np.linspace(-1, 1, 41)
    half = t_interval(values.tolist())[1]
    assert half / (np.std(values, ddof=1) / math.sqrt(41)) == pytest.approx(2.0211, abs=0.001)  # t, 40 degrees of freedom


def test_students_interval_covers_the_mean_of_small_samples_in_nineteen_of_twenty_cases():
    rng = np.random.default_rng(0)
    intervals = [t_interval(rng.normal(0.7, 0.02, 3).tolist()) for _ in range(4000)]
    covered = np.mean([low <= 0.7 <= high for low, high in intervals])
    assert covered == pytest.approx(0.95, abs=0.012)


def test_a_curve_has_the_mean_of_all_seeds_at_each_place():
    points = curve([seed(0, judged(10, 0.5), judged(20, 0.6)), seed(1, judged(10, 0.7), judged(20, 0.8))])
    assert [(point.at, point.mean, point.seeds, point.interval) for point in points] == [
        (10, pytest.approx(0.6), 2, "seeds"),
        (20, pytest.approx(0.7), 2, "seeds"),
    ]


def test_a_single_seed_has_the_interval_of_its_judge():
    (point,) = curve([seed(0, judged(10, 0.5, 0.4, 0.6))])
    assert (point.low, point.high, point.interval) == (0.4, 0.6, "judge")


def test_a_seed_that_has_not_come_so_far_is_left_out():
    points = curve([seed(0, judged(10, 0.5), judged(20, 0.9)), seed(1, judged(10, 0.7))])
    assert [point.seeds for point in points] == [2, 1]


def test_equal_seeds_are_compared_in_pairs():
    first = [seed(number, judged(10, 0.5 + 0.1 * number)) for number in range(3)]
    second = [seed(number, judged(10, 0.48 + 0.1 * number)) for number in range(3)]
    (found,) = compare(first, second)
    assert found == Difference(10, "sign", *(pytest.approx(x) for x in (0.6, 0.58, 0.02, 0.02, 0.02)), "paired")
    (apart,) = compare(first, [seed(number + 5, judged(10, 0.48 + 0.1 * number)) for number in range(3)])
    assert apart.interval == "seeds"
    assert apart.low < 0 < apart.high


def test_different_seeds_are_compared_by_welchs_interval():
    first = [seed(number, judged(10, value)) for number, value in enumerate((0.60, 0.62, 0.64))]
    second = [seed(number + 9, judged(10, value)) for number, value in enumerate((0.50, 0.52, 0.54))]
    (found,) = compare(first, second)
    half = 2.776 * math.sqrt(2 * 0.02**2 / 3)  # equal variances and sizes: 4 degrees of freedom
    assert (found.low, found.high) == (pytest.approx(0.1 - half), pytest.approx(0.1 + half))


def test_single_seeds_are_compared_by_the_intervals_of_the_judge():
    """Newcombe 1998, table II: 56 of 70 against 48 of 80 gives 0.0524 to 0.3339."""
    first, second = judged(10, 56 / 70, 0.6918, 0.8769), judged(10, 48 / 80, 0.4904, 0.7000)
    (found,) = compare([seed(0, first)], [seed(0, second)])
    assert (found.difference, found.interval) == (pytest.approx(0.2), "judge")
    assert (found.low, found.high) == (pytest.approx(0.0524, abs=0.0015), pytest.approx(0.3339, abs=0.0015))


def test_a_single_seed_is_compared_with_the_mean_of_several_by_the_intervals_of_both():
    several = [seed(number, judged(10, value, value - 0.01, value + 0.01)) for number, value in enumerate((0.5, 0.9, 0.9))]
    single = [seed(5, judged(10, 0.5, 0.45, 0.58))]
    over_seeds = 4.303 * math.sqrt(4 / 75) / math.sqrt(3)  # of the deviations -4/15, 2/15 and 2/15
    (found,) = compare(several, single)
    assert (found.difference, found.interval) == (pytest.approx(4 / 15), "judge")
    assert found.low == pytest.approx(4 / 15 - math.hypot(over_seeds, 0.08))
    assert found.high == pytest.approx(4 / 15 + math.hypot(over_seeds, 0.05))
    (reverse,) = compare(single, several)
    assert (reverse.difference, reverse.low, reverse.high) == pytest.approx((-found.difference, -found.high, -found.low))


def test_results_are_compared_at_the_last_place_of_both():
    first = [seed(0, judged(10, 0.5), judged(20, 0.9))]
    assert [one.at for one in compare(first, [seed(0, judged(10, 0.4))])] == [10]
    assert compare(first, [seed(0, judged(15, 0.4))]) == []


def test_measures_that_only_one_result_has_are_not_compared():
    other = judged(10, 0.4)
    other["measures"][0]["name"] = "exact"
    assert compare([seed(0, judged(10, 0.5))], [seed(0, other)]) == []
