"""Settings of the learner `td_lambda`: a perceptron that learns the probability of winning by temporal differences."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["TdLambdaSettings", "view_fault"]


class TdLambdaSettings(BaseModel):
    """Learner `td_lambda`: a perceptron trained by TD(lambda) with eligibility traces (Sutton and Barto 1998, chapter 8).

    For games of two players and perfect information. Defaults: Bagge and Grigo 2016.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    hidden: int = Field(default=100, ge=1, le=8192)
    """Units of a hidden layer; fixed for a run."""
    layers: int = Field(default=1, ge=1, le=8)
    """Hidden layers, of `hidden` units each; fixed for a run."""
    initial_weights: Literal["scaled", "normal", "small"] = "scaled"
    """Distribution of the first weights. `scaled`: variance 1 / (inputs of the unit), biases of variance 1. `normal`: variance
    1 for all. `small`: standard deviation 0.05, biases 0."""
    learning_rate: float = Field(default=0.1, gt=0)
    """alpha: step size of an update."""
    learning_rate_decay: float = Field(default=1.0, gt=0, le=1)
    """Factor of the learning rate after each epoch of `epoch_games` games; 1: constant."""
    epoch_games: int = Field(default=10_000, ge=1)
    """Games of an epoch."""
    discount: float = Field(default=1.0, ge=0, le=1)
    """gamma: discount of the next position's value."""
    trace_decay: float = Field(default=0.0, ge=0, le=1)
    """lambda: decay of the eligibility traces; 0 is TD(0), 1 the result of the game alone."""
    draw_reward: float = Field(default=0.0, ge=0, le=1)
    """Reward of a draw; a win has 1, a loss 0."""
    successor: Literal["own", "every_ply", "first_player"] = "own"
    """Positions that follow each other. `own`: a player's own afterstates, two plies apart; the value is that of the player who
    has just moved. `every_ply`: the positions after every ply, from one player's point of view; the value is that of the
    player who sees them, so that both seats must be learned from (`view_fault`). Which seats learn is stated in the records
    (`afterstates.learner_seat`). `first_player`: the positions after every ply, all from the first player's point of view; the
    value is the first player's chance, which the first player's moves maximise and the second player's minimise. For games
    with `GameSpec.other_view`. V counts a draw as `draw_reward` for the first player and 1 less that for the second."""
    exploratory: Literal["learn", "cut"] = "learn"
    """Treatment of a move that was not the best by the player's own values. `learn`: as any other. `cut`: no value is learned
    from the position after it, and the traces end there."""
    publish_every_games: int = Field(default=1_000, ge=1)
    """Games between two candidates."""


def view_fault(settings: TdLambdaSettings, learner_seat: str) -> str:
    """Return why the network would play positions in a view that it is not trained in; empty if it would not.

    Players evaluate a position in the view of its player to move. With `successor="every_ply"` a network learns in the view of
    the seat that learns: from one seat alone it has no values for the positions after that seat's own moves. With
    `first_player` it has one view, which evaluation restores from the bits, and games in which the second seat alone learns
    would be read as if they were the first's.
    """
    if settings.successor == "first_player" and learner_seat in {"alternate", "second"}:
        return (
            f"td_lambda.successor=first_player with afterstates.learner_seat={learner_seat}: there is one view, the first "
            "player's, for the moves of both; set afterstates.learner_seat=first or all, or td_lambda.successor=every_ply"
        )
    if settings.successor != "every_ply" or learner_seat not in {"first", "second"}:
        return ""
    return (
        f"td_lambda.successor=every_ply with afterstates.learner_seat={learner_seat} learns in the view of the {learner_seat} "
        "player alone, and positions are played in the view of the player to move, so that half of them would have untrained "
        "values; set afterstates.learner_seat=alternate or all, or td_lambda.successor=own, or, for the first player's view of "
        "both players' moves, td_lambda.successor=first_player"
    )
