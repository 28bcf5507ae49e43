"""UCT with what a model says beforehand."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import games
from games import core
from games.core import Game, State
from games.positions import encode_for
from zerofleet.agents import Evaluate
from zerofleet.agents.spelling import Spelling
from zerofleet.agents.uct import UctSearch, plan_for
from zerofleet.agents.uct.agent import UctAgent, from_spelling
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.evaluators.uniform import uniform_policy

GAME = games.make("tic_tac_toe")


@functools.cache
def solution() -> dict[bytes, float]:
    """The value of every tic-tac-toe position for the player to move, by what that player sees."""
    values: dict[bytes, float] = {}

    def solve(state: State) -> float:
        if core.is_over(GAME, state):
            return games.final_scores(GAME, state)[core.to_move(GAME, state)]
        seen = encode_for(GAME, state, core.to_move(GAME, state)).tobytes()
        if seen not in values:
            values[seen] = max(-solve(after) for after in afters(state))
        return values[seen]

    solve(games.new_state(GAME))
    return values


def afters(state: State) -> list[State]:
    found = []
    for action in games.legal(GAME, state):
        after = state.copy()
        core.play(GAME, after, action)
        found.append(after)
    return found


def all_knowing(batch: LeafBatch, version: ModelVersion) -> Evaluation:
    """A model that has solved the game."""
    own = np.array([solution()[row.tobytes()] for row in batch.states], dtype=np.float32)
    return Evaluation(uniform_policy(batch.legal), np.stack([own, -own], axis=1), version)


def made(text: str, game: Game, evaluate: Evaluate) -> UctAgent:
    return from_spelling(Spelling.parse(text), game, evaluate)


def keeping(state: State) -> set[int]:
    """The moves that keep the value of a position."""
    worth = []
    for action, after in zip(games.legal(GAME, state), afters(state), strict=True):
        if core.is_over(GAME, after):
            worth.append((games.final_scores(GAME, after)[core.to_move(GAME, state)], action))
        else:
            worth.append((-solution()[encode_for(GAME, after, core.to_move(GAME, after)).tobytes()], action))
    return {action for value, action in worth if value == max(worth)[0]}


def hard_positions(count: int) -> list[State]:
    """Positions in which at least one move would be a mistake."""
    rng, found = np.random.default_rng(1), []
    while len(found) < count:
        state = games.new_state(GAME)
        for _ in range(rng.integers(6)):
            if not core.is_over(GAME, state):
                core.play(GAME, state, int(rng.choice(games.legal(GAME, state))))
        if not core.is_over(GAME, state) and len(keeping(state)) < len(games.legal(GAME, state)):
            found.append(state)
    return found


@pytest.mark.slow
def test_priors_of_a_good_model_improve_play_at_equal_simulations() -> None:
    right = {}
    for text in ("uct:30", "uct:30,model=1,confidence=10"):
        agent, rng = made(text, GAME, all_knowing), np.random.default_rng(2)
        right[text] = sum(agent.choose(GAME, state, rng).action in keeping(state) for state in hard_positions(100))
    assert right["uct:30"] < 90
    assert right["uct:30,model=1,confidence=10"] >= 99


def test_without_confidence_the_search_is_plain_uct_and_evaluates_nothing() -> None:
    def nobody(batch: LeafBatch, version: ModelVersion) -> Evaluation:
        raise AssertionError("asked")

    game = games.make("connect_four")
    plain, unmoved = made("uct:200", game, nobody), made("uct:200,model=7,confidence=0", game, nobody)
    state = games.new_state(game)
    for seed in range(5):
        choices = [agent.choose(game, state, np.random.default_rng(seed)) for agent in (plain, unmoved)]
        assert choices[0] == choices[1]


def test_prior_visits_count_in_selection_and_not_as_simulations() -> None:
    def priors(position: State, actions: np.ndarray) -> np.ndarray:
        return np.where(actions == 4, 0.9, -0.9)

    state = games.new_state(GAME)
    search = UctSearch(GAME, state, plan_for(GAME, confidence=1000.0), seed=1, priors=priors)
    search.run(50)
    root = search.root()
    assert search.simulations == 50
    assert root.visits.sum() == 50
    assert root.visits[4] == 50, "a confident model need not be tried out"
    assert root.values[4] == pytest.approx(0.9, abs=0.05)
    assert root.values[:4] == pytest.approx(-0.9)


@pytest.mark.parametrize("confidence", [0.01, 0.1, 1.0])
def test_the_first_simulation_follows_the_priors_however_small_the_confidence(confidence: float) -> None:
    def priors(position: State, actions: np.ndarray) -> np.ndarray:
        return np.where(actions == 4, 0.9, -0.9)

    search = UctSearch(GAME, games.new_state(GAME), plan_for(GAME, confidence=confidence), seed=1, priors=priors)
    search.run(1)
    assert search.root().visits.tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0]


def test_all_moves_of_a_position_are_evaluated_in_one_request() -> None:
    asked: list[int] = []

    def counting(batch: LeafBatch, version: ModelVersion) -> Evaluation:
        assert version == 7
        asked.append(len(batch))
        return all_knowing(batch, version)

    made("uct:40,model=7", GAME, counting).choose(GAME, games.new_state(GAME), np.random.default_rng(1))
    assert asked[0] == 9
    assert asked[1] == 8
    assert len(asked) <= 40


def test_the_name_has_the_model() -> None:
    assert made("uct:40,confidence=3,model=7,c=0.7071", GAME, all_knowing).name == "uct:40,model=7,confidence=3.0"
