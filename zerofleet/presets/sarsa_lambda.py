"""Settings of the learner `sarsa_lambda`: weights of five features, learned by temporal differences on chosen moves."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["SarsaLambdaSettings"]


class SarsaLambdaSettings(BaseModel):
    """Learner `sarsa_lambda`: a linear evaluation of five features, with weights for each phase of the game.

    For Chinese Checkers on the rhombus (Li, Chinese University of Hong Kong). A move has the value of the position after it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    method: Literal["sarsa", "q_learning", "monte_carlo", "td_leaf"] = "sarsa"
    """Target of a move's value. `sarsa`: the value of the player's next move; with `trace_decay` 0 this is TD(0).
    `q_learning`: the best value in the pool of that move; needs `afterstates.pool`. `monte_carlo`: the result of the game,
    discounted. `td_leaf`: as `sarsa`, with the value of a move taken after the best reply to it."""
    output: Literal["linear", "tanh"] = "linear"
    """Value of a position with the weighted sum u. `linear`: u. `tanh`: tanh(u), within the rewards -1 to 1. Models are served
    with tanh(u), which has the same order."""
    third_phase: Literal["distance", "features"] = "distance"
    """Weights of the phase in which the sides have passed each other. `distance`: that of the distance alone, so that both run
    home. `features`: all five; learned from moves that are not followed at once, they can leave both sides waiting before
    their goals until the ply cap."""
    learning_rate: float = Field(default=0.1, gt=0)
    """alpha: step size of an update."""
    discount: float = Field(default=0.99, ge=0, le=1)
    """gamma: discount of the value of the player's next move; below 1, quicker wins are worth more."""
    trace_decay: float = Field(default=0.8, ge=0, le=1)
    """lambda: decay of the eligibility traces; unused by `monte_carlo`."""
    initial_deviation: float = Field(default=0.01, ge=0)
    """Standard deviation of the random part of the first weights."""
    initial_distance: float = 1.0
    """First weight of the distance in each phase, to which the random part is added. It acts as a reward for each level climbed
    that does not change the best play (Wiewiora 2003). With 0 first games wander until the ply cap, and teach little."""
    publish_every_games: int = Field(default=50, ge=1)
    """Games between two candidates."""
