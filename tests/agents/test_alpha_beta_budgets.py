"""Alpha-beta within nodes or time: as deep as that gets, at once where nothing more is to be found."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from uniform_tree import UniformTree, tree_of

import games
from zerofleet.agents import make_agent
from zerofleet.agents.budget import Budget
from zerofleet.agents.depth_first.alpha_beta import search_moves
from zerofleet.agents.depth_first.deepening import MAX_DEPTH, SearchedMoves, deepen
from zerofleet.agents.depth_first.minimax import MinimaxSearch
from zerofleet.errors import InvalidRequest

GAME = games.make("connect_four")


def position(moves: str) -> games.State:
    """The position after moves in the notation of the game."""
    return games.replay(GAME, games.read_moves(GAME, moves))


class SlowClock:
    """A clock on which each look takes a millisecond."""

    def __init__(self) -> None:
        self._looks = itertools.count()

    def __call__(self) -> float:
        return next(self._looks) / 1000


def test_a_node_budget_is_kept_and_determines_the_move() -> None:
    agent = make_agent("alpha_beta:20000nodes", GAME)
    for moves in ("", "d d e", "a b c d e f g"):
        first, second = (agent.choose(GAME, position(moves), np.random.default_rng(1)) for _ in range(2))
        assert first == second
        assert 20_000 <= first.nodes <= 20_000 + 8


def test_the_first_ply_is_always_searched() -> None:
    agent = make_agent("alpha_beta:1nodes", GAME)
    assert agent.choose(GAME, position("d e d e d e"), np.random.default_rng(1)).action == 3


def test_a_time_budget_ends_the_search() -> None:
    search = MinimaxSearch(GAME, position(""), deepest=MAX_DEPTH)
    clock = SlowClock()
    found = deepen(search, Budget(50, "ms"), deepest=MAX_DEPTH, clock=clock)
    assert 0.050 <= clock() <= 0.055
    assert found.depth > 1


def test_a_budget_of_processor_time_is_kept_by_the_clock_of_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SlowClock()
    monkeypatch.setattr(time, "thread_time", clock)
    deepen(MinimaxSearch(GAME, position(""), deepest=MAX_DEPTH), Budget(50, "cpu_ms"), deepest=MAX_DEPTH)
    assert 0.050 <= clock() <= 0.055


def test_a_time_budget_works_with_the_real_clock() -> None:
    agent = make_agent("alpha_beta:5ms", GAME)
    chosen = agent.choose(GAME, position(""), np.random.default_rng(1))
    assert chosen.action in range(7)
    assert chosen.nodes > 0
    assert agent.name == "alpha_beta:5ms"
    assert make_agent("alpha_beta:2s", GAME).name == "alpha_beta:2000ms"
    assert make_agent("alpha_beta:5cpu_ms", GAME).name == "alpha_beta:5cpu_ms"


@pytest.mark.slow
def test_a_depth_completed_by_deepening_has_the_values_of_that_depth() -> None:
    for moves in ("", "d d e", "d d e e", "c d d e e c"):
        for nodes in (300, 3_000, 30_000):
            found = deepen(MinimaxSearch(GAME, position(moves), deepest=42), Budget(nodes, "nodes"), deepest=42)
            exact = search_moves(GAME, position(moves), found.depth)
            if exact.values.max() > -1.0 and len(found.moves.actions) == len(exact.actions):
                assert found.moves.values.max() >= exact.values.max()


def test_the_quickest_win_is_chosen() -> None:
    state = position("d d e e c c")
    agent = make_agent("alpha_beta:100000nodes", GAME)
    chosen = [agent.choose(GAME, state, np.random.default_rng(seed)) for seed in range(20)]
    assert {GAME.action_name(state, choice.action) for choice in chosen} == {"b1", "f1"}
    assert all(choice.value == 1.0 and choice.nodes < 20 for choice in chosen)


def test_a_losing_player_delays_the_loss() -> None:
    state = position("d a d a d g e")  # d4 would win at once; taking it only delays c1, three with both ends open
    assert set(search_moves(GAME, state, 4).values.tolist()) == {-1.0}
    agent = make_agent("alpha_beta:100000nodes", GAME)
    chosen = [agent.choose(GAME, state, np.random.default_rng(seed)) for seed in range(20)]
    assert {(GAME.action_name(state, choice.action), choice.value) for choice in chosen} == {("d4", -1.0)}


def test_the_end_of_the_game_ends_the_search() -> None:
    game = UniformTree(3, 4)
    found = deepen(MinimaxSearch(game, games.new_state(game), deepest=MAX_DEPTH), Budget(10**9, "nodes"), deepest=MAX_DEPTH)
    assert found.depth == 4


def test_a_single_legal_move_needs_no_search() -> None:
    game = games.make("connect_four", rows=4, columns=2)
    state = games.replay(game, [0, 0, 0, 0])
    found = deepen(MinimaxSearch(game, state, deepest=4), Budget(10**9, "nodes"), deepest=4)
    assert found.depth == 1


def test_the_moves_searched_at_an_interrupted_depth_count() -> None:
    """Three moves that look alike at first. The second ply shows the first to be bad, then the second to be good."""
    game, state = tree_of(3, *[-0.5, 0.0, 0.0], *[0.5, 0.5, 0.5], *[0.75, 0.75, 0.75])
    chosen = []
    for nodes in range(1, 20):
        search = MinimaxSearch(game, state, deepest=2)
        chosen.append(deepen(search, Budget(nodes, "nodes"), deepest=2).moves.best().tolist())
    assert [answer for answer, _ in itertools.groupby(chosen)] == [[0, 1, 2], [1, 2], [1], [2]]


class ListedSearch:
    """Search with given values of each move, row by row for depths 1, 2, …; a move costs one node."""

    exhausted = False

    def __init__(self, *values: list[float]) -> None:
        self.nodes = 0
        self._values = values
        self._row = values[0]
        self._order = np.arange(len(values[0]), dtype=np.int16)
        self._reached = 0

    def begin(self, depth: int, order: np.ndarray | None) -> None:
        """Begin with the moves in this order."""
        self._row = self._values[depth - 1]
        self._order = self._order if order is None else order
        self._reached = 0

    def run(self, quota: int) -> bool:
        """Reach so many more moves."""
        count = min(quota, len(self._order) - self._reached)
        self._reached += count
        self.nodes += count
        return self._reached == len(self._order)

    def found(self) -> SearchedMoves:
        """Return the moves reached."""
        actions = self._order[: self._reached]
        return SearchedMoves(actions, np.array([self._row[action] for action in actions], dtype=np.float64), self.nodes)


def test_a_move_proved_lost_at_an_interrupted_depth_is_not_chosen_while_others_are_open() -> None:
    """The search reaches, best first, the moves 1 and 3, which lose, and then 0, which does not."""
    chosen = []
    for nodes in range(5, 11):
        search = ListedSearch([0.1, 0.75, -1.0, 0.5, 0.0], [0.25, -1.0, -1.0, -1.0, 0.0])
        moves = deepen(search, Budget(nodes, "nodes"), deepest=2).moves
        chosen.append((moves.best().tolist(), float(moves.values.max())))
    assert chosen == [([1], 0.75), ([3], 0.5), ([0], 0.1), ([0], 0.25), ([0], 0.25), ([0], 0.25)]


def test_where_only_lost_moves_are_left_the_moves_of_an_interrupted_depth_count() -> None:
    search = ListedSearch([-1.0, 0.5, -1.0], [-1.0, -1.0, -1.0])
    moves = deepen(search, Budget(4, "nodes"), deepest=2).moves
    assert (moves.best().tolist(), moves.values.tolist()) == ([1], [-1.0])


@pytest.mark.parametrize("algorithm", ["minimax", "negascout"])
def test_the_algorithm_changes_no_choice(algorithm: str) -> None:
    usual, other = make_agent("alpha_beta:4", GAME), make_agent(f"alpha_beta:4,algorithm={algorithm}", GAME)
    assert other.name == f"alpha_beta:4,algorithm={algorithm}"
    for moves in ("", "d d e e", "d e d e d"):
        first, second = (agent.choose(GAME, position(moves), np.random.default_rng(1)) for agent in (usual, other))
        assert (first.action, first.value) == (second.action, second.value)
        assert first.nodes <= second.nodes or algorithm == "negascout"


@pytest.mark.parametrize("unit", ["", "nodes", "s"])
def test_a_number_of_thousands_of_digits_is_refused(unit: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a budget; write 5 "):
        make_agent(f"alpha_beta:{'7' * 5000}{unit}", GAME)
    with pytest.raises(InvalidRequest, match="is out of range"):
        make_agent(f"alpha_beta:{'7' * 100}{unit}", GAME)


def test_unsupported_games_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="plays games of two players; chinese_checkers_star37 has 3"):
        make_agent("alpha_beta:3", games.make("chinese_checkers_star37"))
    with pytest.raises(InvalidRequest, match="rock_paper_scissors has 2 players and simultaneous information"):
        make_agent("alpha_beta:3", games.make("rock_paper_scissors"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("alpha_beta:3,algorithm=mtdf", "option 'algorithm'"),
        ("alpha_beta:3,depth=4", "Options and their defaults: algorithm=alpha_beta, ordered=True, model=None"),
        ("alpha_beta:3,model=0", "option 'model'"),
        ("alpha_beta:3,model=7", "alpha_beta:3,model=7 needs a model, but none is available"),
    ],
)
def test_invalid_options_are_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        make_agent(text, GAME)
    assert said in str(refusal.value)
