"""Alpha-beta with a network at its horizon: the value of minimax over the same leaves, from fewer positions."""

from __future__ import annotations

import numpy as np
import pytest

import games
from games import core
from games.core import Game, State
from games.kit.randomness import mix64
from games.positions import encode_for
from zerofleet.agents import make_agent
from zerofleet.agents.depth_first import network_minimax
from zerofleet.agents.depth_first.deepening import finish
from zerofleet.agents.depth_first.minimax import MinimaxSearch
from zerofleet.agents.depth_first.network_minimax import NetworkSearch
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion

GAME = games.make("connect_four")
SEVEN = ModelVersion(7)


def opinion(packed: np.ndarray) -> float:
    """What the fake network thinks of an encoded position, for the player to move: mostly how central their stones are."""
    bits = np.unpackbits(packed, bitorder="little")[:126].reshape(3, 6, 7).astype(np.float64)
    central = np.array([0, 1, 2, 3, 2, 1, 0]) / 20.0
    noise = int(mix64(np.uint64(int.from_bytes(packed.tobytes()[:8], "little")))) % 1000 / 1e5
    return float(np.tanh(((bits[0] - bits[1]) * central).sum()) + noise) / 1.1


class FakeNetwork:
    """Answers with `opinion` and keeps the batches it was asked."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.versions: set[int] = set()

    def __call__(self, batch: LeafBatch, version: ModelVersion) -> Evaluation:
        self.sizes.append(len(batch))
        self.versions.add(version)
        assert all((listed >= 0).any() for listed in batch.legal)
        own = np.array([opinion(packed) for packed in batch.states], dtype=np.float32)
        policy = np.zeros(batch.legal.shape, dtype=np.float16)
        return Evaluation(policy, np.stack([own, -own], axis=1), version)


def plain_value(game: Game, state: State, depth: int) -> float:
    """Minimax over what the fake network thinks, for the player to move."""
    mover = core.to_move(game, state)
    values = []
    for action in games.legal(game, state):
        child = state.copy()
        core.play(game, child, action)
        if core.is_over(game, child):
            values.append(games.final_scores(game, child)[mover])
        elif depth == 1:
            values.append(-float(np.float32(opinion(encode_for(game, child, 1 - mover)))))
        else:
            values.append(-plain_value(game, child, depth - 1))
    return max(values)


def some_positions(count: int, seed: int) -> list[State]:
    """Positions after up to 20 random moves in which the game goes on."""
    rng = np.random.default_rng(seed)
    found: list[State] = []
    while len(found) < count:
        state = games.new_state(GAME)
        for _ in range(rng.integers(20)):
            if not core.is_over(GAME, state):
                core.play(GAME, state, int(rng.choice(games.legal(GAME, state))))
        if not core.is_over(GAME, state):
            found.append(state)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("ordered", [True, False])
def test_the_root_has_the_value_of_minimax_over_the_same_leaves(ordered: bool) -> None:
    for number, state in enumerate(some_positions(12, seed=1)):
        depth = 1 + number % 3
        search = NetworkSearch(GAME, state, FakeNetwork(), version=SEVEN, ordered=ordered)
        assert finish(search, depth).values.max() == pytest.approx(plain_value(GAME, state, depth), abs=0)


@pytest.mark.slow
def test_ordering_by_value_saves_nodes() -> None:
    nodes = {True: 0, False: 0}
    for state in some_positions(6, seed=2):
        for ordered in nodes:
            search = NetworkSearch(GAME, state, FakeNetwork(), version=SEVEN, ordered=ordered)
            nodes[ordered] += finish(search, 5).nodes
    assert nodes[False] > 1.5 * nodes[True]


@pytest.mark.slow
def test_a_position_that_comes_again_nearer_to_the_ply_cap_is_another_one() -> None:
    game = games.make("chinese_checkers_rhombus", ply_cap=5)
    state = games.new_state(game)  # the pieces of the start stand there again after four plies

    def level(batch: LeafBatch, version: ModelVersion) -> Evaluation:
        return Evaluation(np.empty((len(batch), 0), np.float16), np.zeros((len(batch), 2), np.float32), version)

    search = NetworkSearch(game, state, level, version=SEVEN)
    found, wanted = finish(search, 5), finish(MinimaxSearch(game, state, deepest=5), 5)
    assert search.exhausted
    assert found.values.max() == wanted.values.max()
    assert set(found.best()) == set(wanted.best())


def test_children_and_grandchildren_are_evaluated_together_and_once() -> None:
    network = FakeNetwork()
    search = NetworkSearch(GAME, games.new_state(GAME), network, version=SEVEN)
    finish(search, 2)
    assert network.versions == {7}
    assert network.sizes == [7 + 49]
    assert search.evaluated == 56
    assert search.nodes <= 1 + 7 + 49
    finish(search, 3)
    assert network.sizes[0] == 56
    assert len(network.sizes) <= 1 + 7
    asked = len(network.sizes)
    finish(search, 3)
    assert len(network.sizes) == asked


def test_batches_are_bounded_where_there_are_many_moves() -> None:
    game, network = games.make("connect_four", columns=20), FakeNetwork()
    finish(NetworkSearch(game, games.new_state(game), network, version=SEVEN), 2)
    assert network.sizes[0] == 20 + 11 * 20
    assert max(network.sizes) <= 256


def test_a_proven_win_ranks_above_any_model_value() -> None:
    state = games.replay(GAME, games.read_moves(GAME, "d e d e d e"))
    agent = make_agent("alpha_beta:2,model=7", GAME, evaluate=FakeNetwork())
    chosen = agent.choose(GAME, state, np.random.default_rng(1))
    assert (GAME.action_name(state, chosen.action), chosen.value) == ("d4", 1.0)


def test_a_network_search_with_a_node_budget_deepens() -> None:
    agent = make_agent("alpha_beta:500nodes,model=7", GAME, evaluate=FakeNetwork())
    assert agent.name == "alpha_beta:500nodes,model=7"
    first, second = (agent.choose(GAME, games.new_state(GAME), np.random.default_rng(seed)) for seed in (1, 2))
    assert first == second
    assert 500 <= first.nodes < 520
    assert -1.0 < (first.value or 0.0) < 1.0


def test_a_time_budget_with_a_served_model_pays_for_no_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    follow = network_minimax._children_of
    monkeypatch.setattr(network_minimax, "_children_of", lambda game, state: loaded.append("code") or follow(game, state))
    network = FakeNetwork()
    make_agent("alpha_beta:5ms,model=7", GAME, evaluate=network)
    assert (loaded, network.sizes) == (["code"], [])


def test_a_model_needs_the_algorithm_alpha_beta() -> None:
    with pytest.raises(InvalidRequest, match="a model needs algorithm=alpha_beta"):
        make_agent("alpha_beta:2,algorithm=negascout,model=7", GAME, evaluate=FakeNetwork())


def test_exceptions_of_the_evaluator_propagate() -> None:
    def refuse(batch: LeafBatch, version: ModelVersion) -> Evaluation:
        raise InvalidRequest("no such model")

    with pytest.raises(InvalidRequest, match="no such model"):
        make_agent("alpha_beta:2,model=7", GAME, evaluate=refuse).choose(GAME, games.new_state(GAME), np.random.default_rng(1))
