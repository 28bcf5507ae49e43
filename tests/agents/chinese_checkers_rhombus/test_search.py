"""The search: every switch that may not change the value leaves it alone, and plain Python finds the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import games
from games import core
from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from zerofleet.agents.by_game.rhombus.evaluation import WIN
from zerofleet.agents.by_game.rhombus.root import Found, run
from zerofleet.agents.by_game.rhombus.work import Work
from zerofleet.cli.bench.rhombus_plain import plain_score, read_plain

GAME = ChineseCheckersRhombus()
MINIMAX = {"algorithm": "minimax", "table": "off", "history": "off", "order": "listed"}
ALGORITHMS = [
    {**MINIMAX, "algorithm": "alpha_beta"},
    {**MINIMAX, "algorithm": "negascout"},
    {**MINIMAX, "algorithm": "negascout", "table": "on", "keying": "exact"},
    {"keying": "exact", "exponent": "next"},
    {"keying": "exact", "generation": "channels"},
    {"algorithm": "minimax", "keying": "exact", "history": "off"},
]
ALMOST = "h6 g7 f8 e9 i6 h7 g8 f9 i7 h8"  # goal of player 0, but for a few

Room = Callable[..., Work]
Place = Callable[..., np.ndarray]


def values(work: Work, states: np.ndarray, *depths: int, game: ChineseCheckersRhombus = GAME) -> list[int]:
    return [run(game, state, work, depths).score for state in states]


def late(positions: np.ndarray, left: int) -> np.ndarray:
    """The same positions with so many plies left until the game is broken off."""
    found = positions.copy()
    found[:, 0] = (found[:, 0] & np.uint64(1)) + np.uint64(GAME.ply_cap - left - left % 2)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_all_algorithms_find_the_value_of_minimax(depth: int, room: Room, positions: np.ndarray) -> None:
    wanted = values(room(**MINIMAX), positions, depth)
    assert len(set(wanted)) > 100
    for options in ALGORITHMS:
        assert values(room(**options), positions, depth) == wanted, options


@pytest.mark.slow
def test_all_algorithms_find_the_value_of_minimax_four_plies_deep(room: Room, positions: np.ndarray) -> None:
    wanted = values(room(**MINIMAX), positions[:10], 4)
    for options in ALGORITHMS[:-1]:
        assert values(room(**options), positions[:10], 4) == wanted
        assert values(room(**options), positions[:10], 2, 4) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("left", [2, 3, 4])
def test_all_algorithms_agree_near_the_ply_cap(left: int, room: Room, positions: np.ndarray) -> None:
    states = late(positions[:12], left)
    wanted = values(room(**MINIMAX), states, 3)
    for options in ALGORITHMS:
        assert values(room(**options), states, 3) == wanted
        assert values(room(**options), states, 1, 2, 3) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"moves": "net"}, {"moves": "mono"}, {"top": 6}, {"evaluation": "linear"}])
def test_all_algorithms_agree_with_fewer_moves_and_another_evaluation(
    options: dict[str, object], room: Room, positions: np.ndarray
) -> None:
    states = positions[: 4 if "evaluation" in options else 60]
    wanted = values(room(**MINIMAX, **options), states, 3)
    for switches in ALGORITHMS:
        assert values(room(**{**switches, **options}), states, 3) == wanted


@pytest.mark.slow
def test_all_algorithms_agree_under_repetition_rules(room: Room, positions: np.ndarray) -> None:
    game = ChineseCheckersRhombus(repetitions=2, remembered=8)
    rng, states = np.random.default_rng(4), []
    while len(states) < 30:
        state = games.new_state(game)
        for _ in range(rng.integers(4, 12)):
            choices = games.legal(game, state)
            back = [a for a in choices if core.move_value(game, state, a) < 0] or choices
            core.play(game, state, int(rng.choice(back)))
            if core.is_over(game, state):
                break
        else:
            states.append(state)
    wanted = values(room(game=game, **MINIMAX), states, 3, game=game)
    for switches in ALGORITHMS:
        assert values(room(game=game, **switches), states, 3, game=game) == wanted


@pytest.mark.slow
def test_plain_python_and_compiled_search_find_the_same_values(room: Room, positions: np.ndarray) -> None:
    few = [*positions[:4], *late(positions[12:13], 2)]
    for depth, states in ((1, [*positions[:30], *late(positions[60:70], 1)]), (2, few)):
        wanted = [plain_score(read_plain(state), depth)[0] for state in states]
        assert values(room(), np.array(states), depth) == wanted
    state = positions[0]
    assert run(GAME, state, room(**MINIMAX), [2]).nodes == plain_score(read_plain(state), 2)[1]


@pytest.mark.slow
def test_nodes_do_not_depend_on_the_generator(room: Room, positions: np.ndarray) -> None:
    for moves in ("full", "mono"):
        counts = [
            [run(GAME, state, room(moves=moves, generation=name), [4]).nodes for state in positions[:6]]
            for name in ("flood", "fresh", "upward", "channels")
        ]
        assert counts == [counts[0]] * 4


def test_each_switch_saves_nodes(room: Room, positions: np.ndarray) -> None:
    def nodes(**options: object) -> int:
        work = room(**options)
        return sum(run(GAME, state, work, [3]).nodes for state in positions[:20])

    plain = nodes(**MINIMAX)
    listed = nodes(**{**MINIMAX, "algorithm": "alpha_beta"})
    sorted_by_gain = nodes(**{**MINIMAX, "algorithm": "alpha_beta", "order": "gain"})
    assert plain > 5 * listed > 5 * sorted_by_gain


def best(found: Found, state: np.ndarray) -> set[str]:
    return {GAME.action_name(state, int(action)) for action in found.actions}


FAR = "a1 b1 c1 d1 a2 b2 c2 a3 d4 d5"  # the other side, two steps from winning at least
SHORT = "f9 g8 g9 h7 h8 h9 i7 i8 i9"  # nine in the goal; i6 is left


def test_wins_are_found_at_any_distance_and_quicker_wins_score_higher(room: Room, place: Place) -> None:
    at_once, in_two = place(f"{SHORT} h6", FAR), place(f"{SHORT} g6", FAR)
    assert {run(GAME, at_once, room(), [depth]).score for depth in (1, 2, 3, 4)} == {WIN - 1}
    assert best(run(GAME, at_once, room(), [2, 4]), at_once) == {"h6-i6"}
    assert run(GAME, in_two, room(), [3]).score == run(GAME, in_two, room(), [2, 4]).score == WIN - 3
    lost = place(f"{SHORT} h6", FAR, mover=1)
    assert run(GAME, lost, room(), [2]).score == run(GAME, lost, room(), [3]).score == 2 - WIN


def test_a_goal_with_a_parked_piece_can_be_won(room: Room, place: Place) -> None:
    # all cells of the goal are taken but i6, one of them by the other side; h6-i6 fills it
    state = place("f9 g8 g9 h7 h8 h9 i7 i8 h6 a9", "i9 a1 b1 c1 d1 a2 b2 c2 a3 b3")
    found = run(GAME, state, room(), [2])
    assert (found.score, best(found, state)) == (WIN - 1, {"h6-i6"})


def test_searches_sharing_buffers_are_independent(room: Room, positions: np.ndarray) -> None:
    shared = room(bits=8)
    for state in positions[:20]:
        alone, again = run(GAME, state, room(bits=8), [2, 3]), run(GAME, state, shared, [2, 3])
        assert (alone.score, alone.nodes, alone.actions.tolist()) == (again.score, again.nodes, again.actions.tolist())


@pytest.mark.slow
def test_random_ties_are_exactly_the_best_moves(room: Room, positions: np.ndarray) -> None:
    ties = 0
    for state in positions[:40]:
        plain = room(**MINIMAX)
        found = run(GAME, state, room(keying="exact"), [2, 3])
        wanted = run(GAME, state, plain, [3])
        assert found.actions.tolist() == wanted.actions.tolist()
        fixed = run(GAME, state, room(keying="exact", ties="fixed"), [2, 3])
        assert len(fixed.actions) == 1
        assert fixed.actions[0] in wanted.actions
        ties += len(wanted.actions) > 1
    assert ties > 5
