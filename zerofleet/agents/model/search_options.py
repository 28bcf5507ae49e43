"""Options of a search in the notation of agents: `c=2.5,information=predict`.

    mcts:16,model=7,information=predict,u=literal       one player with a search of its own
    information=predict,u=literal                       every model of a match, a ladder or a gate

An option that is not written has the value of a match (`SearchSettings.for_match`).
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, ValidationError, model_validator

from games.core import GameSpec
from zerofleet.agents.spelling import AgentOptions, Spelling
from zerofleet.errors import InvalidRequest
from zerofleet.search import SearchSettings

__all__ = ["SearchOptions", "parse_search"]

_SETTINGS = {
    "root": "root_policy",
    "considered": "gumbel_considered",
    "u": "exploration",
    "c": "puct_init",
    "base": "puct_base",
    "fpu": "fpu_reduction",
    "information": "information",
    "repetition": "repetition",
    "prove": "prove_values",
    "replies": "prove_replies",
}


class SearchOptions(AgentOptions):
    """Options of a search; None: as in a match."""

    root: Literal["puct", "gumbel"] | None = None
    """`SearchSettings.root_policy`; `puct` with `u=literal` and with a temperature."""
    considered: int | None = Field(default=None, ge=1)
    """`SearchSettings.gumbel_considered`, with root=gumbel."""
    u: Literal["puct", "literal"] | None = None
    """`SearchSettings.exploration`."""
    c: float | None = Field(default=None, gt=0.0, allow_inf_nan=False)
    """`SearchSettings.puct_init`."""
    base: float | None = Field(default=None, gt=0.0, allow_inf_nan=False)
    """`SearchSettings.puct_base`."""
    fpu: float | None = Field(default=None, ge=0.0, allow_inf_nan=False)
    """`SearchSettings.fpu_reduction`."""
    information: Literal["predict", "determinise"] | None = None
    """`SearchSettings.information`, in games with hidden information."""
    repetition: Literal["off", "path", "history"] | None = None
    """`SearchSettings.repetition`, in games with positions that recur."""
    prove: bool | None = None
    """`SearchSettings.prove_values`, in games of perfect information."""
    replies: bool | None = None
    """`SearchSettings.prove_replies`, in games of perfect information."""
    temperature: float | None = Field(default=None, ge=0.0, allow_inf_nan=False)
    """Exponent 1/temperature on the visits from which moves are sampled; 0: the most visited move."""

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        """Reject an option without effect: the terms of a match would name a difference between equal searches."""
        if self.considered is not None and self.root == "puct":
            raise ValueError("considered needs root=gumbel")
        if self.u == "literal" and (idle := [name for name in ("c", "base", "fpu") if getattr(self, name) is not None]):
            raise ValueError(f"u=literal has no {', '.join(idle)}; leave out {', '.join(idle)}")
        if self.replies and self.prove is False:
            raise ValueError("replies=true needs prove=true")
        if self.temperature and self.root == "gumbel":
            raise ValueError("temperature needs root=puct; root=gumbel plays the winner of sequential halving")
        return self

    @classmethod
    def of_match(cls, spec: GameSpec, simulations: int) -> SearchOptions:
        """Return the options that state the search of a match without options: its root, and whether it proves replies.

        Records of measurements are compared by them. Without simulations there is no search to state.
        """
        if simulations == 0:
            return cls()
        search = SearchSettings.for_match(spec, simulations)
        return cls(root=search.root_policy, replies=search.prove_replies if spec.information == "perfect" else None)

    @property
    def identity(self) -> str:
        """Text of the options in the records of a ladder or a tournament, without `root=puct`.

        Records from before the root of a match was chosen by the game name none, and their models searched with PUCT.
        """
        return str(self.model_copy(update={"root": None}) if self.root == "puct" else self)

    def resolved(self, spec: GameSpec, simulations: int) -> SearchOptions:
        """Return these options with the root written where a match has a Gumbel one by itself, so that records name it.

        Raises `InvalidRequest` if they do not suit the game.
        """
        root = self.applied(SearchSettings.for_match(spec, simulations), spec).root_policy
        return self.model_copy(update={"root": "gumbel"}) if root == "gumbel" else self

    def applied(self, settings: SearchSettings, spec: GameSpec) -> SearchSettings:
        """Return the settings with these options; raises `InvalidRequest` if they do not suit the game."""
        self._require_suitable(spec)
        changes = {_SETTINGS[name]: value for name, value in self._written().items() if name in _SETTINGS}
        if self.temperature is not None:
            changes |= {"temperature": self.temperature, "temperature_end": self.temperature}
        if self.root is None and (self.temperature or self.u == "literal"):
            changes["root_policy"] = "puct"
        if self.considered is not None and changes.get("root_policy", settings.root_policy) != "gumbel":
            raise InvalidRequest(f"search options {self}: considered needs root=gumbel")
        try:
            return SearchSettings.model_validate(settings.model_dump() | changes)
        except ValidationError as error:
            fault = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise InvalidRequest(f"search options {self}: {fault}") from error

    def __str__(self) -> str:
        """Return the written options in the order of declaration, such as `u=literal,information=predict`; may be empty."""
        return ",".join(f"{name}={str(value).lower()}" for name, value in self._written().items())

    def _written(self) -> dict[str, object]:
        return {name: value for name in SearchOptions.model_fields if (value := getattr(self, name)) is not None}

    def _require_suitable(self, spec: GameSpec) -> None:
        hides = spec.information != "perfect"
        if self.information is not None and not hides:
            raise InvalidRequest(f"information={self.information}: {spec.name} hides nothing; leave out information")
        for name, given in (("prove", self.prove), ("replies", self.replies)):
            if given is not None and hides:
                raise InvalidRequest(
                    f"{name}: values are proven in games of perfect information only, not {spec.name}; leave it out"
                )
        if self.repetition is not None and not spec.repeats:
            raise InvalidRequest(f"repetition={self.repetition}: no position of {spec.name} recurs; leave out repetition")


def parse_search(text: str) -> SearchOptions:
    """Return the options written `c=2.5,information=predict`; an empty text has none. Raises `InvalidRequest`."""
    return Spelling.parse(f"search,{text}" if text.strip() else "search").options(SearchOptions)
