"""Quick and thorough form of `check_game`: games, positions, progress and summary.

In the game here two players each add 1 or 2 for 500 plies; the larger sum wins. Fault 0 is none. The deal, of no effect
on the game, lets a fault appear in few games.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import games
from games import core, laws, notation
from games.conformance import QUICK_GAMES, QUICK_POSITIONS, THOROUGH_GAMES, Progress
from games.core import GameSpec, State, register, rule
from games.kit.randomness import mix64

PLIES = 500


@register("long_sum")
class LongSum(NamedTuple):
    """State (int64 [4]): plies, sum of player 0, of player 1, deal."""

    fault: int = 0
    plies: int = PLIES

    def spec(self) -> GameSpec:
        return GameSpec(
            name="long_sum",
            rules_version=1,
            num_players=2,
            num_actions=2,
            max_legal=2,
            state_dtype=np.dtype(np.int64),
            state_size=4,
            planes=(40, 1, 1),
            max_plies=self.plies,
        )

    def action_name(self, state: State, action: int) -> str:
        return str(action + 1)

    def parse_action(self, state: State, text: str) -> int:
        return notation.parse_listed(self, state, text)

    def draw(self, state: State) -> str:
        return f"{state[1]} to {state[2]}"


@rule(LongSum)
def reset(game: LongSum, state: State, seed: int) -> None:
    state[0] = state[1] = state[2] = 0
    state[3] = seed % 32


@rule(LongSum)
def to_move(game: LongSum, state: State) -> int:
    return state[0] & 1


@rule(LongSum)
def legal_actions(game: LongSum, state: State, out: np.ndarray) -> int:
    if is_over(game, state):
        return 0
    out[0] = 0
    out[1] = 1
    return 2


@rule(LongSum)
def play(game: LongSum, state: State, action: int) -> None:
    state[1 + (state[0] & 1)] += 1 + action
    state[0] += 1


@rule(LongSum)
def is_over(game: LongSum, state: State) -> bool:
    return state[0] >= game.plies


@rule(LongSum)
def scores(game: LongSum, state: State, out: np.ndarray) -> None:
    out[0] = np.sign(state[1] - state[2])
    out[1] = -out[0]
    if game.fault == 1 or (game.fault == 2 and state[3] == 9):
        out[0] = 2.0


@rule(LongSum)
def encode(game: LongSum, state: State, viewer: int, out: np.ndarray) -> None:
    out[0] = state[0] & 255
    out[1] = (state[0] >> 8) & 255
    out[2] = state[1 + viewer] & 255
    out[3] = state[2 - viewer] & 255
    out[4] = state[3]


@rule(LongSum)
def key(game: LongSum, state: State) -> int:
    return mix64(np.uint64((((state[0] << 12) + state[1]) << 24) + (state[2] << 8) + state[3]))


@pytest.mark.slow
def test_the_quick_form_plays_five_games_of_a_long_game_to_the_end() -> None:
    checked = games.check_game(LongSum())
    assert checked.games == QUICK_GAMES
    assert checked.positions == QUICK_GAMES * (PLIES + 1) > QUICK_POSITIONS
    assert checked.rules["scores"] >= QUICK_GAMES


@pytest.mark.slow
def test_the_quick_form_stops_after_its_positions_and_the_thorough_one_after_its_games() -> None:
    quick = games.check_game(LongSum(plies=40))
    assert quick.positions - 41 < QUICK_POSITIONS <= quick.positions
    assert quick.games < games.check_game(LongSum(plies=40), thorough=True).games == THOROUGH_GAMES


@pytest.mark.slow
def test_the_quick_form_finds_a_fault_in_the_last_position_of_a_long_game() -> None:
    with pytest.raises(games.GameContractError, match=r"the scores are \[2.0"):
        games.check_game(LongSum(1))


@pytest.mark.slow
def test_a_fault_of_few_deals_needs_the_thorough_form() -> None:
    game = LongSum(2, plies=400)
    assert games.check_game(game, seed=1).games == QUICK_GAMES
    with pytest.raises(games.GameContractError, match=r"the scores are \[2.0"):
        games.check_game(game, seed=1, thorough=True)


def test_the_same_seed_plays_the_same_games() -> None:
    def fault(seed: int) -> str:
        with pytest.raises(games.GameContractError) as refusal:
            games.check_game(LongSum(1, plies=10), seed=seed)
        return str(refusal.value)

    assert fault(3) == fault(3) != fault(4)


def test_the_games_of_the_quick_form_are_the_first_of_the_thorough_one() -> None:
    def fault(*, thorough: bool) -> str:
        with pytest.raises(games.GameContractError) as refusal:
            games.check_game(LongSum(2, plies=4), thorough=thorough)
        return str(refusal.value)

    assert fault(thorough=False) == fault(thorough=True)


@pytest.mark.parametrize("number", [0, -3])
def test_a_check_of_no_game_is_refused(number: int) -> None:
    with pytest.raises(games.GameError, match=f"games={number}: a check needs at least one game"):
        games.check_game(LongSum(plies=4), games=number)


def test_progress_names_each_rule_on_its_first_call_and_then_the_games_done() -> None:
    told: list[Progress] = []
    checked = games.check_game(LongSum(plies=4), games=3, progress=told.append)
    assert {one.rule for one in told if one.is_first_call} == set(checked.rules) == {*laws.REQUIRED_RULES, "round_of"}
    assert sum(one.is_first_call for one in told) == len(checked.rules)
    assert [one.positions for one in told] == sorted(one.positions for one in told)
    assert all(one.games_limit == 3 for one in told)
    assert str(told[0]) == "0 of at most 3 games, 0 positions, 0 s of processor time: first call of reset"


def test_progress_goes_on_between_first_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("games.conformance_record.PROGRESS_INTERVAL_S", 0.0)
    told: list[Progress] = []
    checked = games.check_game(LongSum(plies=4), games=3, progress=told.append)
    assert len(told) == sum(checked.rules.values())
    assert {one.games for one in told} == {0, 1, 2}


def test_the_summary_states_games_positions_and_calls() -> None:
    checked = games.check_game(LongSum(plies=4), games=3, seed=7)
    assert (checked.games, checked.positions, checked.seed) == (3, 15, 7)
    assert checked.rules["key"] == 15
    assert "in 3 complete games, 15 positions, seed 7" in str(checked)
    assert "key 15" in str(checked)


def test_required_and_optional_rules_are_those_of_the_contract() -> None:
    assert {*laws.REQUIRED_RULES, "determinise", *laws.OPTIONAL_RULES} == set(core._RULES)
