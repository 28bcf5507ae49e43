"""The shortest way home: its length is that of a breadth-first search, and every move of it is legal."""

import numpy as np
import pytest

from games import core, positions
from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from games.chinese_checkers.rhombus.board import words_of
from zerofleet.agents import make_agent
from zerofleet.agents.budget import Budget
from zerofleet.agents.by_game.rhombus import RhombusSearchAgent, SearchOptions
from zerofleet.agents.by_game.rhombus.homing import have_passed, shortest_way
from zerofleet.agents.by_game.rhombus.root import run

GAME = ChineseCheckersRhombus()
GOAL = [r * 9 + c for r in range(9) for c in range(9) if r + c >= 13]
FULL = words_of(GOAL)
HOME = [80 - cell for cell in GOAL]
AWAY = [*HOME[:9], 9 * 4 + 1]  # the other side, all but home, behind every piece of the mover; it cannot win in between


def placed(mine, other=AWAY, *, mover=0):
    """A position by the cells of both sides in the mover's view, with the mover to play."""
    sides = [mine, other] if mover == 0 else [[80 - cell for cell in other], [80 - cell for cell in mine]]
    state = positions.new_state(GAME)
    state[0], state[1:5] = mover, [*words_of(sides[0]), *words_of(sides[1])]
    return state


def alone(state, action):
    """The position after an action, with the same player to move."""
    after, mover = state.copy(), int(core.to_move(GAME, state))
    core.play(GAME, after, action)
    after[0] = mover
    return after


def is_home(state):
    return (int(state[1]), int(state[2])) == FULL


def fewest_moves(state):
    """The length of a shortest way, by breadth-first search over every legal move."""
    layer, seen, length = [state], {state.tobytes()}, 0
    if is_home(state):
        return 0
    while True:
        following = []
        for one in layer:
            for action in positions.legal(GAME, one):
                after = alone(one, action)
                if is_home(after):
                    return length + 1
                if (key := after.tobytes()) not in seen:
                    seen.add(key)
                    following.append(after)
        layer, length = following, length + 1


def scrambled(seed, moves):
    """A full goal after some random moves, without the other side in the way."""
    rng, state = np.random.default_rng(seed), placed(GOAL)
    state[1:3] = words_of(GOAL)
    for _ in range(moves):
        for _ in range(50):
            start = int(
                rng.choice([cell for cell in range(81) if state[1 + (cell & 1)] >> np.uint64(cell >> 1) & np.uint64(1)])
            )
            step = int(rng.choice([-9, -1, 8, -8, -18, -2]))
            target = start + step
            free = 0 <= target < 81 and abs(target % 9 - start % 9) <= 2 and target // 9 + target % 9 > 8
            if free and not state[1 + (target & 1)] >> np.uint64(target >> 1) & np.uint64(1):
                state[1 + (start & 1)] ^= np.uint64(1 << (start >> 1))
                state[1 + (target & 1)] ^= np.uint64(1 << (target >> 1))
                break
    return state


@pytest.mark.parametrize("seed", range(8))
def test_the_way_is_as_short_as_that_of_a_breadth_first_search(seed):
    state = scrambled(seed, 2)
    assert have_passed(GAME, state)
    if is_home(state):
        state = scrambled(seed + 100, 1)
    way = shortest_way(GAME, state, most_nodes=100_000)
    assert way is not None
    assert len(way.moves) == fewest_moves(state)
    for action in way.moves:
        assert action in positions.legal(GAME, state)
        state = alone(state, action)
    assert is_home(state)


def test_a_way_may_need_more_moves_than_pieces_are_outside():
    """One piece is three levels short of the last hole, with nothing to hop over: three steps."""
    last = 9 * 5 + 8  # level 13, at the side
    mine = [*(cell for cell in GOAL if cell != last), 9 * 2 + 8]
    way = shortest_way(GAME, placed(mine), most_nodes=100_000)
    assert way is not None
    assert len(way.moves) == fewest_moves(placed(mine)) > 1


def test_both_players_find_the_same_way():
    first = scrambled(5, 3)
    mine = [cell for cell in range(81) if first[1 + (cell & 1)] >> np.uint64(cell >> 1) & np.uint64(1)]
    ways = [shortest_way(GAME, placed(mine, mover=mover), most_nodes=100_000) for mover in range(2)]
    assert ways[0] == ways[1]


def test_a_search_without_enough_nodes_finds_nothing():
    assert shortest_way(GAME, scrambled(2, 3), most_nodes=1) is None


class TickingClock:
    """A clock on which each look takes a millisecond."""

    def __init__(self):
        self.looks = 0

    def __call__(self):
        self.looks += 1
        return self.looks / 1000


def test_a_search_whose_time_is_over_finds_nothing():
    clock = TickingClock()
    state = scrambled(2, 3)
    assert shortest_way(GAME, state, most_nodes=100_000, ends_s=0.003, clock=clock) is None
    assert clock.looks == 3
    way = shortest_way(GAME, state, most_nodes=100_000, ends_s=60.0, clock=clock)
    assert way == shortest_way(GAME, state, most_nodes=100_000)


def test_the_exact_endgame_keeps_the_time_budget_and_leaves_half_of_it_to_the_search(monkeypatch):
    agent = RhombusSearchAgent(GAME, Budget(6, "ms"), SearchOptions(endgame="exact"), clock=TickingClock())
    limits = []

    def recording(*given, time_s):
        limits.append(time_s)
        return run(*given, time_s=time_s)

    monkeypatch.setattr("zerofleet.agents.by_game.rhombus.agent.run", recording)
    agent.choose(GAME, scrambled(2, 3), np.random.default_rng(1))
    assert limits == [pytest.approx(0.002)]  # the exact search ended at its third look, and a fourth told its time


def test_armies_that_have_not_passed_are_left_to_the_search():
    start = positions.new_state(GAME)
    assert not have_passed(GAME, start)
    rng = np.random.default_rng(1)
    exact, usual = (
        make_agent("rhombus_search:1,endgame=exact,ties=fixed", GAME),
        make_agent("rhombus_search:1,ties=fixed", GAME),
    )
    assert exact.choose(GAME, start, rng) == usual.choose(GAME, start, rng)


def test_the_agent_goes_home_in_the_fewest_moves():
    agent, rng, state = make_agent("rhombus_search:1,endgame=exact", GAME), np.random.default_rng(1), scrambled(5, 3)
    fewest = fewest_moves(state)
    for _ in range(fewest):
        assert not is_home(state)
        state = alone(state, agent.choose(GAME, state, rng).action)
    assert is_home(state)
