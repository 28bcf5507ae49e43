"""The agent: how it is written, budgets, ties, threads, evaluations as data."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import games
from games import core
from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from zerofleet.agents import make_agent
from zerofleet.agents.by_game.rhombus import RhombusSearchAgent
from zerofleet.agents.by_game.rhombus.evaluation import WIN, cell_values, expected_score, linear_weights
from zerofleet.agents.by_game.rhombus.features import count_features, linear_score
from zerofleet.agents.by_game.rhombus.root import Found, run, set_frame
from zerofleet.agents.by_game.rhombus.work import Work
from zerofleet.errors import InvalidRequest

GAME = ChineseCheckersRhombus()

Room = Callable[..., Work]
Place = Callable[..., np.ndarray]


def agent(text: str) -> RhombusSearchAgent:
    made = make_agent(text, GAME)
    assert isinstance(made, RhombusSearchAgent)
    return made


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("rhombus_search:4", "rhombus_search:4"),
        (" rhombus_search:2s ", "rhombus_search:2000ms"),
        ("rhombus_search:5000nodes,ties=fixed", "rhombus_search:5000nodes,ties=fixed"),
        ("rhombus_search:6,top=6,ties=random,reductions=on", "rhombus_search:6,reductions=on,top=6"),
        ("rhombus_search:3,moves=mono,generation=channels", "rhombus_search:3,generation=channels,moves=mono"),
        ("rhombus_search:3,presearch=1,bits=20", "rhombus_search:3,bits=20,presearch=1"),
        ("rhombus_search:3,margin=50,reductions=on", "rhombus_search:3,reductions=on,margin=50"),
    ],
)
def test_the_name_has_the_options_that_differ_from_the_defaults(text: str, name: str) -> None:
    assert agent(text).name == name
    assert agent(name).name == name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "rhombus_search",
            "'rhombus_search' needs a depth in plies or a budget: '' is not a budget; write 5 \\(plies\\) or 100",
        ),
        ("rhombus_pool,model=1", "'rhombus_pool,model=1' needs a depth in plies: '' is not a budget; write 5 \\(plies\\)"),
        ("rhombus_search:9", "want 1 to 8 plies, or a budget such as 1000ms"),
        ("rhombus_search:4,table=yes", "option 'table'"),
        ("rhombus_search:4,depth=3", "option 'depth'"),
        ("rhombus_search:4,margin=50", "margin has no effect without reductions=on; omit margin"),
        ("rhombus_search:4,endgame_nodes=100", "endgame_nodes has no effect without endgame=exact"),
        ("rhombus_search:4,table=off,bits=20", "bits has no effect without table=on"),
        ("rhombus_search:4,table=off,keying=exact", "keying has no effect without table=on"),
        ("rhombus_search:4,history=off,presearch=1", "presearch has no effect without history=on"),
        ("rhombus_search:4,history=off,exponent=next", "exponent has no effect without history=on"),
        ("rhombus_search:3,presearch=3", "presearch has no effect unless it is less than the 3 plies; omit it"),
        ("rhombus_search:50ms,presearch=3", "presearch is that of a fixed depth, such as rhombus_search:4; omit presearch"),
        ("rhombus_search:5000nodes,presearch=2", "presearch is that of a fixed depth"),
    ],
)
def test_invalid_spellings_are_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        make_agent(text, GAME)


def test_an_agent_with_a_time_searches_two_plies_beforehand_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code is compiled or loaded then, and not in the time of the first move."""
    found: list[tuple[Found, object]] = []

    def recording(*given: Any, **named: Any) -> Found:
        found.append((run(*given, **named), named.get("time_s")))
        return found[-1][0]

    monkeypatch.setattr("zerofleet.agents.by_game.rhombus.agent.run", recording)
    agent("rhombus_search:4")
    agent("rhombus_search:1nodes")
    assert found == []
    agent("rhombus_search:1ms")
    assert [(one.depth, limit_s) for one, limit_s in found] == [(2, None)]


@pytest.mark.parametrize("game", [games.make("tic_tac_toe"), ChineseCheckersRhombus(long_hops=True)])
def test_other_games_and_long_hops_are_refused(game: games.Game) -> None:
    with pytest.raises(InvalidRequest, match="plays chinese_checkers_rhombus without long_hops only"):
        make_agent("rhombus_search:2", game)


def test_fixed_ties_are_constant_and_random_ties_follow_the_seed() -> None:
    state = games.new_state(GAME)
    fixed, free = agent("rhombus_search:2,ties=fixed"), agent("rhombus_search:2")
    assert len({fixed.choose(GAME, state, np.random.default_rng(seed)).action for seed in range(20)}) == 1
    chosen = [free.choose(GAME, state, np.random.default_rng(seed)).action for seed in range(200)]
    assert chosen[:20] == [free.choose(GAME, state, np.random.default_rng(seed)).action for seed in range(20)]
    ties = free.search(GAME, state).actions
    assert len(ties) > 1
    counts = [chosen.count(action) for action in ties.tolist()]
    assert sum(counts) == 200
    assert min(counts) > 200 / len(ties) / 2


def test_mirrored_positions_have_mirrored_moves(positions: np.ndarray) -> None:
    mirror = GAME.spec().symmetries[0]
    searcher = agent("rhombus_search:3,keying=exact")
    for state in positions[:20]:
        image = state.copy()
        marks = GAME.marks(state)
        for player, mark in enumerate("XO"):
            words = [0, 0]
            for cell in range(81):
                if marks[mirror.cells[cell]] == mark:
                    words[cell & 1] |= 1 << (cell >> 1)
            image[1 + 2 * player : 3 + 2 * player] = words
        found, mirrored = searcher.search(GAME, state), searcher.search(GAME, image)
        assert found.score == mirrored.score
        assert sorted(int(mirror.actions[action]) for action in found.actions) == mirrored.actions.tolist()


def test_several_threads_can_share_an_agent(positions: np.ndarray) -> None:
    shared, states = agent("rhombus_search:3"), list(positions[:24])
    wanted = [agent("rhombus_search:3").choose(GAME, state, np.random.default_rng(5)) for state in states]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda state: shared.choose(GAME, state, np.random.default_rng(5)), states)) == wanted


def test_a_budget_of_nodes_is_kept_and_more_nodes_search_deeper(positions: np.ndarray) -> None:
    few, many = agent("rhombus_search:200nodes"), agent("rhombus_search:20000nodes")
    depths = [[searcher.search(GAME, state).depth for state in positions[:20]] for searcher in (few, many)]
    assert np.mean(depths[1]) > np.mean(depths[0])
    assert max(many.search(GAME, state).nodes for state in positions[:20]) <= 20_000 + 192
    assert agent("rhombus_search:1nodes").search(GAME, positions[0]).depth == 1


def test_a_time_budget_ends_the_search(positions: np.ndarray) -> None:
    found = agent("rhombus_search:20ms").search(GAME, positions[0])
    assert found.depth >= 1
    assert found.actions[0] in games.legal(GAME, positions[0])


def test_a_read_only_position_is_not_modified() -> None:
    state = games.new_state(GAME)
    state.setflags(write=False)
    choice = agent("rhombus_search:2").choose(GAME, state, np.random.default_rng(1))
    assert choice.action in games.legal(GAME, state)
    assert choice.nodes > 14


def test_search_scores_are_converted_to_game_scores() -> None:
    assert expected_score(WIN - 3, 10) == 1.0
    assert expected_score(4 - WIN, 10) == -1.0
    assert expected_score(120, 10) == pytest.approx(0.1)
    assert expected_score(-100_000, 10) == -0.99


def test_the_table_of_cells_is_symmetric_and_climbs() -> None:
    values = cell_values().worth[0].reshape(9, 9)
    assert np.array_equal(values, values.T)
    assert (np.diff(values, axis=0) > 0).all()
    assert np.array_equal(cell_values().worth[1], cell_values().worth[0][::-1])
    assert abs(values).max() < 1000  # twenty of them must stay far from a win


def test_weights_have_the_signs_of_costs_and_benefits() -> None:
    distance, advance, sideways, spread, reach = linear_weights().values
    assert min(distance, sideways, spread) > 0 > max(advance, reach)


def test_the_five_features_of_a_small_position(room: Room, place: Place) -> None:
    # two rows with an empty one between
    state = place("a1 b1 c1 d1 e1 a3 b3 c3 d3 e3", "i9 h9 g9 f9 i8 h8 g8 i7 h7 i6")
    work = room()
    work.stack[0] = state
    set_frame(work, 0)
    levels = np.array([0, 1, 2, 3, 4, 2, 3, 4, 5, 6])
    aside = np.array([0, 1, 2, 3, 4, 2, 1, 0, 1, 2]) - 1
    found = count_features(work.frames[0].cells, state, 0)
    assert found[0] == 100 * (160 - levels.sum())
    assert found[1] == 200  # such as d3-f3
    assert found[2] == 10 * (aside**2).sum()
    assert found[3] == pytest.approx(100 * levels.var())
    other = count_features(work.frames[0].cells, state, 1)
    weights = linear_weights().values
    assert linear_score(work, 0) == sum(
        int(weight) * (theirs - mine) for weight, mine, theirs in zip(weights, found, other, strict=True)
    )


def test_both_sides_have_equal_features_at_the_start(room: Room) -> None:
    work = room()
    work.stack[0] = games.new_state(GAME)
    set_frame(work, 0)
    mine, other = (count_features(work.frames[0].cells, work.stack[0], side) for side in range(2))
    assert mine == other
    assert mine[:2] == (100 * 140, 200)
    assert mine[4] == 500  # the cells of level 4: a5 b4 c3 d2 e1
    assert linear_score(work, 0) == 0


@pytest.mark.slow
@pytest.mark.parametrize("text", ["rhombus_search:2", "rhombus_search:1,evaluation=linear", "rhombus_search:2,moves=mono"])
def test_rhombus_search_beats_the_greedy_player(text: str) -> None:
    rng, wins = np.random.default_rng(7), 0
    for number in range(10):
        seats = [make_agent(text, GAME), make_agent("greedy", GAME)][:: 1 - 2 * (number % 2)]
        state = games.new_state(GAME)
        while not core.is_over(GAME, state):
            core.play(GAME, state, seats[core.to_move(GAME, state)].choose(GAME, state, rng).action)
        wins += games.final_scores(GAME, state)[number % 2] == 1.0
    assert wins >= 8


def test_a_search_without_depths_is_refused(room: Room) -> None:
    with pytest.raises(ValueError, match="no depth"):
        run(GAME, games.new_state(GAME), room(), [])
