"""The rule player of tic-tac-toe and the best response to it, held against exact probabilities."""

from __future__ import annotations

import numpy as np
import pytest

import games
from games import core
from games.core import State
from zerofleet.agents import PolicyAgent, make_agent
from zerofleet.agents.exact.best_response import BestResponseAgent
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion

GAME = games.make("tic_tac_toe")


def named(name: str) -> PolicyAgent:
    agent = make_agent(name, GAME)
    assert isinstance(agent, PolicyAgent)
    return agent


def outcomes(seats: list[PolicyAgent], state: State, known: dict[int, np.ndarray]) -> np.ndarray:
    """Chances that the first player wins, draws and loses, by adding up every game that can happen."""
    if core.is_over(GAME, state):
        return np.eye(3)[1 - int(games.final_scores(GAME, state)[0])]
    key = int(core.key(GAME, state))
    if key not in known:
        known[key] = np.zeros(3)
        for action, chance in zip(games.legal(GAME, state), seats[core.to_move(GAME, state)].policy(GAME, state), strict=True):
            after = state.copy()
            core.play(GAME, after, action)
            known[key] += chance * outcomes(seats, after, known)
    return known[key]


@pytest.mark.parametrize(
    ("seats", "per_10_000"),
    [
        (("tic_tac_toe_rules", "random"), (9563.5, 412.7, 23.8)),
        (("random", "tic_tac_toe_rules"), (216.9, 1503.1, 8280.0)),
        (("random", "random"), (5849.2, 1269.8, 2881.0)),
        (("tic_tac_toe_rules", "tic_tac_toe_rules"), (3000.0, 6583.3, 416.7)),
    ],
)
def test_the_rule_player_wins_exactly_as_often_as_its_rules_say(
    seats: tuple[str, str], per_10_000: tuple[float, float, float]
) -> None:
    assert np.round(10_000 * outcomes([named(name) for name in seats], games.new_state(GAME), {}), 1).tolist() == list(
        per_10_000
    )


@pytest.mark.parametrize(
    ("moves", "answers"),
    [
        ([], {"b2"}),
        ([4], {"a1", "a2", "a3", "b1", "b3", "c1", "c2", "c3"}),
        ([0], {"b2"}),
        ([0, 4, 1], {"c3"}),  # blocks
        ([0, 4, 1, 5], {"c3"}),  # wins rather than blocks
        ([0, 8, 1, 4, 5], {"c3"}),
    ],
)
def test_the_rule_player_wins_then_blocks_then_takes_the_centre(moves: list[int], answers: set[str]) -> None:
    state = games.replay(GAME, moves)
    rng = np.random.default_rng(1)
    agent = named("tic_tac_toe_rules")
    assert {GAME.action_name(state, agent.choose(GAME, state, rng).action) for _ in range(100)} == answers


def test_the_best_response_wins_five_games_of_six_when_it_begins() -> None:
    agent = make_agent("best_response:tic_tac_toe_rules", GAME)
    choice = agent.choose(GAME, games.new_state(GAME), np.random.default_rng(2))
    assert GAME.action_name(games.new_state(GAME), choice.action) == "b2"
    assert choice.value == pytest.approx(5 / 6)


def test_the_best_response_wins_two_games_of_thirty_five_as_second_player() -> None:
    agent = make_agent("best_response:tic_tac_toe_rules", GAME)
    choice = agent.choose(GAME, games.replay(GAME, [4]), np.random.default_rng(3))
    assert choice.value == pytest.approx(2 / 35)


def test_the_best_response_to_random_play_is_found() -> None:
    agent = make_agent("best_response:random", GAME)
    value = agent.choose(GAME, games.new_state(GAME), np.random.default_rng(2)).value
    assert value is not None
    assert 0.98 < value < 1.0


@pytest.mark.slow
def test_the_best_response_gains_more_where_more_plies_are_left_before_the_ply_cap() -> None:
    game = games.make("chinese_checkers_rhombus", ply_cap=4)
    start = games.new_state(game)
    late = start.copy()
    late[0] += np.uint64(2)  # plies
    agent, rng = make_agent("best_response:random", game), np.random.default_rng(1)
    gains = [agent.choose(game, state, rng).value for state in (late, start)]
    assert gains == sorted(set(gains))


def test_the_best_response_to_a_model_has_the_options_of_the_model() -> None:
    def first_move(batch: LeafBatch, version: ModelVersion) -> Evaluation:
        assert version == 7
        policy = np.zeros(batch.legal.shape, dtype=np.float16)
        policy[:, 0] = 1.0
        return Evaluation(policy, np.zeros((len(batch), 2), np.float32), version)

    agent = make_agent("best_response:network,model=7,epsilon=0.0", GAME, evaluate=first_move)
    assert agent.name == "best_response:network,model=7"
    assert agent.choose(GAME, games.new_state(GAME), np.random.default_rng(1)).value == 1.0
    with pytest.raises(InvalidRequest, match="'depth'"):
        make_agent("best_response:network,model=7,depth=2", GAME, evaluate=first_move)


def test_ties_are_broken_uniformly() -> None:
    agent, rng = make_agent("best_response:tic_tac_toe_rules", GAME), np.random.default_rng(5)
    state = games.replay(GAME, [4, 1])  # an edge: several ways to win by force
    chosen = np.bincount([agent.choose(GAME, state, rng).action for _ in range(600)], minlength=9)
    kept = chosen[chosen > 0]
    assert len(kept) > 1
    assert np.abs(kept - 600 / len(kept)).max() < 5 * (600 / len(kept)) ** 0.5


@pytest.mark.parametrize(
    ("text", "game", "said"),
    [
        ("tic_tac_toe_rules", "connect_four", "tic_tac_toe_rules plays tic_tac_toe, not connect_four"),
        ("tic_tac_toe_rules:2", "tic_tac_toe", "takes no argument after a colon"),
        ("best_response", "tic_tac_toe", "best_response needs an opponent"),
        ("best_response,model=7", "tic_tac_toe", "best_response needs an opponent"),
        ("best_response:nobody", "tic_tac_toe", "no agent is called 'nobody'"),
        ("best_response:random", "chinese_checkers_star37", "has 3 players"),
        ("best_response:take_six_comparison", "take_six", "take_six_comparison"),
    ],
)
def test_invalid_spellings_are_refused(text: str, game: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        make_agent(text, games.make(game))
    assert said in str(refusal.value)


def test_a_game_with_too_many_positions_is_refused() -> None:
    agent = BestResponseAgent(GAME, make_agent("random", GAME), max_positions=100)
    with pytest.raises(InvalidRequest, match="more than 100 relevant positions"):
        agent.choose(GAME, games.new_state(GAME), np.random.default_rng(0))


def test_a_game_with_too_many_plies_is_refused() -> None:
    long = games.make("chinese_checkers_rhombus")
    agent = make_agent("best_response:random", long)
    with pytest.raises(InvalidRequest, match=r"best_response:random: a game of .* has too many plies to be searched"):
        agent.choose(long, games.new_state(long), np.random.default_rng(0))
