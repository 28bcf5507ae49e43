"""Settings of the learners `dqn` and `deep_sarsa`: a small convolutional network of action values and a short memory."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["DeepQSettings"]

SWEEP_REPLAY_MAX = 2_000  # 0.1 s and 32 MB for each update; both grow with the square of the memory


class DeepQSettings(BaseModel):
    """Learners `dqn` and `deep_sarsa`: values of the moves of a pool (Li, Chinese University of Hong Kong; Mnih et al. 2015).

    A transition is a move with the reward up to the player's next turn; the opponent's reply is folded in.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    pool_by: Literal["heuristic", "values", "listed", "network"] = "heuristic"
    """Source of the pool, `network.pool` moves. `heuristic`: the board value of `rhombus_search` after the move, on
    `chinese_checkers_rhombus`. `values`: the model's own values; needs `network.kind=q_sa`. `listed`: all legal moves in the
    order of their numbers, for small games. `network`: a frozen network, with the settings of the part `combined`; so has the
    learner `combined`, whatever is set here."""
    replay: int = Field(default=100, ge=1, le=1_000_000)
    """N: transitions in memory, first in, first out; at most 2,000 with `sampling=sweep`."""
    sampling: Literal["uniform", "poisson", "sweep"] = "uniform"
    """Draws from the memory, with replacement. `uniform`. `poisson`: by age, the number of later transitions, with a Poisson
    distribution of mean `poisson_age`. `sweep`: in proportion to the distance between a move's value and the result expected
    from its position, found by sweeps over the transitions in memory; their cost grows with the square of `replay`."""
    poisson_age: float = Field(default=25.0, gt=0)
    """Mean age of `poisson`; ages beyond the memory are drawn again."""
    draws: int = Field(default=32, ge=1)
    """m: draws per transition that arrives; the mean number of uses of a transition."""
    batch_size: int = Field(default=32, ge=1)
    """Draws of one update: 1 is the report's."""
    target_period: int = Field(default=500, ge=1)
    """Updates between two refreshes of the target network; 1: targets have the weights before the update, as in the report's
    pseudocode."""
    learning_rate: float = Field(default=0.005, gt=0)
    """Step size of stochastic gradient descent."""
    rate_floor: float = Field(default=1.0, gt=0, le=1)
    """Share of `learning_rate` that is left at the planned end of the run (`zerofleet run --for`) or of an experiment; it falls
    along half a cosine. 1, or a run without a planned end: constant."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Share of the previous update that is added to the next."""
    score_weight: float = Field(default=0.0, ge=0)
    """b: weight of the pool's scores in the values, Q(s, a) = b (score(a) - best score of the pool) + f(s, a) with f by the
    network. 0: the network has all of Q. With `shaping_by=gain` and b = `shaping` the scores of `heuristic` are the player's
    own share of the next reward, so that the network learns the rest. Not with `pool_by=values`."""
    discount: float = Field(default=0.99, ge=0, le=1)
    """gamma: discount of the value of the player's next turn."""
    shaping: float = Field(default=0.0, ge=0)
    """Weight of an additional reward, the gain in board value up to the next turn, on `chinese_checkers_rhombus`; 0: none."""
    shaping_by: Literal["potential", "gain"] = "potential"
    """Form of that reward, with F the board value as a share of that of all levels. `potential`: gamma F' - F, and F' = 0 at
    the end. It does not change the best play (Ng, Harada and Russell 1999), all of which still hangs on the result. `gain`:
    F' - F. With a discount below 1 a player then prefers board value gained soon."""
    publish_every_games: int = Field(default=50, ge=1)
    """Games between two candidates."""

    @model_validator(mode="after")
    def _sweeps_a_small_memory(self) -> Self:
        if self.sampling == "sweep" and self.replay > SWEEP_REPLAY_MAX:
            raise ValueError(
                f"sampling=sweep takes at most {SWEEP_REPLAY_MAX} transitions in memory, got replay={self.replay}; lower "
                "replay, or set sampling=poisson or uniform"
            )
        return self
