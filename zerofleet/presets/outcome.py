"""Settings of the learner `outcome`: the result of a game, predicted from the positions after its moves."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["OutcomeSettings"]


class OutcomeSettings(BaseModel):
    """Learner `outcome`: supervised learning of won and lost, on the network of the part `network`.

    The network of the report (Li, Chinese University of Hong Kong) has 81-729-729 units. A position is labelled with the
    winner's probability of winning, which is 1; the loss is the squared error, by plain gradient descent once per game.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    labels: Literal["played", "all"] = "played"
    """Labelled positions. `played`: those after the moves of the game. `all`: those after every legal move, with the label of
    the move that was played, as the report can be read; for moves that were not played the label is noise."""
    sides: Literal["one", "both"] = "one"
    """Seats from whose moves is learned. `one`: the one that the record names (`afterstates.learner_seat`), or one by the seed
    of the game. `both`: every player's; half of the labels are then wins."""
    undecided: Literal["exclude", "half"] = "exclude"
    """Games without a winner, such as those stopped at the ply cap. `exclude`: nothing is learned from them. `half`: their
    positions are labelled 0.5."""
    learning_rate: float = Field(default=0.05, gt=0)
    """Step size of gradient descent on the mean squared error."""
    momentum: float = Field(default=0.0, ge=0, lt=1)
    """Momentum of gradient descent; 0: none."""
    games_per_step: int = Field(default=1, ge=1, le=10_000)
    """New games of one update; more of them approach batch gradient descent."""
    replays: int = Field(default=0, ge=0, le=1_000)
    """Further updates after each update on new games, on as many earlier games, drawn from the last `memory_games`. 0: each
    game is used once."""
    memory_games: int = Field(default=500, ge=1)
    """Games from which `replays` are drawn."""
    held_out_share: float = Field(default=0.1, ge=0, lt=1)
    """Share of games that are not learned from, for measurements. It is chosen by the moves of a game, so equal games are all
    in the same part; 0: none."""
    held_out_games: int = Field(default=50, ge=1)
    """Number of held-out games, the latest, of a measurement."""
    measure_every_games: int = Field(default=200, ge=1)
    """Games learned from between two measurements: accuracy on held-out games, and recall of their moves."""
    publish_every_games: int = Field(default=200, ge=1)
    """Games between two candidates."""
