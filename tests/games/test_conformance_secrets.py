"""`check_game` catches a game of simultaneous choices that lets one of them show.

In the game here two players choose 0 or 1 in secret, three times; an odd sum is a point for player 0. Fault 0 is none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import games
from games import conformance, notation
from games.core import GameSpec, State, register, rule
from games.kit.randomness import mix64


@register("faulty_round")
class FaultyRound(NamedTuple):
    """State (int64 [4]): rounds ended, points of player 0, seat that chooses first, 1 + choice made in this round or 0."""

    fault: int = 0

    def spec(self) -> GameSpec:
        return GameSpec(
            name="faulty_round",
            rules_version=1,
            num_players=2,
            num_actions=2,
            max_legal=2,
            state_dtype=np.dtype(np.int64),
            state_size=4,
            planes=(8, 1, 1),
            max_plies=6,
            information="simultaneous",
        )

    def action_name(self, state: State, action: int) -> str:
        return str(action)

    def parse_action(self, state: State, text: str) -> int:
        return notation.parse_listed(self, state, text)

    def draw(self, state: State) -> str:
        return f"round {state[0]}"


@rule(FaultyRound)
def reset(game: FaultyRound, state: State, seed: int) -> None:
    state[:] = 0


@rule(FaultyRound)
def to_move(game: FaultyRound, state: State) -> int:
    return state[2] if state[3] == 0 else 1 - state[2]


@rule(FaultyRound)
def legal_actions(game: FaultyRound, state: State, out: np.ndarray) -> int:
    if state[0] == 3:
        return 0
    out[0] = 0
    out[1] = 1
    return 1 if game.fault == 1 and state[3] == 1 else 2


@rule(FaultyRound)
def play(game: FaultyRound, state: State, action: int) -> None:
    if state[3] == 0:
        state[3] = 1 + action
        return
    state[1] += (state[3] - 1 + action) & 1
    state[0] += 1
    state[3] = 0


@rule(FaultyRound)
def is_over(game: FaultyRound, state: State) -> bool:
    return state[0] == 3


@rule(FaultyRound)
def scores(game: FaultyRound, state: State, out: np.ndarray) -> None:
    out[0] = (2.0 * state[1] - 3.0) / 3.0
    out[1] = -out[0]


@rule(FaultyRound)
def encode(game: FaultyRound, state: State, viewer: int, out: np.ndarray) -> None:
    out[0] = state[0] + 4 * state[1] + 16 * viewer
    if game.fault == 2 and state[3] == 2:
        out[0] += 32


@rule(FaultyRound)
def key(game: FaultyRound, state: State) -> int:
    return mix64(np.uint64(state[0] + 4 * state[1] + 16 * state[2] + 32 * state[3]))


@rule(FaultyRound)
def round_of(game: FaultyRound, state: State) -> int:
    return -1 if game.fault == 9 else state[0]


@rule(FaultyRound)
def determinise(game: FaultyRound, state: State, viewer: int, seed: int, out: State) -> None:
    out[:] = state
    out[2] = viewer
    out[3] = 0
    if game.fault == 3 and to_move(game, state) == viewer and state[3] > 0:
        out[2] = 1 - viewer
        out[3] = state[3]


@rule(FaultyRound)
def foresee(game: FaultyRound, state: State, viewer: int, likelihood: np.ndarray, plays: np.ndarray) -> None:
    plays[0] = np.argmax(likelihood)
    if game.fault == 4:
        plays[0] = 2
    if game.fault == 5 and state[3] > 0:
        plays[0] = state[3] - 1
    if game.fault == 6:
        plays[1] = 0


@rule(FaultyRound)
def play_foreseen(game: FaultyRound, state: State, action: int, plays: np.ndarray) -> None:
    viewer = to_move(game, state)
    if game.fault == 7:
        play(game, state, action)
        return
    state[1] += (action + plays[0]) & 1
    state[0] += 1
    state[2] = viewer
    state[3] = 0
    if game.fault == 8:
        state[4] = 0


def test_a_game_that_keeps_its_secrets_passes() -> None:
    checked = games.check_game(FaultyRound(), games=20)
    assert checked.secret_pairs == 60
    assert checked.unchecked == ()


@pytest.mark.slow
def test_a_check_without_an_occasion_is_sought_in_all_games_and_named() -> None:
    checked = games.check_game(FaultyRound(9))
    assert checked.games == conformance.THOROUGH_GAMES
    assert checked.unchecked == ("secret moves of a round",)
    assert "not checked for want of an occasion: secret moves of a round" in str(checked)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (1, "give the next player different choices"),
        (2, "before the round ends"),
        (3, "depends on the secret moves"),
        (4, "foresee wrote [2]; expected one action in -1 .. 1 per opponent"),
        (5, "depends on what viewer=1 cannot see"),
        (6, "foresee wrote"),
        (7, "after play_foreseen with action"),
        (8, "play_foreseen wrote outside the state"),
    ],
)
@pytest.mark.parametrize("thorough", [False, True], ids=["quick", "thorough"])
def test_a_leaked_secret_is_reported_by_both_forms(fault: int, said: str, thorough: bool) -> None:
    with pytest.raises(games.GameContractError) as refusal:
        games.check_game(FaultyRound(fault), thorough=thorough)
    assert said in str(refusal.value)
    assert f"breaks law {2 if fault == 8 else 9} of games.core: {conformance.LAWS[2 if fault == 8 else 9]}" in str(
        refusal.value
    )
