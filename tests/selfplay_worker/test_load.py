"""Figures of the load of `zerofleet bench serve`."""

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest

from selfplay_worker import load
from selfplay_worker.load import MOST_LATENCIES, Meter
from zerofleet.evaluators.base import LeafBatch
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.search import SearchCounters


def lane(moves):
    return SimpleNamespace(counters=SearchCounters(simulations=0, cache_hits=0, moves=moves))


def test_searched_moves_are_those_of_all_lanes_since_the_last_figures():
    meter = Meter(UniformEvaluator(2))
    assert meter.take()["moves"] == 0
    meter.blocks = [lane(5), lane(7)]
    assert meter.take()["moves"] == 12
    assert meter.take()["moves"] == 0
    meter.blocks = [lane(6), lane(9)]
    assert meter.take()["moves"] == 3


@pytest.mark.slow
async def test_latencies_of_a_long_time_are_a_sample_that_fits_a_line_while_all_requests_are_counted(monkeypatch):
    """Each request lasts as long as its number, so that the mean of a sample shows whether early ones are as likely as late."""
    meter = Meter(UniformEvaluator(2))
    leaf = LeafBatch(np.zeros((1, 1), dtype=np.uint8), np.zeros((1, 2), dtype=np.int16))
    clock = itertools.chain.from_iterable((0.0, number / 3) for number in itertools.count())
    monkeypatch.setattr(load, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    for _ in range(3 * MOST_LATENCIES):
        await meter.evaluate(leaf, version=1)
    figures = meter.take()
    assert (figures["requests"], len(figures["latencies_s"])) == (3 * MOST_LATENCIES, MOST_LATENCIES)
    assert len(json.dumps(figures)) < 1 << 20
    assert np.mean(figures["latencies_s"]) == pytest.approx(MOST_LATENCIES / 2, rel=0.02)
    assert meter.take()["requests"] == 0
