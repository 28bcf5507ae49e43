"""The agent `network`: a model without search, by its policy or by its values.

    network,model=7                      the move the policy finds likeliest
    network,model=7,by=value             the move to the position the model values most; one that ends the game by the rules
    network,model=7,by=value,temperature=0.1      drawn by softmax of the values
    network,model=7,epsilon=0.05         any move, one time in twenty

`by=value` looks one ply ahead: all positions that a move leads to are evaluated in one batch. Values count from 0 to 1 in its
softmax, (value + 1) / 2, so that temperatures mean what they do where values are chances to win (Sutton and Barto 2018,
sections 2.8 and 6.8). By policy, a temperature T takes each probability to the power of 1 / T.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from games import core
from games.core import Game, State
from games.positions import encode_for, legal
from zerofleet.agents.base import Choice, Evaluate, require_open
from zerofleet.agents.canonical import canonical_name
from zerofleet.agents.spelling import AgentOptions, Spelling
from zerofleet.agents.uct import mover_values
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import LeafBatch, ModelVersion

__all__ = ["NetworkAgent", "NetworkOptions", "from_spelling", "softmax"]


class NetworkOptions(AgentOptions):
    """Options of `network`."""

    model: int = Field(default=0, ge=1)
    """Version of the model."""
    by: Literal["policy", "value"] = "policy"
    """What chooses: the policy, or the values of the positions that the moves lead to."""
    temperature: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    """0: the best move; more: drawn by softmax, the more evenly the larger."""
    epsilon: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of moves that are any legal one."""


class _Opinion(NamedTuple):
    """What the model makes of the n legal moves."""

    appeal: np.ndarray  # float64 [n], what the best move has most of and softmax exponentiates
    value: np.ndarray  # float64 [n], what the player to move is to expect of each move
    positions: int
    """Positions evaluated."""


class NetworkAgent:
    """Plays what a model likes best, or draws by how much it likes each move; equally good moves by lot."""

    def __init__(self, game: Game, options: NetworkOptions, *, evaluate: Evaluate | None) -> None:
        """Take the game, the options and who evaluates; raises `InvalidRequest` for what cannot be played with."""
        self.name = canonical_name("network", "", options)
        if options.by == "value":
            require_open(self.name, game)
        if evaluate is None:
            raise InvalidRequest(f"{self.name} asks a model, and there is none here")
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


def softmax(appeal: np.ndarray, temperature: float) -> np.ndarray:
    """Return the share of each of n numbers, float64 [n], in proportion to exp(number / temperature).

    At temperature 0 the largest share it evenly. The largest is subtracted first, so that nothing overflows however small the
    temperature; -inf has no share, unless all are.
    """
    peak = appeal.max()
    if np.isneginf(peak):
        return np.full(len(appeal), 1.0 / len(appeal))
    weights = (appeal == peak).astype(np.float64) if temperature == 0.0 else np.exp((appeal - peak) / temperature)
    return np.asarray(weights / weights.sum())
