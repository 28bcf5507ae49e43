"""Figures of the load of `zerofleet bench serve`."""

from types import SimpleNamespace

from selfplay_worker.load import Meter
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
