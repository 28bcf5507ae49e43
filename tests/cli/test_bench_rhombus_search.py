"""`zerofleet bench rhombus_search`."""

from __future__ import annotations

import numpy as np
import pytest

import games
from zerofleet.cli.bench.rhombus_search import GAME, STEPS, measure_generators, measure_plain, measure_steps

STATES = np.array([games.replay(GAME, games.read_moves(GAME, text)) for text in ("a3-a5 g9-e9 a5-b5", "c1-c3 g9-g7")])


@pytest.mark.slow
def test_the_ablation_reports_nodes_and_equal_values():
    found = {step.step: step.depths for step in measure_steps(STATES, range(2, 4), 60.0)}
    assert list(found) == [name for name, _ in STEPS]
    nodes = {name: [depth.nodes for depth in depths] for name, depths in found.items()}
    assert nodes["minimax"][1] > 3 * nodes["+ alpha-beta"][1] > 3 * nodes["+ order by gain"][1]
    assert nodes["+ reductions"] == nodes["+ upward"] == nodes["+ hub-channel"] == nodes["floods instead"]
    exact = ("minimax", "+ alpha-beta", "+ order by gain", "+ NegaScout", "+ table", "+ history", "without reductions")
    for name in exact:
        assert [depth.same_values for depth in found[name]] == [2, 2]


@pytest.mark.slow
def test_generators_count_the_same_replies_and_plain_python_finds_the_same_value():
    figures = measure_generators(STATES[:1])
    replies = {(row.moves, row.replies) for row in figures}
    assert len(figures) == 12
    assert len(replies) == 3  # one number for each mode, whichever generator
    plain = measure_plain(STATES[:1])
    assert plain.same_values == 1
    assert plain.plain_ms > 0


@pytest.mark.slow
def test_searches_beyond_the_time_limit_are_left_out(zerofleet):
    outcome = zerofleet("bench", "rhombus_search", "--positions", "1", "--depth", "3", "--seconds", "0", "--json")
    figures = outcome.json()
    assert [len(step["depths"]) for step in figures["steps"]] == [1] * len(STEPS)
    assert len(figures["plain"]) == 1
    assert zerofleet("bench", "rhombus_search", "--positions", "0").code == 2
