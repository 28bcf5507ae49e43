"""The agent uct: what it finds, how it counts, what it keeps to and what it refuses."""

from __future__ import annotations

import time

import numpy as np
import pytest

import games
from games import core
from games.core import Game, State
from zerofleet.agents.budget import Budget
from zerofleet.agents.spelling import Spelling
from zerofleet.agents.uct import UctSearch, plan_for, tree
from zerofleet.agents.uct.agent import UctAgent, from_spelling, spend
from zerofleet.agents.uct.descent import VISITS
from zerofleet.agents.uct.tree import CHILD, COUNT, NODES, START
from zerofleet.errors import InvalidRequest


def made(text: str, game: Game) -> UctAgent:
    return from_spelling(Spelling.parse(text), game, None)


def position(game: Game, moves: str) -> State:
    return games.replay(game, games.read_moves(game, moves))


def searched(game: Game, state: State, simulations: int, *, seed: int = 1) -> UctSearch:
    search = UctSearch(game, state, plan_for(game), seed=seed)
    search.run(simulations)
    return search


@pytest.mark.parametrize(
    ("moves", "simulations", "answers", "least"),
    [
        ("d e d e d e", 200, {"d4"}, 1.0),  # wins at once
        ("d e d e d", 200, {"d4"}, 0.95),  # must be blocked; 200 games of chance may mislead, 400 do not
        ("d e d e d", 400, {"d4"}, 1.0),
        ("a d a d b d", 200, {"d4"}, 0.95),  # so must this, by the other side
        ("a d a d b d", 400, {"d4"}, 1.0),
        ("d d e e", 2000, {"c1", "f1"}, 1.0),  # three in a row with both ends open wins
        ("a d a e g", 2000, {"c1"}, 1.0),  # the same for the second player
    ],
)
@pytest.mark.parametrize("final", ["mean", "visits"])
def test_uct_finds_wins_and_prevents_losses(moves: str, simulations: int, answers: set[str], least: float, final: str) -> None:
    game = games.make("connect_four")
    state, agent = position(game, moves), made(f"uct:{simulations},final={final}", game)
    rngs = [np.random.default_rng(seed) for seed in range(40)]
    chosen = [game.action_name(state, agent.choose(game, state, rng).action) for rng in rngs]
    assert sum(name in answers for name in chosen) >= 40 * least, f"{chosen}\n{game.draw(state)}"


def test_simulations_are_counted_at_every_node() -> None:
    game = games.make("connect_four")
    search = searched(game, games.new_state(game), 2500)
    root = search.root()
    assert search.simulations == 2500
    assert root.visits.sum() == 2500
    assert (np.abs(root.values) <= 1.0).all()
    nodes, edges = search.tree.nodes, search.tree.edges
    for start, count, *_ in nodes[: search.tree.tally[NODES]]:
        for edge in edges[start : start + count] if start >= 0 else ():
            child = nodes[edge[CHILD]]
            if edge[CHILD] > 0 and child[START] >= 0 and child[COUNT] > 0:
                own = edges[child[START] : child[START] + child[COUNT]]
                assert edge[VISITS] == 1 + own[:, VISITS].sum(), "its own game, and those of its moves"


def test_a_resumed_search_equals_an_uninterrupted_one() -> None:
    game = games.make("connect_four")
    whole, parts = searched(game, games.new_state(game), 1500), searched(game, games.new_state(game), 1)
    for simulations in (2, 700, 1500):
        parts.run(simulations)
    assert parts.root().visits.tolist() == whole.root().visits.tolist()


def test_the_same_seed_gives_the_same_move() -> None:
    game = games.make("connect_four")
    agent, state = made("uct:60", game), games.new_state(game)
    first, second = ([agent.choose(game, state, rng) for _ in range(20)] for rng in map(np.random.default_rng, (4, 4)))
    assert first == second
    assert len({choice.action for choice in first}) > 1


def test_ties_are_broken_at_random() -> None:
    game = games.make("connect_four")
    state, rng = position(game, "d a e a f b"), np.random.default_rng(5)  # c1 and g1 both win
    names = [game.action_name(state, made("uct:300", game).choose(game, state, rng).action) for _ in range(40)]
    assert {*names} == {"c1", "g1"}


def test_the_position_is_not_modified() -> None:
    game = games.make("connect_four")
    state = position(game, "d d c")
    state.setflags(write=False)
    choice = made("uct:50", game).choose(game, state, np.random.default_rng(6))
    assert choice.nodes == 50
    assert choice.value is not None
    assert -1.0 <= choice.value <= 1.0


@pytest.mark.slow
def test_each_of_three_players_maximises_its_own_score() -> None:
    game = games.make("chinese_checkers_star37")
    movers = set()
    for seed in range(6):
        state = last_position(game, np.random.default_rng(seed))
        mover = core.to_move(game, state)
        best = max(after[mover] for after in outcomes(game, state))
        agent = made("uct:300,max_rollout_plies=20", game)
        action = agent.choose(game, state, np.random.default_rng(seed)).action
        core.play(game, state, action)
        assert core.is_over(game, state)
        assert games.final_scores(game, state)[mover] == best
        movers.add(mover)
    assert len(movers) > 1


def last_position(game: Game, rng: np.random.Generator) -> State:
    """The position before the last move of a game of greedy players, in which that move earns its player something."""
    while True:
        state, before = games.new_state(game), games.new_state(game)
        for _ in range(4):
            core.play(game, state, int(rng.choice(games.legal(game, state))))
        while not core.is_over(game, state):
            before[:] = state
            actions = games.legal(game, state)
            values = np.array([core.move_value(game, state, action) for action in actions])
            core.play(game, state, int(rng.choice(np.array(actions)[values == values.max()])))
        if any(after[core.to_move(game, before)] > 0.0 for after in outcomes(game, before)):
            return before


def outcomes(game: Game, state: State) -> list[tuple[float, ...]]:
    """The scores of the moves that end the game."""
    ends = []
    for action in games.legal(game, state):
        after = state.copy()
        core.play(game, after, action)
        if core.is_over(game, after):
            ends.append(games.final_scores(game, after))
    return ends


def test_a_full_tree_continues_to_count_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MOST_NODES", 1 << 10)
    game = games.make("connect_four")
    search = searched(game, games.new_state(game), 5000)
    assert search.tree.tally[NODES] <= 1 << 10
    assert search.root().visits.sum() == 5000
    assert search.root().visits.argmax() == 3


class Slow:
    """A search that takes a millisecond a simulation, and five for the first."""

    def __init__(self) -> None:
        self.simulations = 0

    def run(self, simulations: int) -> None:
        self.simulations = max(self.simulations, simulations)

    def clock(self) -> float:
        return (self.simulations + 4 * (self.simulations > 0)) / 1000


@pytest.mark.parametrize("limit_ms", [1, 20, 100, 5000])
def test_a_time_budget_is_kept(limit_ms: int) -> None:
    slow = Slow()
    spend(slow, Budget(limit_ms, "ms"), clock=slow.clock)  # type: ignore[arg-type]
    assert slow.simulations == max(1, limit_ms - 4)


def test_a_budget_of_processor_time_is_kept_by_the_clock_of_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    monkeypatch.setattr(time, "thread_time", slow.clock)
    spend(slow, Budget(20, "cpu_ms"))  # type: ignore[arg-type]
    assert slow.simulations == 16


def test_time_and_node_budgets_end_the_search() -> None:
    game = games.make("connect_four")
    assert made("uct:5ms", game).choose(game, games.new_state(game), np.random.default_rng(7)).nodes > 0
    search = UctSearch(game, games.new_state(game), plan_for(game), seed=1)
    spend(search, Budget(2000, "nodes"))
    assert 2000 <= search.positions < 2000 + 42
    assert search.simulations < 300


@pytest.mark.slow
def test_greedy_rollouts_are_shorter() -> None:
    game = games.make("chinese_checkers_star37")
    state, plies = games.new_state(game), {}
    for greedy in (False, True):
        search = UctSearch(game, state, plan_for(game, greedy=greedy, epsilon=0.1), seed=1)
        search.run(50)
        plies[greedy] = search.positions
    assert plies[True] < plies[False] / 2


def test_a_rollout_cut_off_is_scored_by_the_rules() -> None:
    game = games.make("chinese_checkers_star37")
    state = games.new_state(game)
    search = UctSearch(game, state, plan_for(game, most_plies=0), seed=1)
    search.run(len(games.legal(game, state)))
    estimates = np.zeros(3, dtype=np.float32)
    root = search.root()
    for action, value in zip(root.actions, root.values, strict=True):
        after = state.copy()
        core.play(game, after, int(action))
        core.estimate(game, after, estimates)
        assert value == estimates[core.to_move(game, state)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("uct:1000", "uct:1000"),
        ("uct:2s,final=visits", "uct:2000ms,final=visits"),
        ("uct:50cpu_ms", "uct:50cpu_ms"),
        ("uct:500nodes,final=mean,c=1.0", "uct:500nodes,c=1.0"),
        ("uct:10,max_rollout_plies=30,c=0.5", "uct:10,c=0.5,max_rollout_plies=30"),
    ],
)
def test_the_name_has_the_options_that_differ_from_the_defaults(text: str, name: str) -> None:
    assert made(text, games.make("connect_four")).name == name


@pytest.mark.parametrize(
    ("text", "game", "said"),
    [
        ("uct", "connect_four", "'uct' needs simulations or another budget: '' is not a budget; write 1000 (simulations)"),
        ("uct:0", "connect_four", "'0' is out of range; want 1 to 100,000,000 simulations"),
        ("uct:10,final=best", "connect_four", "option 'final': Input should be 'mean' or 'visits'"),
        ("uct:10,c=-1", "connect_four", "option 'c': Input should be greater than or equal to 0"),
        (
            "uct:10,depth=3",
            "connect_four",
            "option 'depth': Extra inputs are not permitted. Options and their defaults: c=0.7071",
        ),
        ("uct:10,model=7", "connect_four", "uct:10,model=7 needs a model, but none is available; leave out model=7"),
        ("uct:10,confidence=5", "connect_four", "confidence needs a model; add model=VERSION"),
        ("uct:10,epsilon=0.5", "connect_four", "epsilon needs greedy rollouts; add rollout=greedy"),
        ("uct:10,rollout=greedy", "connect_four", "connect_four has no rule move_value; leave out rollout=greedy"),
        ("uct:10,model=7", "take_six", "uct:10,model=7 plays games with perfect information; take_six has"),
    ],
)
def test_invalid_spellings_are_refused(text: str, game: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        made(text, games.make(game))
    assert said in str(refusal.value)
