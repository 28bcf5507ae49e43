"""Query for stored games: one model for the command, the API and the page, with the same names in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

import pydantic
from pydantic import ConfigDict, Field, model_validator

from zerofleet.contracts.endings import Ending
from zerofleet.contracts.naming import MAX_VERSION
from zerofleet.errors import InvalidRequest
from zerofleet.library.values import Value

__all__ = ["DRAW", "WANTED", "GameQuery", "refusal"]

DRAW = "draw"
MOST_PLIES = (1 << 31) - 1
MOST_SHOWN = 80  # characters of a refused value in the message

WANTED: Mapping[str, str] = {
    "limit": "a positive integer",
    "before": "the number of a game, 0 or more",
    "model": "a version, or 0 for a seat without a model",
    "result": f"`{DRAW}`, or the number of the player who won, from 1",
    "ending": "`result`, `cut`, `resigned` or `soft_resigned`",
    "min_plies": "a number of plies, 0 or more",
    "max_plies": "a number of plies, 0 or more",
    "worker": "the name of a worker, 1 to 128 letters, digits or any of `._:/@-`",
}
"""Description of the value of each field, for messages and help."""

Plies = Annotated[int, Field(ge=0, le=MOST_PLIES)]


def refusal(name: str, value: str, wanted: str) -> InvalidRequest:
    """Return the error for a value that a field of a query does not take."""
    return InvalidRequest(f"{name}={value[:MOST_SHOWN]!r} is not accepted; give {wanted}")


class GameQuery(Value):
    """Wanted games: those for which every given field holds."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(25, ge=1)
    """Maximum number of games."""
    before: int | None = Field(None, ge=0, le=(1 << 62))
    """Number of a game: only older ones are listed."""
    model: int | None = Field(None, ge=0, le=MAX_VERSION)
    """Version of the model on some seat; 0 for a seat without a model."""
    result: str | None = Field(None, pattern=rf"^({DRAW}|[1-9][0-9]{{0,2}})$")
    """`draw` for equal scores, or the number of a player, from 1, whose score no other player exceeds."""
    ending: Ending | None = None
    """`result`: over by the rules. `cut`: ended by the maximum of plies, in a game whose positions can recur. `resigned`. Or
    `soft_resigned`: played on after a resignation, with reduced searches."""
    min_plies: Plies | None = None
    """Minimum number of plies."""
    max_plies: Plies | None = None
    """Maximum number of plies."""
    worker: str | None = Field(None, pattern=r"^[A-Za-z0-9._:/@-]{1,128}$")
    """Worker that played the game."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_plies is not None and self.max_plies is not None and self.min_plies > self.max_plies:
            raise ValueError(f"min_plies {self.min_plies} is above max_plies {self.max_plies}; no game is as long as that")
        return self

    @classmethod
    def read(cls, values: Mapping[str, object]) -> Self:
        """Return the query of named values, those of the address of a page as text. Raises `InvalidRequest`."""
        try:
            return cls.model_validate(dict(values))
        except pydantic.ValidationError as error:
            fault = error.errors(include_url=False)[0]
        if not fault["loc"]:
            raise InvalidRequest(fault["msg"].removeprefix("Value error, "))
        name = str(fault["loc"][0])
        if name not in WANTED:
            raise InvalidRequest(f"games have no {name[:MOST_SHOWN]!r}; choose from {', '.join(WANTED)}")
        raise refusal(name, str(values[name]), WANTED[name])

    @property
    def has_filter(self) -> bool:
        """Whether some games are left out, apart from their number."""
        return bool(self.model_dump(exclude={"limit", "before"}, exclude_none=True))

    def require_player(self, players: int) -> None:
        """Raise `InvalidRequest` unless the game has the player who is to win."""
        if self.result not in (None, DRAW) and int(self.result) > players:
            raise InvalidRequest(f"result={self.result!r} is out of range; this game has players 1 to {players}, or {DRAW!r}")
