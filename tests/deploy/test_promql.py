"""The evaluation of queries in tests: it has the values that Prometheus has, and refuses what it does not know."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_checks import Checks
from promql import read_series, value

COUNTERS = {'games_total{job="a", worker="1"}': "0+60x10", 'games_total{job="a", worker="2"}': "0+120x5 0+120x4"}
BUCKETS = {f'wait_bucket{{le="{limit}"}}': f"0+{step}x10" for limit, step in (("1", 30), ("2", 90), ("4", 120), ("+Inf", 120))}
LEVELS = {'level{job="a"}': "5 4 3 _x3", 'level{job="b"}': "-1x4 stale"}

VALUES = [
    ("round(sum(rate(games_total[4m1s])), 0.0001)", COUNTERS, 4, 2.9876),
    ('sum(increase(games_total{worker="2"}[9m1s]))', COUNTERS, 9, 960.0),  # it began again from 0
    ('round(sum(delta(games_total{worker="1"}[5m1s])), 0.1)', COUNTERS, 9, 301.0),
    ("round(sum(deriv(games_total[3m1s])), 0.01)", COUNTERS, 3, 3.0),
    ("round(histogram_quantile(0.5, rate(wait_bucket[5m1s])), 0.001)", BUCKETS, 9, 1.5),
    ("round(histogram_quantile(0.99, rate(wait_bucket[5m1s])), 0.001)", BUCKETS, 9, 3.92),
    ("max(level) - min(level)", LEVELS, 1, 5.0),
    ("avg(level)", LEVELS, 2, 1.0),
    ("sum(level)", LEVELS, 6, 3.0),  # the older one for five minutes more, the other ended
    ("sum(level)", LEVELS, 8, None),
    ("sum(level) or vector(7)", LEVELS, 8, 7.0),
    ("sum(level > 0)", LEVELS, 1, 4.0),
    ("sum(level > bool 0)", LEVELS, 1, 1.0),
    ("sum(level unless level offset 1m)", LEVELS, 0, 4.0),
    ("sum(level unless level offset 1m)", LEVELS, 1, None),
    ("max(level) * on() (min(level) < bool 0)", LEVELS, 1, 4.0),
    ("max_over_time(sum(level)[5m:1m])", LEVELS, 2, 4.0),
    ('absent(level{job="a"})', LEVELS, 1, None),
    ("absent(sum(level))", LEVELS, 8, 1.0),
    ("clamp(sum(level) / 0, 0.5, 2)", LEVELS, 0, 2.0),
    ('sum(level{job=~"a|c", job!="b"})', LEVELS, 0, 5.0),
    ("sum(level) - time()", LEVELS, 2, -118.0),
    ("count_of_nothing or on() sum without (job) (level)", LEVELS, 0, 4.0),
]


@pytest.mark.parametrize(("query", "series", "minute", "wanted"), VALUES)
def test_a_query_has_the_value_that_prometheus_gives_it(
    prometheus: Checks, tmp_path: Path, query: str, series: dict[str, str], minute: int, wanted: float | None
) -> None:
    expected = [] if wanted is None else [{"labels": "{}", "value": wanted}]
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": query, "eval_time": f"{minute}m", "exp_samples": expected}],
    }
    prometheus.hold([case], tmp_path)


@pytest.mark.parametrize("query", ["stddev(level)", "level % 2", "quantile_over_time(0.5, level[5m])", "level @ 0", "-level"])
def test_what_is_not_evaluated_is_refused(query: str) -> None:
    with pytest.raises(NotImplementedError):
        value(query, read_series(LEVELS.items(), 60.0), 60.0)


@pytest.mark.parametrize("query", ["sum(", "rate(level)", "level >", "no_such_function(level)"])
def test_what_is_not_promql_is_refused(query: str) -> None:
    with pytest.raises(ValueError, match=r"unclosed|expected|unknown|invalid"):
        value(query, {}, 0.0)
