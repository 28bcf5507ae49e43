"""`check_game` catches a game that breaks a law, and says which, where and after which moves.

The game here has a fault for every law; fault 0 is none. Two players in turn add 1 or 2 to a sum; who reaches 10 or more
wins, unless the secret bits that both were dealt differ, which makes it a draw.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import games
from games import conformance, core, notation
from games.conformance_notation import PARSED, notation_fault
from games.core import GameSpec, State, Symmetry, register, rule
from games.kit.bits import set_bit
from games.kit.cells import Cell
from games.kit.randomness import mix64
from games.kit.svg import LINE, Canvas
from games.tic_tac_toe import TicTacToe


@register("faulty_sum")
class FaultySum(NamedTuple):
    """State (int64 [4]): sum, plies, secret bit of player 0, of player 1."""

    fault: int = 0

    def spec(self) -> GameSpec:
        cells = np.arange(4 if self.fault == 60 else 12, dtype=np.int32)
        if self.fault in {62, 64}:
            cells = cells[::-1].copy()
        same = Symmetry("same", cells, np.array([1, 0, 2] if self.fault == 61 else [0, 1, 2], dtype=np.int16))
        return GameSpec(
            name={80: "Faulty Sum", 81: "tic_tac_toe"}.get(self.fault, "faulty_sum"),
            rules_version=0 if self.fault == 82 else 1,
            num_players=2,
            num_actions=3,
            max_legal=1 if self.fault == 13 else 2,
            state_dtype=np.dtype(np.int64),
            state_size=4,
            planes=(2, 1, 12),
            max_plies=5 if self.fault == 24 else 10,
            action_cells=np.full((3, 3 if self.fault == 83 else 2), -2 if self.fault == 84 else 11, dtype=np.int16),
            counters=np.array([0, 1, 3 if self.fault == 85 else 2], dtype=np.int32 if self.fault == 86 else np.int16),
            symmetries=(same,) * (2 if self.fault == 64 else 1) if 60 <= self.fault < 70 else (),
            information="perfect" if 60 <= self.fault < 70 else "hidden",
        )

    def action_name(self, state: State, action: int) -> str:
        if self.fault == 71:
            state[0] += 1
        if self.fault == 76:
            return f"add {action}"
        return "x" if self.fault == 70 else str(action)

    def parse_action(self, state: State, text: str) -> int:
        if self.fault == 72:
            return int(text) if text.isdigit() else 1
        if self.fault == 79 and text == "1":
            return 2
        if self.fault == 73:
            return int(text)
        if self.fault == 74:
            raise games.IllegalMove("no")
        if self.fault == 78 and text in {"1", "2"}:  # also where the game is over
            return int(text)
        return notation.parse_listed(self, state, text)

    def draw(self, state: State) -> str:
        if self.fault == 75:
            return ""
        if self.fault == 10:
            raise RuntimeError("no pencil")
        if self.fault == 77:
            return None  # type: ignore[return-value]
        return f"sum {state[0]}"


@rule(FaultySum)
def reset(game: FaultySum, state: State, seed: int) -> None:
    if game.fault == 20:
        state[:3] = 0
        return
    state[:] = 0
    if game.fault < 60 or game.fault >= 70:
        state[2] = seed & 1
        state[3] = (seed >> 1) & 1
    if game.fault == 26:
        state[4] = 0
    if game.fault == 28:
        state[2] = np.random.randint(1 << 30)


@rule(FaultySum)
def to_move(game: FaultySum, state: State) -> int:
    if game.fault == 21:
        state[3] = 1 - state[3]
    if game.fault == 10:
        return 2
    return int(state[1] & 1)


@rule(FaultySum)
def legal_actions(game: FaultySum, state: State, out: np.ndarray) -> int:
    if is_over(game, state):
        return 1 if game.fault == 11 else 0
    if game.fault == 12 and state[0] == 3:
        return 0
    out[0] = 1
    out[1] = 2
    if game.fault == 14:
        out[0] = 2
        out[1] = 1
    if game.fault == 15:
        out[1] = 3
    if game.fault == 16:
        out[1] = 1
    if game.fault == 17:
        out[2] = 0
    return 2


@rule(FaultySum)
def play(game: FaultySum, state: State, action: int) -> None:
    state[0] += action
    state[1] += 1
    if game.fault == 22:
        state[4] = 1
    if game.fault == 23:
        state[3] = np.random.randint(2)


@rule(FaultySum)
def is_over(game: FaultySum, state: State) -> bool:
    return state[0] >= 10


@rule(FaultySum)
def scores(game: FaultySum, state: State, out: np.ndarray) -> None:
    out[:] = 0.0
    if state[2] == state[3]:
        last = int((state[1] + 1) & 1)
        out[last] = 2.0 if game.fault == 30 else 1.0
        out[1 - last] = 0.0 if game.fault == 31 else -1.0
    if game.fault == 32:
        out[0] = np.nan
    if game.fault == 33:
        out[2] = 0.0


@rule(FaultySum)
def encode(game: FaultySum, state: State, viewer: int, out: np.ndarray) -> None:
    if game.fault != 40:
        out[:] = 0
    set_bit(out, int(min(state[0], 11)))
    seat = 1 - viewer if game.fault == 41 else viewer
    if state[2 + seat]:
        set_bit(out, 12)
    if game.fault == 42:
        out[3] = 1
    if game.fault == 44:
        state[0] += 1


@rule(FaultySum)
def key(game: FaultySum, state: State) -> int:
    if game.fault == 50:
        return mix64(np.uint64(state[1]))
    if game.fault == 51:
        return mix64(np.uint64(np.random.randint(1 << 62)))  # so wide that no two positions share one by chance
    return mix64(np.uint64(state[0] * 64 + state[1] * 4 + state[2] * 2 + state[3]))


@rule(FaultySum)
def determinise(game: FaultySum, state: State, viewer: int, seed: int, out: State) -> None:
    out[:] = state
    out[3 - viewer] = seed & 1
    if game.fault == 43:
        out[1] += 1
    if game.fault == 45:
        out[2 + viewer] = 1 - out[2 + viewer]
    if game.fault == 46:
        out[4] = 0
    if game.fault == 47:
        out[0] += 20
    if game.fault == 48:
        out[3 - viewer] = state[3 - viewer] ^ (seed & 1)
    if game.fault == 49:
        out[3 - viewer] = state[3 - viewer]


@rule(FaultySum)
def standing(game: FaultySum, state: State, out: np.ndarray) -> None:
    out[:] = 1.5 if game.fault == 34 else 0.5
    if game.fault == 35:
        out[2] = 0.0


@rule(FaultySum)
def estimate(game: FaultySum, state: State, out: np.ndarray) -> None:
    out[0] = 0.25
    out[1] = 0.25 if game.fault == 36 else -0.25


@rule(FaultySum)
def repetition_key(game: FaultySum, state: State) -> int:
    if game.fault == 25:
        state[0] += 1
    return key(game, state)


@rule(FaultySum)
def move_value(game: FaultySum, state: State, action: int) -> float:
    return np.nan if game.fault == 27 else float(action)


@rule(FaultySum)
def may_end(game: FaultySum, state: State, plies: int) -> bool:
    if game.fault == 90:
        return plies == 2 and state[0] >= 6  # denies wins in one
    if game.fault == 91:
        return state[0] >= 8  # denies wins in two
    return state[0] + 2 * plies >= 10


def test_a_lawful_game_passes() -> None:
    games.check_game(FaultySum(), games=20)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (10, "to_move is 2; there are 2 players"),
        (11, "is_over is True, but 1 actions are listed"),
        (12, "is_over is False, but 0 actions are listed"),
        (13, "max_legal = 1"),
        (14, "the actions [2, 1] are not distinct and ascending"),
        (15, "the actions [1, 3] are not all in 0 .. 2"),
        (16, "the actions [1, 1] are not distinct and ascending"),
        (17, "wrote 2 actions into a buffer for max_legal = 2"),
        (20, "reset left entries unwritten"),
        (21, "to_move changed the state"),
        (22, "play wrote outside the state"),
        (23, "from the same position led to another state"),
        (24, "the game is not over after max_plies = 5 moves"),
        (25, "repetition_key changed the state"),
        (27, "move_value returned [nan, nan] for the actions [1, 2]"),
        (26, "reset wrote outside the state"),
        (28, "or draws chance from elsewhere than its seed"),
        (30, "2.0]"),
        (31, "do not sum to 0"),
        (32, "the scores are [nan"),
        (33, "scores wrote outside its output"),
        (34, "the standing is [1.5, 1.5]"),
        (36, "the estimate [0.25, 0.25] does not sum to 0"),
        (35, "standing wrote outside its output"),
        (40, "encode left bits of its output unwritten"),
        (41, "determinise for viewer=0 returned a position that this player sees differently"),
        (42, "encode wrote outside its 3 bytes"),
        (43, "determinise for viewer=0 changed whose turn it is"),
        (44, "encode changed the state"),
        (45, "sees differently"),
        (46, "determinise wrote outside its output"),
        (47, "or whether the game is over"),
        (48, "determinise for viewer=0 depends on what they cannot see"),
        pytest.param(49, "determinise returned the same position for every seed", marks=pytest.mark.slow),
        (50, "also belongs to a position with other planes"),
        (51, "when it was called again in the same position"),
        (60, "cells of the symmetry 'same' are not a permutation of 0 .. 11 in int32"),
        (61, "under 'same' the legal actions become [0, 2], but the image has [1, 2]"),
        (63, "the symmetry 'same' is the identity; leave it out"),
        (64, "the symmetries 'same' and 'same' are equal; leave one out"),
        (70, "the actions 1 and 2 are both written 'x'"),
        (71, "changed the state"),
        (72, "the text 'no such move!' was parsed as action 1"),
        (73, "raised ValueError"),
        (74, "action 1 is written '1', which is rejected: no"),
        (75, "draw returned an empty picture"),
        (76, "action 1 is written 'add 1'; expected text without space and comma, which separate moves"),
        (77, "draw returned None; expected text"),
        (78, "' was parsed as action "),
        (79, "action 1 is written '1', which is parsed as 2"),
        (80, "the name 'Faulty Sum' must consist of lower-case letters"),
        (81, "rejected its parameters as text"),
        (82, "spec().rules_version is 0; it must be between 1 and"),
        (83, "spec().action_cells is int16 (3, 3); it must be int16 (3, 2)"),
        (84, "spec().action_cells has entries outside -1 .. 11"),
        (85, "spec().counters has entries outside 0 .. 2"),
        (86, "spec().counters is int32 (3,); it must be int16 (3,)"),
        (90, "may_end denies that the game can end within 1 moves"),
        (91, "may_end denies that the game can end within 2 moves"),
    ],
)
@pytest.mark.parametrize("thorough", [False, True], ids=["quick", "thorough"])
def test_a_broken_law_is_named_by_both_forms(fault: int, said: str, thorough: bool) -> None:
    with pytest.raises(games.GameContractError) as refusal:
        games.check_game(FaultySum(fault), thorough=thorough)
    text = str(refusal.value)
    assert said in text
    law = int(text.partition("breaks law ")[2].partition(" ")[0])
    assert conformance.LAWS[law] in text


@pytest.mark.parametrize("count", [PARSED, PARSED + 1, 3_000])
def test_every_action_is_named_and_at_most_64_from_the_first_to_the_last_are_parsed(count: int) -> None:
    game = _ManyNames()
    assert notation_fault(game, np.zeros(1), range(count)) is None  # type: ignore[arg-type]
    assert game.named == list(range(count))
    parsed = [int(text) for text in game.parsed if text.isdigit()]
    assert len(parsed) == min(count, PARSED)
    assert (parsed[0], parsed[-1]) == (0, count - 1)
    assert max(np.diff(parsed)) - min(np.diff(parsed)) <= 1
    assert "no such move!" in game.parsed


def test_two_actions_of_one_name_are_a_fault_among_many_that_are_not_parsed() -> None:
    game = _ManyNames(names={1_000: "same", 2_001: "same"})
    fault = notation_fault(game, np.zeros(1), range(3_000))  # type: ignore[arg-type]
    assert fault == "the actions 1000 and 2001 are both written 'same'"


class _ManyNames:
    """Notation of a game with many actions, which records its calls."""

    def __init__(self, names: dict[int, str] | None = None) -> None:
        self.names = names or {}
        self.named: list[int] = []
        self.parsed: list[str] = []

    def action_name(self, state: State, action: int) -> str:
        self.named.append(action)
        return self.names.get(action, str(action))

    def parse_action(self, state: State, text: str) -> int:
        self.parsed.append(text)
        if not text.isdigit():
            raise games.IllegalMove(text)
        return int(text)

    def draw(self, state: State) -> str:
        return "board"


def test_the_error_shows_the_moves_and_the_picture() -> None:
    with pytest.raises(games.GameContractError) as refusal:
        games.check_game(FaultySum(12), games=30)
    text = str(refusal.value)
    assert text.startswith("FaultySum(fault=12) breaks law 1 of games.core: `legal_actions` is empty if and only if")
    assert "after the moves [" in text
    assert "from the start with seed" in text
    assert text.endswith("sum 3")


def test_a_game_that_cannot_be_drawn_is_still_reported() -> None:
    with pytest.raises(games.GameContractError, match=r"draw raised RuntimeError\('no pencil'\)"):
        games.check_game(FaultySum(10))


def test_a_missing_rule_is_named() -> None:
    class NoRules(NamedTuple):
        size: int = 1

        def spec(self) -> GameSpec:
            return FaultySum().spec()

    with pytest.raises(
        games.GameContractError, match=r"no rule for reset, to_move, .*, determinise; define it under @rule.NoRules."
    ):
        games.check_game(NoRules())  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["to_move", "legal_actions", "key"])
@pytest.mark.parametrize("answer", [None, 1.5])
def test_a_rule_that_returns_no_whole_number_is_named(name: str, answer: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(core._RULES[name], TicTacToe, lambda *arguments: answer)
    with pytest.raises(games.GameContractError, match=f"{name} returned {answer}; expected a whole number"):
        games.check_game(TicTacToe())


def test_a_key_that_differs_when_a_state_returns_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = itertools.count()
    monkeypatch.setitem(core._RULES["key"], TicTacToe, lambda game, state: next(calls) // 2)  # equal when called twice
    with pytest.raises(games.GameContractError, match=r"breaks law 5 (.*\n)*the key is \d+ now and was 0 for the same state"):
        games.check_game(TicTacToe())


@pytest.mark.parametrize("name", ["to_move", "legal_actions", "is_over", "round_of"])
def test_a_rule_with_two_answers_in_one_position_breaks_law_2(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = itertools.count()
    monkeypatch.setitem(core._RULES[name], TicTacToe, lambda *arguments: next(calls) % 2)
    with pytest.raises(
        games.GameContractError, match=rf"breaks law 2 (.*\n)*{name} returned .*, and .* when it was called again"
    ):
        games.check_game(TicTacToe())


def test_legal_actions_may_leave_anything_behind_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, rule_of = itertools.count(), core._RULES["legal_actions"][TicTacToe]

    def scribbling(game: TicTacToe, state: State, out: np.ndarray) -> int:
        out[:] = next(calls) % 1_000
        return int(rule_of(game, state, out))

    monkeypatch.setitem(core._RULES["legal_actions"], TicTacToe, scribbling)
    games.check_game(TicTacToe())


@pytest.mark.parametrize("name", ["scores", "encode"])
def test_a_rule_that_writes_two_results_in_one_position_breaks_law_2(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = itertools.count()

    def written(game: TicTacToe, state: State, *others: Any) -> None:
        others[-1][:] = 0
        others[-1][0] = next(calls) % 2

    monkeypatch.setitem(core._RULES[name], TicTacToe, written)
    with pytest.raises(games.GameContractError, match=rf"breaks law 2 (.*\n)*{name} wrote .*, and .* when it was called again"):
        games.check_game(TicTacToe())


@pytest.mark.parametrize(
    ("name", "method", "said"),
    [
        ("draw_svg", lambda game, state: "a board", "the picture is 'a board'; expected an SVG document"),
        ("cells", lambda game, state: (Cell("a1", 9.0, 9.0, 5.0),) * 2, "two cells have one id: ['a1', 'a1']"),
        ("cells", lambda game, state: (Cell("a1", 9.0, 9.0, 5.0),), "of action 0 has cells besides ['a1']"),
        ("action_path", lambda game, state, action: ("a1",), "the actions 0 and 1 have one path, ('a1',)"),
        (
            "action_path",
            lambda game, state, action: ("a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "c3")[: action + 1],
            "begins with ('a1',), that of action 0",
        ),
    ],
)
def test_a_fault_of_the_picture_breaks_law_12(
    name: str, method: Callable[..., object], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TicTacToe, name, method)
    with pytest.raises(games.GameContractError, match=f"breaks law 12 (.*\\n)*.*{re.escape(said)}"):
        games.check_game(TicTacToe())


def test_a_shape_without_a_place_is_named_by_the_line_that_draws_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for place, reason in ((None, "must be real number, not NoneType"), (float("nan"), "a shape has the coordinate nan")):
        monkeypatch.setattr(
            FaultySum, "draw_svg", lambda game, state, x=place: Canvas(9.0, 9.0).circle(x, 1.0, 1.0, fill=LINE), raising=False
        )
        with pytest.raises(games.GameContractError, match=rf"breaks law 11 (.*\n)*.* raised \w+: {reason}"):
            games.check_game(FaultySum(62))


def test_a_symmetry_that_changes_the_start_is_named_as_checked_in_form_alone() -> None:
    checked = games.check_game(FaultySum(62), games=2)
    assert (checked.symmetries_followed, checked.symmetries_unfollowed) == (0, ("same",))
    assert "symmetries that change the starting position, checked in form alone: same" in str(checked)


def test_the_laws_match_the_docstring_of_the_contract() -> None:
    contract = " ".join((core.__doc__ or "").split())
    for number, law in conformance.LAWS.items():
        assert f"{number}. {law}" in contract
