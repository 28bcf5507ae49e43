"""The agent `network`: a model without search, by its policy or by its values.

    network,model=7                      the move of highest policy
    network,model=7,by=value             the move to the position of highest value; finished games count their scores
    network,model=7,by=value,temperature=0.1      sampled by softmax of the values
    network,model=7,epsilon=0.05         a random move with probability 0.05

`by=value` searches one ply: all successor positions are evaluated in one batch. Its softmax maps values to [0, 1] by
(value + 1) / 2, so that temperatures have the scale of win probabilities (Sutton and Barto 2018, sections 2.8 and 6.8). By
policy, a temperature T raises each probability to the power 1 / T.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from games import core
from games.core import Game, State
from games.positions import encode_for, legal
from zerofleet.agents.base import Choice, Evaluate, require_open
from zerofleet.agents.spelling import AgentOptions, Spelling, canonical_name
from zerofleet.agents.uct import mover_values
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import LeafBatch, ModelVersion

__all__ = ["NetworkAgent", "NetworkOptions", "from_spelling", "softmax"]


class NetworkOptions(AgentOptions):
    """Options of `network`."""

    model: int = Field(default=0, ge=1)
    """Version of the model."""
    by: Literal["policy", "value"] = "policy"
    """Selection criterion: the policy, or the values of the successor positions."""
    temperature: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    """Softmax temperature; 0: the best move."""
    epsilon: float = Field(default=0.0, ge=0.0, le=1.0)
    """Probability of a uniformly random legal move."""


class _Opinion(NamedTuple):
    """Evaluation of the n legal moves by the model."""

    appeal: np.ndarray  # float64 [n], logits: maximal for the best move
    value: np.ndarray  # float64 [n], expected score of the player to move
    positions: int
    """Positions evaluated."""


class NetworkAgent:
    """Plays the move that a model rates highest, or samples by softmax; ties are broken at random."""

    def __init__(self, game: Game, options: NetworkOptions, *, evaluate: Evaluate | None) -> None:
        """Create the agent; raises `InvalidRequest` for a game or options that it does not support."""
        self.name = canonical_name("network", "", options)
        if options.by == "value":
            require_open(self.name, game)
        if evaluate is None:
            raise InvalidRequest(f"{self.name} needs a model, but none is available")
        self._options = options
        self._evaluate = evaluate

    def choose(self, game: Game, state: State, rng: np.random.Generator) -> Choice:
        """See `zerofleet.agents.Agent`. Raises what the evaluator raises."""
        opinion = self._opinion(game, state)
        chosen = int(rng.choice(len(opinion.appeal), p=self._shares(opinion)))
        return Choice(legal(game, state)[chosen], opinion.positions, float(opinion.value[chosen]))

    def policy(self, game: Game, state: State) -> np.ndarray:
        """See `zerofleet.agents.PolicyAgent`. Raises what the evaluator raises."""
        return self._shares(self._opinion(game, state))

    def _shares(self, opinion: _Opinion) -> np.ndarray:
        drawn = softmax(opinion.appeal, self._options.temperature)
        return (1.0 - self._options.epsilon) * drawn + self._options.epsilon / len(drawn)

    def _opinion(self, game: Game, state: State) -> _Opinion:
        actions = np.array(legal(game, state), dtype=np.int16)
        version = ModelVersion(self._options.model)
        if self._options.by == "value":
            values = mover_values(game, state, actions, self._evaluate, version)
            return _Opinion((values + 1.0) / 2.0, values, len(actions))
        listed = np.full((1, game.spec().max_legal), -1, dtype=np.int16)
        listed[0, : len(actions)] = actions
        seen = encode_for(game, state, core.to_move(game, state))
        answer = self._evaluate(LeafBatch(seen[None], listed), version)
        shares = answer.policy[0, : len(actions)].astype(np.float64)
        with np.errstate(divide="ignore"):
            return _Opinion(np.log(shares), np.full(len(actions), float(answer.value[0, 0])), 1)


def from_spelling(spelling: Spelling, game: Game, evaluate: Evaluate | None) -> NetworkAgent:
    """Return the agent written `network,model=7` or `network,model=7,by=value`."""
    spelling.refuse_argument()
    options = spelling.options(NetworkOptions)
    if not options.model:
        raise InvalidRequest(f"{str(spelling)!r} needs the version of a model, such as network,model=7")
    return NetworkAgent(game, options, evaluate=evaluate)


def repeats_itself(spelling: Spelling) -> bool:
    """See `AgentKind.repeats`. Moves of equal appeal, between which the draw is random, are rare."""
    options = spelling.options(NetworkOptions)
    return not options.temperature and not options.epsilon


def softmax(appeal: np.ndarray, temperature: float) -> np.ndarray:
    """Return probabilities proportional to exp(appeal / temperature), float64 [n].

    At temperature 0 the maxima share the probability equally. The maximum is subtracted first, so that no temperature
    overflows; an entry of -inf has probability 0, unless all are -inf.
    """
    peak = appeal.max()
    if np.isneginf(peak):
        return np.full(len(appeal), 1.0 / len(appeal))
    weights = (appeal == peak).astype(np.float64) if temperature == 0.0 else np.exp((appeal - peak) / temperature)
    return np.asarray(weights / weights.sum())
