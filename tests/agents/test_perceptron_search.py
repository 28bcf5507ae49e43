"""Searches with a perceptron in compiled code: they find what the searches that ask an evaluator find, number for number."""

from __future__ import annotations

import numpy as np
import pytest

import games
from games import core
from games.positions import legal
from zerofleet.agents import make_agent
from zerofleet.agents.depth_first.deepening import finish
from zerofleet.agents.depth_first.network_minimax import NetworkSearch
from zerofleet.agents.depth_first.perceptron_minimax import PerceptronSearch
from zerofleet.agents.uct import UctSearch, mover_values, plan_for
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import Evaluation, ModelVersion
from zerofleet.evaluators.in_process.kernels import Perceptron, values
from zerofleet.evaluators.in_process.perceptrons import PerceptronSource, bit_perceptron

GAME = games.make("tic_tac_toe")
SEVEN = ModelVersion(7)


class Local:
    """Evaluation in this process by one perceptron with random weights, under every version."""

    def __init__(self, game, *, sign=-1.0, seed=0, layers=1):
        rng = np.random.default_rng(seed)
        inputs, units = game.spec().num_inputs, 10
        sizes = ((inputs, units), units, units, 1, (layers - 1, units, units), (layers - 1, units))
        net = Perceptron(*(rng.normal(size=size) for size in sizes))
        self.network = bit_perceptron(net, game.spec(), sign=sign)

    def __call__(self, batch, version):
        chances = np.empty(len(batch), np.float32)
        values(self.network.net, batch.states & self.network.read, chances)
        mine = self.network.sign * (2.0 * chances - 1.0)
        policy = np.zeros(batch.legal.shape, np.float16)
        return Evaluation(policy, np.stack([mine, -mine], axis=1), version)

    def perceptron(self, version):
        return self.network


def positions(game, count=12, seed=0):
    rng = np.random.default_rng(seed)
    found = []
    while len(found) < count:
        state = games.new_state(game)
        for _ in range(int(rng.integers(7))):
            if not core.is_over(game, state):
                core.play(game, state, int(rng.choice(legal(game, state))))
        if not core.is_over(game, state):
            found.append(state)
    return found


def by_batch(local):
    """Return the same evaluation without the network itself."""
    return local.__call__


def same(fast, slow):
    assert fast.found().actions.tolist() == slow.found().actions.tolist()
    assert fast.found().values.tolist() == slow.found().values.tolist()
    assert (fast.nodes, fast.exhausted) == (slow.nodes, slow.exhausted)


@pytest.mark.parametrize(("ordered", "layers"), [(True, 1), (False, 1), (True, 2)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_alpha_beta_finds_the_same_values_in_the_same_order(ordered, layers, sign):
    local = Local(GAME, sign=sign, layers=layers)
    for state in positions(GAME):
        fast = PerceptronSearch(GAME, state, local.network, deepest=6, ordered=ordered)
        slow = NetworkSearch(GAME, state, local, version=SEVEN, ordered=ordered)
        for depth in (1, 2, 3, 6):
            finish(fast, depth)
            finish(slow, depth)
            same(fast, slow)


def test_the_moves_of_the_root_are_searched_in_the_given_order():
    local = Local(GAME)
    order = np.array([8, 0, 4, 1, 7, 2, 6, 3, 5], dtype=np.int16)
    fast = PerceptronSearch(GAME, games.new_state(GAME), local.network, deepest=3)
    slow = NetworkSearch(GAME, games.new_state(GAME), local, version=SEVEN)
    for search in (fast, slow):
        search.begin(3, order)
        while not search.run(1_000_000):
            pass
    assert fast.found().actions.tolist() == order.tolist()
    same(fast, slow)


def test_a_search_in_small_slices_finds_the_same_as_one_without_a_stop():
    local = Local(GAME)
    whole = PerceptronSearch(GAME, games.new_state(GAME), local.network, deepest=5)
    sliced = PerceptronSearch(GAME, games.new_state(GAME), local.network, deepest=5)
    finish(whole, 5)
    sliced.begin(5, None)
    slices = 1
    while not sliced.run(1):
        slices += 1
    assert slices > 50
    same(sliced, whole)


def test_values_stay_below_those_of_a_proven_win():
    local = Local(GAME)
    certain = Perceptron(*(100.0 * array for array in local.network.net))
    local.network = bit_perceptron(certain, GAME.spec(), sign=1.0)
    search = PerceptronSearch(GAME, games.new_state(GAME), local.network, deepest=2)
    finish(search, 2)
    assert 0.99 < np.abs(search.found().values).max() < 1.0


def test_uct_finds_the_same_visits_and_values():
    local = Local(GAME)
    plan = plan_for(GAME, confidence=5.0)
    for state in positions(GAME, count=4):
        fast = UctSearch(GAME, state, plan, seed=3, network=local.network)
        slow = UctSearch(
            GAME, state, plan, seed=3, priors=lambda position, moves: mover_values(GAME, position, moves, local, SEVEN)
        )
        for search in (fast, slow):
            search.run(200)
        assert fast.root().visits.tolist() == slow.root().visits.tolist()
        assert fast.root().values.tolist() == slow.root().values.tolist()


@pytest.mark.parametrize("text", ["alpha_beta:3,model=7", "uct:50,model=7,confidence=5"])
def test_an_agent_chooses_the_same_with_the_network_and_by_batch(text):
    local = Local(GAME)
    assert isinstance(local, PerceptronSource)
    fast, slow = make_agent(text, GAME, evaluate=local), make_agent(text, GAME, evaluate=by_batch(local))
    for number, state in enumerate(positions(GAME)):
        choices = [agent.choose(GAME, state, np.random.default_rng(number)) for agent in (fast, slow)]
        assert choices[0] == choices[1]


ON_PROCESSOR = ("alpha_beta:1cpu_ms,model=7", "uct:1cpu_ms,model=7")


@pytest.mark.parametrize("text", ON_PROCESSOR)
def test_processor_time_is_refused_where_another_thread_may_evaluate(text):
    with pytest.raises(InvalidRequest, match="processor time needs a network evaluated by compiled code in the agent's thread"):
        make_agent(text, GAME, evaluate=by_batch(Local(GAME)))


def test_an_agent_with_the_network_makes_no_call_for_a_batch():
    class Silent(Local):
        def __call__(self, batch, version):
            raise AssertionError("evaluated by batch")

    silent = Silent(GAME)
    for text in ("alpha_beta:2,model=7", "uct:20,model=7", "alpha_beta:1ms,model=7", "uct:1ms,model=7", *ON_PROCESSOR):
        choice = make_agent(text, GAME, evaluate=silent).choose(GAME, games.new_state(GAME), np.random.default_rng(0))
        assert choice.nodes > 0
