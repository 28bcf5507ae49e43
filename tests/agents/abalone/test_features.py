"""What the Abalone players see at first sight, against a second count: cube coordinates in sets, one marble after the other."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from games import core
from games.abalone import Abalone, bitboard
from games.core import State
from zerofleet.agents.by_game.abalone.evaluation import EVALUATIONS, evaluate, evaluation
from zerofleet.agents.by_game.abalone.features import FEATURES, REFERENCE_UNIT, feature

Cube = tuple[int, int, int]
Marbles = set[Cube]
STEPS = [(1, -1, 0), (1, 0, -1), (0, 1, -1), (-1, 1, 0), (-1, 0, 1), (0, -1, 1)]
BOARD = {(q, r, -q - r) for q in range(-4, 5) for r in range(-4, 5) if abs(q + r) <= 4}
WORDS = {cell: bitboard.word("ABCDEFGHI"[4 - cell[1]] + str(cell[0] + 5)) for cell in BOARD}


def marbles_of(word: np.uint64) -> Marbles:
    return {cell for cell, bit in WORDS.items() if int(word) & bit}


def plus(cell: Cube, step: Cube, times: int = 1) -> Cube:
    return cell[0] + times * step[0], cell[1] + times * step[1], cell[2] + times * step[2]


def around(cell: Cube) -> list[Cube]:
    return [plus(cell, step) for step in STEPS]


def distance(cell: Cube) -> int:
    return max(map(abs, cell))


def on_rim(cells: Marbles) -> Marbles:
    return {cell for cell in cells if not BOARD.issuperset(around(cell))}


def neighbours(mine: Marbles, other: Marbles) -> int:
    return sum(near in mine for cell in mine for near in around(cell))


def coherence(mine: Marbles, other: Marbles) -> int:
    seconds = sum(plus(cell, step) in mine and plus(cell, step, 2) in mine for cell in mine for step in STEPS)
    return neighbours(mine, other) + seconds


def formation_break(mine: Marbles, other: Marbles) -> int:
    return sum(any(plus(cell, step) in other and plus(cell, step, -1) in other for step in STEPS) for cell in mine)


def immediate_danger(mine: Marbles, other: Marbles) -> int:
    return sum(any(_falls(cell, step, mine, other) for step in STEPS) for cell in mine)


def _falls(cell: Cube, step: Cube, mine: Marbles, other: Marbles) -> bool:
    behind = "".join("o" if at in other else "m" if at in mine else "." for at in (plus(cell, step, -i) for i in range(1, 5)))
    return plus(cell, step) not in BOARD and (behind.startswith("oo") or behind == "mooo")


def single_danger(mine: Marbles, other: Marbles) -> int:
    return sum(near in other for cell in on_rim(mine) for near in around(cell))


def double_danger(mine: Marbles, other: Marbles) -> int:
    pairs = {cell for cell in on_rim(mine) if any(near in on_rim(mine) for near in around(cell))}
    return sum(near in other for cell in pairs for near in around(cell))


def reference_distance(mine: Marbles, other: Marbles) -> int:
    point = [
        sum(3 * Fraction(sum(cell[axis] for cell in side), max(1, len(side))) for side in (mine, other)) / 7
        for axis in range(3)
    ]
    exact = sum(max(abs(cell[axis] - point[axis]) for axis in range(3)) for cell in mine) * REFERENCE_UNIT
    assert exact.denominator == 1
    return exact.numerator


PLAIN: dict[str, Callable[[Marbles, Marbles], int]] = {
    "neighbours": neighbours,
    "centre_distance": lambda mine, other: sum(map(distance, mine)),
    "marbles": lambda mine, other: len(mine),
    "coherence": coherence,
    "formation_break": formation_break,
    "immediate_danger": immediate_danger,
    "single_danger": single_danger,
    "double_danger": double_danger,
    "reference_distance": reference_distance,
}


def lead(name: str, state: State) -> int:
    return feature(FEATURES.index(name), state[0], state[1])


def scattered(rng: np.random.Generator) -> State:
    """1 to 14 marbles each anywhere on the board."""
    cells = list(WORDS.values())
    first, second = rng.integers(1, 15, size=2)
    order = rng.permutation(len(cells))
    words = (sum(cells[i] for i in order[:first]), sum(cells[i] for i in order[first : first + second]))
    return np.array([*words, 0], dtype=np.uint64)


@pytest.mark.parametrize("name", FEATURES)
def test_every_feature_equals_a_plain_count(name: str, battles: list[State]) -> None:
    rng = np.random.default_rng(2)
    found = set()
    for state in [*battles, *(scattered(rng) for _ in range(100))]:
        mine, other = marbles_of(state[0]), marbles_of(state[1])
        assert lead(name, state) == PLAIN[name](mine, other) - PLAIN[name](other, mine)
        found.add(lead(name, state))
    assert len(found) > 3, "the positions say nothing about the feature"


@pytest.mark.parametrize(
    ("name", "mine", "other", "wanted"),
    [
        ("neighbours", "D4 E5", "A1", 2),  # a pair counts twice
        ("neighbours", "E4 E5 E6", "A1", 4),
        ("neighbours", "E4 E5 F5", "A1", 6),  # a triangle
        ("centre_distance", "E5 A1 I9 B2", "E4", 0 + 4 + 4 + 3),
        ("marbles", "A1 A2 A3", "I9", 3),
        ("coherence", "E4 E5", "A1", 2),
        ("coherence", "E4 E5 E6", "A1", 4 + 2),  # both ends see a second one behind the first
        ("coherence", "E4 E5 F5", "A1", 6),  # no line of three
        ("coherence", "E4 E5 E7", "A1", 2),  # a gap
        ("formation_break", "E5", "E4 E6", 1),
        ("formation_break", "E5", "E4 E6 D4 F6", 1),  # between theirs on two lines: one marble
        ("formation_break", "E5", "E4 F6", 0),  # not on one line
        ("formation_break", "E5 F6", "E4 E6 F5 F7", 2),
        ("immediate_danger", "E1", "E2 E3", 1),
        ("immediate_danger", "E1", "E2", 0),  # one cannot push one
        ("immediate_danger", "E1 E2", "E3 E4 E5", 1),  # three push two: one falls
        ("immediate_danger", "E1 E2", "E3 E4", 0),
        ("immediate_danger", "E2", "E3 E4 E5", 0),  # room behind it
        ("immediate_danger", "A1", "B2 C3 A2 A3", 1),  # from two sides: one marble
        ("single_danger", "E1", "E2 D1 F2", 3),
        ("single_danger", "E2", "E3 D2", 0),  # not on the rim
        ("single_danger", "E1 D1", "E2", 2),  # both touch it
        ("double_danger", "E1", "E2 D1 F2", 0),  # alone on the rim
        ("double_danger", "E1 D1", "E2 F2", 3),  # E1 touches both, D1 one
        ("double_danger", "E1 E2", "D1 F2", 0),  # its companion is not on the rim
    ],
)
def test_features_of_handmade_positions_have_known_values(
    name: str, mine: str, other: str, wanted: int, at: Callable[..., State]
) -> None:
    state = at(mine, other)
    assert PLAIN[name](marbles_of(state[0]), marbles_of(state[1])) == wanted
    assert lead(name, state) == wanted - PLAIN[name](marbles_of(state[1]), marbles_of(state[0]))


def test_the_reference_point_lies_between_the_players_and_the_middle(at: Callable[..., State]) -> None:
    state = at("E9", "E2")  # masses at 4 and -3 steps from the middle: the point is 3/7 of a step from it
    assert lead("reference_distance", state) * 7 == REFERENCE_UNIT * ((4 * 7 - 3) - (3 * 7 + 3))


def test_weights_are_those_of_the_sources(battles: list[State]) -> None:
    wanted = {
        "simple": {"neighbours": 1.0, "centre_distance": -1.5, "marbles": 100.0},
        "strong": {
            "coherence": 3.0,
            "centre_distance": -8.0,
            "formation_break": 10.0,
            "marbles": 800.0,
            "single_danger": -30.0,
            "double_danger": -50.0,
        },
        "centre_of_mass": {"reference_distance": -1.0, "marbles": 100.0},
    }
    for name in EVALUATIONS:
        chosen = evaluation(name)
        for state in battles:
            worth = sum(
                weight * lead(kind, state) / (REFERENCE_UNIT if kind == "reference_distance" else 1)
                for kind, weight in wanted[name].items()
            )
            assert evaluate(chosen.weights, state[0], state[1]) == pytest.approx(worth * chosen.scale)


def test_the_estimate_of_the_rules_is_the_simple_evaluation(battles: list[State]) -> None:
    simple, out = evaluation("simple"), np.empty(2, dtype=np.float32)
    for captures in (6, 14):
        for state in battles:
            core.estimate(Abalone(captures=captures), state, out)
            worth = evaluate(simple.weights, state[0], state[1]) / simple.scale
            assert out.tolist() == pytest.approx([worth / (100 * (captures + 1)), -worth / (100 * (captures + 1))], abs=1e-6)


def test_evaluations_are_antisymmetric(battles: list[State]) -> None:
    for name in EVALUATIONS:
        weights = evaluation(name).weights
        for state in battles:
            assert evaluate(weights, state[0], state[1]) == -evaluate(weights, state[1], state[0])
