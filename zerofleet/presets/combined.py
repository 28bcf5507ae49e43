"""Settings of the learner `combined`: the pool of the best moves by a frozen version of `outcome` or `sarsa_lambda`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["CombinedSettings"]


class CombinedSettings(BaseModel):
    """Learner `combined`: Q-learning, with the settings of the part `deep_q`, in a pool ranked by (1 - mix) W + mix V.

    V is the value of a frozen version after the move, W the board value of the agent `rhombus_search`
    (Li, Chinese University of Hong Kong). Both are in [-1, 1].
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    models: str = ""
    """Model store with that version, of the learner `outcome` or `sarsa_lambda` for the same parameters of the game: the
    directory `models` of the run that trained it, or s3://bucket/prefix."""
    version: int = Field(default=0, ge=0)
    """The version; it must be stated, so that a restart has the same pools. 0: not stated."""
    mix: float = Field(default=1.0, ge=0, le=1)
    """k: share of V in the ranking; 1: V alone, 0: the board value alone. A level of lead is 1/120
    in W."""
