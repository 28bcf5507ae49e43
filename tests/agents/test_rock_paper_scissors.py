"""Players of rock paper scissors: what they see, what they choose, and how often they win."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import games
from games import core
from zerofleet.agents import make_agent
from zerofleet.errors import InvalidRequest

GAME = games.make("rock_paper_scissors")
ROCK, PAPER, SCISSORS = range(3)


def results(name: str, other: Callable[[int, np.random.Generator], int], count: int) -> tuple[float, float]:
    """Mean turns won and lost in a game by the agent against one who chooses by the number of the turn."""
    agent, rng = make_agent(name, GAME), np.random.default_rng(7)
    won = lost = 0
    for _ in range(count):
        state = games.new_state(GAME)
        while not core.is_over(GAME, state):
            turn = core.round_of(GAME, state)
            core.play(GAME, state, agent.choose(GAME, state, rng).action)
            core.play(GAME, state, other(turn, rng))
        for own, others in zip(GAME.history(state, 0), GAME.history(state, 1), strict=True):
            won += (own - others) % 3 == 1
            lost += (others - own) % 3 == 1
    return won / count, lost / count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("other", "won", "lost"),
    [
        (lambda turn, rng: ROCK, 97.33, 1.33),  # four turns before a pattern is known
        (lambda turn, rng: turn % 3, 96.0, 2.0),  # six
        (lambda turn, rng: int(rng.integers(3)), 33.33, 33.33),
    ],
    ids=["always rock", "cycle", "uniform"],
)
def test_order_three_wins_at_the_expected_rate(
    other: Callable[[int, np.random.Generator], int], won: float, lost: float
) -> None:
    games_played = 60
    spread = 5 * (100 * 2 / 9 / games_played) ** 0.5 if won < 50 else 5 * (6 * 2 / 9 / games_played) ** 0.5
    measured = results("rock_paper_scissors_order:3", other, games_played)
    assert measured == (pytest.approx(won, abs=spread), pytest.approx(lost, abs=spread))


def test_the_most_frequent_successor_of_a_pattern_is_countered() -> None:
    agent, rng = make_agent("rock_paper_scissors_order:1", GAME), np.random.default_rng(1)
    other = [ROCK, PAPER, ROCK, SCISSORS, ROCK, PAPER, ROCK]  # after rock: paper twice, scissors once
    state = games.replay(GAME, [move for choice in other for move in (ROCK, choice)])
    assert {agent.choose(GAME, state, rng).action for _ in range(20)} == {SCISSORS}
    core.play(GAME, state, ROCK)  # the other looks at these
    assert {agent.choose(GAME, state, rng).action for _ in range(20)} == {PAPER}


def test_ties_between_frequencies_are_broken_uniformly() -> None:
    agent, rng = make_agent("rock_paper_scissors_order:1", GAME), np.random.default_rng(2)
    other = [ROCK, PAPER, ROCK, SCISSORS, ROCK]
    state = games.replay(GAME, [move for choice in other for move in (ROCK, choice)])
    counts = np.bincount([agent.choose(GAME, state, rng).action for _ in range(900)], minlength=3)
    assert counts[PAPER] == 0
    assert abs(counts[ROCK] - 450) < 75
    counts = np.bincount([agent.choose(GAME, games.new_state(GAME), rng).action for _ in range(900)], minlength=3)
    assert np.abs(counts - 300).max() < 71


@pytest.mark.parametrize("choice", range(3))
def test_the_hidden_choice_of_the_turn_is_not_used(choice: int) -> None:
    agent = make_agent("rock_paper_scissors_order:2", GAME)
    state = games.replay(GAME, [PAPER, ROCK] * 9 + [choice])
    assert agent.choose(GAME, state, np.random.default_rng(3)).action == SCISSORS


def test_the_constant_player_repeats_its_choice() -> None:
    agent, rng = make_agent("rock_paper_scissors_constant:scissors", GAME), np.random.default_rng(1)
    assert {agent.choose(GAME, games.replay(GAME, [ROCK] * n), rng).action for n in range(10)} == {SCISSORS}


@pytest.mark.parametrize("name", ["rock_paper_scissors_order:3", "rock_paper_scissors_constant:rock"])
def test_names_round_trip_and_other_games_are_refused(name: str) -> None:
    assert make_agent(name, GAME).name == name
    with pytest.raises(InvalidRequest, match=f"{name} plays rock_paper_scissors, not tic_tac_toe"):
        make_agent(name, games.make("tic_tac_toe"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("rock_paper_scissors_order", "needs a pattern length, such as rock_paper_scissors_order:3"),
        ("rock_paper_scissors_order:x", "needs a pattern length"),
        ("rock_paper_scissors_order:0", "the order must be between 1 and 10"),
        ("rock_paper_scissors_order:11", "the order must be between 1 and 10"),
        ("rock_paper_scissors_order:" + "1" * 5000, "a number of 5000 digits; the order must be between 1 and 10"),
        ("rock_paper_scissors_constant", "the choice must be one of rock, paper, scissors"),
        ("rock_paper_scissors_constant:well", "the choice must be one of rock, paper, scissors"),
    ],
)
def test_invalid_orders_and_choices_are_refused(name: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(said)):
        make_agent(name, GAME)
