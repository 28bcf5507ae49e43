"""The player of rock paper scissors that adapts during a game: what it wins, and against whom it does not lose."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import games
from games import core
from zerofleet.agents import Agent, make_agent
from zerofleet.agents.base import Choice, PolicyAgent
from zerofleet.errors import InvalidRequest

GAME = games.make("rock_paper_scissors")
NAME = "rock_paper_scissors_adaptive"
ROCK, PAPER, SCISSORS = range(3)


def net(other: Agent, *, count: int, name: str = NAME) -> float:
    """Turns won less turns lost in a game of 100 turns by the agent, mean of games."""
    agent, rng, total = make_agent(name, GAME), np.random.default_rng(7), 0
    for _ in range(count):
        state = games.new_state(GAME)
        while not core.is_over(GAME, state):
            core.play(GAME, state, agent.choose(GAME, state, rng).action)
            core.play(GAME, state, other.choose(GAME, state, rng).action)
        total += sum((0, 1, -1)[(a - b) % 3] for a, b in zip(GAME.history(state, 0), GAME.history(state, 1), strict=True))
    return total / count


class Scripted:
    """Plays by the number of the turn."""

    name = "scripted"

    def __init__(self, rule: Callable[[int], int]) -> None:
        self._rule = rule

    def choose(self, game: core.Game, state: core.State, rng: np.random.Generator) -> Choice:
        return Choice(self._rule(core.round_of(game, state)))


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["rock", "paper", "scissors"])
def test_it_takes_ninety_of_a_hundred_turns_from_a_constant_player(choice: str) -> None:
    other = make_agent(f"rock_paper_scissors_constant:{choice}", GAME)
    assert net(other, count=5) >= 97.0  # only the first turn is a guess


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2, 3])
def test_it_foresees_players_that_count_its_own_patterns(order: int) -> None:
    assert net(make_agent(f"rock_paper_scissors_order:{order}", GAME), count=5) > 25.0


@pytest.mark.slow
def test_it_follows_a_player_who_changes() -> None:
    assert net(Scripted(lambda turn: ROCK if turn < 50 else SCISSORS), count=3) > 80.0


@pytest.mark.slow
def test_it_detects_a_cycle() -> None:
    assert net(Scripted(lambda turn: turn % 3), count=3) > 85.0


@pytest.mark.slow
def test_it_neither_wins_nor_loses_against_chance() -> None:
    assert abs(net(make_agent("random", GAME), count=20)) < 5 * (100 * 2 / 3 / 20) ** 0.5


def test_it_plays_uniformly_at_first_and_whenever_it_is_foreseen() -> None:
    agent = make_agent(NAME, GAME)
    assert isinstance(agent, PolicyAgent)
    moves: list[int] = []
    policies = []
    for _ in range(40):  # the other player beats the likeliest choice
        policies.append(agent.policy(GAME, games.replay(GAME, moves)))
        likeliest = int(policies[-1].argmax())
        moves += [likeliest, (likeliest + 1) % 3]
    uniform = [policy.tolist() == [1 / 3] * 3 for policy in policies]
    assert uniform[0]
    assert not all(uniform)
    assert sum(uniform) > 10


def test_what_it_keeps_between_turns_does_not_change_its_answers() -> None:
    rng = np.random.default_rng(5)
    moves = rng.choice(3, size=60, p=[0.5, 0.3, 0.2]).tolist()
    followed = make_agent(NAME, GAME)
    for turns in range(31):
        state = games.replay(GAME, moves[: 2 * turns])
        fresh = make_agent(NAME, GAME).policy(GAME, state)
        np.testing.assert_array_equal(followed.policy(GAME, state), fresh)
        np.testing.assert_array_equal(followed.policy(GAME, state), fresh)  # asked twice


@pytest.mark.parametrize("choice", range(3))
def test_the_hidden_choice_of_the_turn_is_not_used(choice: int) -> None:
    state = games.replay(GAME, [PAPER, ROCK] * 9 + [choice])  # player 1 is to move and has seen nine papers
    assert make_agent(NAME, GAME).choose(GAME, state, np.random.default_rng(3)).action == SCISSORS


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (f"{NAME}:3", "takes no argument after a colon"),
        (f"{NAME},order=0", "option 'order': Input should be greater than or equal to 1"),
        (f"{NAME},memory=0", "option 'memory': Input should be greater than 0"),
    ],
)
def test_invalid_spellings_are_refused(name: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        make_agent(name, GAME)
    assert said in str(refusal.value)


def test_its_name_round_trips_and_other_games_are_refused() -> None:
    assert make_agent(f"{NAME},order=5,memory=0.95", GAME).name == f"{NAME},order=5"
    with pytest.raises(InvalidRequest, match=f"{NAME} plays rock_paper_scissors, not tic_tac_toe"):
        make_agent(NAME, games.make("tic_tac_toe"))
