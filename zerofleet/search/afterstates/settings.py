"""Settings of play without a tree."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["AfterstateSettings"]


class AfterstateSettings(BaseModel):
    """Play by the values of afterstates, the positions after each legal move. A value V is a chance of winning, in [0, 1]."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    policy: Literal["greedy", "epsilon_greedy", "softmax"] = "softmax"
    """Choice of a move. `greedy`: the highest value, ties at random. `epsilon_greedy`: a random move with probability
    `epsilon`, otherwise greedy. `softmax`: with probability proportional to exp(V / temperature)."""
    epsilon: float = Field(default=0.1, ge=0, le=1)
    """Share of random moves of `epsilon_greedy`."""
    temperature: float = Field(default=0.1, ge=0)
    """tau of `softmax`; 0 is greedy, and a large one random."""
    pool: int = Field(default=0, ge=0, le=64)
    """Number of moves to choose from: those of the highest values, by any of these policies. They are written into the record
    with their values. 0: all legal moves, and none are written."""
    draw_value: float = Field(default=0.0, ge=0, le=1)
    """Value of a move that draws. Moves that end the game are valued by the rules: 1 for a win, 0 for a loss."""
    learner_seat: Literal["all", "alternate", "first", "second"] = "all"
    """Seat from whose moves a learner of values learns, written into each record. `alternate`: one or the other, by the seed of
    the game."""
    evaluation: Literal["process", "server"] = "process"
    """Evaluation of the positions. `process`: compiled in the worker's process, with weights from the model store, for the
    perceptrons of learners of values. `server`: by the inference server, for any model."""
