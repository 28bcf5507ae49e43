"""Analysis of positions for people: moves in; named moves with priors, visits and values out.

Leaves are evaluated through the data plane, with priority over the workers' requests; the search is that of self-play.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import games
from games import core, positions
from games.core import Game, State
from inference_server.data_plane import DataPlane
from inference_server.served_version import ServedVersion
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.opinions import MoveOpinion, Opinion
from zerofleet.contracts.priorities import Priority
from zerofleet.errors import InvalidRequest, Overloaded, Unavailable
from zerofleet.evaluators.answers import check_answer
from zerofleet.evaluators.base import Evaluation, LeafBatch, ModelVersion
from zerofleet.search import SearchSettings, search_position
from zerofleet.search.block import LAST_SEED
from zerofleet.search.opinions import searched_opinion
from zerofleet.telemetry import metrics

__all__ = ["Analyst", "Question"]


@dataclass(frozen=True, slots=True)
class Question:
    """A position and the effort to spend on it."""

    game: str
    parameters: Mapping[str, str]
    moves: Sequence[str]
    """Moves from the start, in the game's notation."""
    version: int
    """Model version; 0 selects the champion."""
    simulations: int
    """Search budget; 0 evaluates the network alone."""
    seed: int


@dataclass(frozen=True, slots=True)
class _Position:
    """A position and the actions that led to it."""

    game: Game
    state: State
    actions: list[int]
    seed: int
    """Seed of the deal, in games that have one."""
    to_move: int
    scores: tuple[float, ...]
    """By seat; empty while the game is not over."""
    leaf: LeafBatch | None
    """The position as the network takes it; None when the game is over."""


class Analyst:
    """Answers questions with the served models."""

    def __init__(self, plane: DataPlane, *, max_simulations: int, max_searches: int) -> None:
        self._plane = plane
        self._max_simulations = max_simulations
        self._max_searches = max_searches
        self._searches = 0

    async def opinion(self, question: Question, *, patience_s: float | None = None) -> Opinion:
        """Analyse a position with a model.

        Raises `GameError` for an unknown game or an illegal move, `InvalidRequest`, `ModelNotFound`, `Overloaded`,
        `Unavailable`, `CorruptModel` when the network returns numbers that are not finite.
        Cancellation: the search stops after its current step.
        """
        game = await asyncio.to_thread(games.make, question.game, **question.parameters)
        if len(question.moves) > (longest := game.spec().max_plies):
            raise InvalidRequest(f"got {len(question.moves)} moves, a game of {question.game} has at most {longest}")
        served = self._plane.find(model_name(game), str(question.version) if question.version else "")
        self._check(question)
        position = await asyncio.to_thread(_position, game, question.moves, question.seed)
        if position.leaf is None:
            return Opinion(served.version, position.to_move, position.scores, (), (), is_over=True)
        evaluator = _PlaneEvaluator(self._plane, served, patience_s)
        if question.simulations == 0:
            answer = await evaluator.evaluate(position.leaf, version=ModelVersion(served.version))
            return await asyncio.to_thread(_network_alone, position, answer, position.leaf.legal[0], served.version)
        if self._searches >= self._max_searches:
            metrics.INFERENCE_REFUSED.labels(reason="searches").inc()
            raise Overloaded(f"{self._searches} searches are under way, the limit; try again later")
        self._searches += 1
        try:
            return await _searched(position, evaluator, served.version, question)
        finally:
            self._searches -= 1

    def _check(self, question: Question) -> None:
        if question.simulations > self._max_simulations:
            raise InvalidRequest(f"got {question.simulations} simulations, want 0 to {self._max_simulations}")
        if question.seed > LAST_SEED:
            raise InvalidRequest(f"got seed {question.seed}, want 0 to {LAST_SEED}")


class _PlaneEvaluator:
    """Adapter of the data plane to `Evaluator`, bound to one version even if that is retired during the search."""

    def __init__(self, plane: DataPlane, served: ServedVersion, patience_s: float | None) -> None:
        self._plane = plane
        self._served = served
        self._ends_s = math.inf if patience_s is None else time.monotonic() + patience_s

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`. Also raises `CorruptModel` for an answer that is not finite, as clients do."""
        left_s = self._ends_s - time.monotonic()
        if left_s <= 0:
            raise Unavailable("the deadline passed during the search; allow more time or request fewer simulations")
        states, legal = batch.states.copy(), batch.legal.copy()  # read on the device thread
        patience_s = None if left_s == math.inf else left_s
        result = await self._plane.evaluate(self._served, states, legal, patience_s=patience_s, priority=Priority.HIGH)
        if (found := len(result.output) - 2) < batch.extra_heads:
            raise InvalidRequest(f"version {version} has {found} extra heads, the search needs {batch.extra_heads}")
        wanted = result.output[: 2 + batch.extra_heads]
        policy, value, *extra_heads = check_answer(wanted, legal.shape, (self._served.manifest.model, version))
        return Evaluation(policy, value, version, tuple(extra_heads))


def _position(game: Game, moves: Sequence[str], seed: int) -> _Position:
    """Return the position after moves; in a thread, as the rules may have to be compiled first. Raises `GameError`."""
    actions = positions.read_moves(game, " ".join(moves), seed)
    state = positions.replay(game, actions, seed)
    to_move = int(core.to_move(game, state))
    if core.is_over(game, state):
        return _Position(game, state, actions, seed, to_move, positions.final_scores(game, state), None)
    legal = np.full((1, game.spec().max_legal), -1, dtype=np.int16)
    core.legal_actions(game, state, legal[0])
    return _Position(
        game, state, actions, seed, to_move, (), LeafBatch(positions.encode_for(game, state, to_move)[None], legal)
    )


def _network_alone(position: _Position, answer: Evaluation, legal: np.ndarray, version: int) -> Opinion:
    """Return the opinion of an evaluation of the position, whose legal actions are int16 [L], padded with -1."""
    moves = [
        MoveOpinion(position.game.action_name(position.state, int(action)), int(action), float(prior), 0, None)
        for action, prior in zip(legal, answer.policy[0], strict=True)
        if action >= 0
    ]
    value = np.roll(answer.value[0], position.to_move)  # from the mover first to seat order
    ranked = tuple(sorted(moves, key=lambda move: -move.prior))
    return Opinion(version, position.to_move, tuple(value.tolist()), ranked, (), is_over=False)


async def _searched(position: _Position, evaluator: _PlaneEvaluator, version: int, question: Question) -> Opinion:
    game, seed = position.game, question.seed
    settings = SearchSettings.for_analysis(game.spec(), question.simulations)
    analysis = await search_position(game, evaluator, position.actions, settings=settings, version=version, seed=seed)
    return await asyncio.to_thread(searched_opinion, game, position.state, position.actions, seed, analysis)
