"""Settings of play without a tree."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

__all__ = ["AfterstateSettings"]

_ITSELF = "self"
_VERSION = "version:"


class AfterstateSettings(BaseModel):
    """Play by the values of afterstates, the positions after each legal move. A value V is a chance of winning, in [0, 1].

    With `selfplay.mode=action_values` it is a model's value Q of a move of its pool, in [-1, 1], and `pool`, `draw_value` and
    `evaluation` are not used: the model has its pool, and the server evaluates it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    policy: Literal["greedy", "epsilon_greedy", "softmax"] = "softmax"
    """Choice of a move. `greedy`: the highest value, ties at random. `epsilon_greedy`: a random move with probability
    `epsilon`, otherwise greedy. `softmax`: with probability proportional to exp(V / temperature)."""
    epsilon: float = Field(default=0.1, ge=0, le=1)
    """Share of random moves of `epsilon_greedy`."""
    epsilon_first: float = Field(default=1.0, ge=0, le=1)
    """Share of random moves with model version 1, where `epsilon_versions` is set."""
    epsilon_versions: int = Field(default=0, ge=0)
    """Versions of the model over which the share falls evenly from `epsilon_first` to `epsilon`, so that all workers agree and
    a restart changes nothing. 0: `epsilon` throughout. With `selfplay.mode=action_values`."""
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
    opponents: tuple[str, ...] = ()
    """Players of the other seat, one for each game, drawn by its seed: `self`, the model itself; `version:7`, a frozen version;
    or an agent, such as `rhombus_search:2`. Empty: the model itself."""
    opponent_shares: tuple[float, ...] = ()
    """Relative frequencies of the opponents, in their order; empty: equal."""
    endgame: Literal["values", "exact"] = "values"
    """Play once all pieces have passed each other, in Chinese Checkers on the rhombus. `values`: as before. `exact`: a shortest
    way home, where one is found within `endgame_nodes`, on the seats of the model. Learners of moves learn nothing from these,
    and the last move chosen before them has the result of the game as its target; `td_lambda` learns the positions after
    them too, whose values are those of this play."""
    endgame_nodes: int = Field(default=200, ge=1, le=10_000_000)
    """Positions visited by the search of a shortest way; where they are too few, the values choose the next move."""
    evaluation: Literal["process", "server"] = "process"
    """Evaluation of the positions. `process`: compiled in the worker's process, with weights from the model store, for the
    perceptrons of learners of values. `server`: by the inference server, for any model."""

    @field_validator("opponents")
    @classmethod
    def _versions_are_numbers(cls, opponents: tuple[str, ...]) -> tuple[str, ...]:
        for text in opponents:
            number = text.removeprefix(_VERSION)
            if text.startswith(_VERSION) and not (number.isascii() and number.isdigit() and number == str(int(number) or "")):
                raise ValueError(f"opponents has {text!r}; want a version from 1 on, such as version:7")
        return opponents

    @model_validator(mode="after")
    def _opponents_have_a_seat(self) -> Self:
        if set(self.opponents) - {_ITSELF} and self.learner_seat == "all":
            raise ValueError(
                f"opponents={list(self.opponents)} take the seat that does not learn, and learner_seat=all leaves none; set "
                "learner_seat=alternate"
            )
        return self

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        shares = self.opponent_shares
        if shares and (len(shares) != len(self.opponents) or min(shares) < 0 or sum(shares) <= 0):
            raise ValueError(
                f"opponent_shares={list(shares)} for {len(self.opponents)} opponents; want a number for each, none negative, "
                "not all 0"
            )
        return self

    @property
    def frozen(self) -> tuple[int, ...]:
        """Frozen versions among the opponents."""
        return tuple(int(text.removeprefix(_VERSION)) for text in self.opponents if text.startswith(_VERSION))

    @property
    def agents(self) -> tuple[str, ...]:
        """Agents among the opponents."""
        return tuple(text for text in self.opponents if text != _ITSELF and not text.startswith(_VERSION))

    def epsilon_of(self, version: int) -> float:
        """Return the share of random moves of `epsilon_greedy` with a model version (1 and up)."""
        left = 1.0 - (version - 1) / self.epsilon_versions if self.epsilon_versions else 0.0
        return self.epsilon + (self.epsilon_first - self.epsilon) * max(0.0, left)
