"""Notation of agents: `NAME[:ARGUMENT][,OPTION=VALUE]...`, such as `uct:1000,final=visits`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from zerofleet.errors import InvalidRequest

__all__ = ["AgentOptions", "Spelling", "canonical_name"]

Options = TypeVar("Options", bound="AgentOptions")


class AgentOptions(BaseModel):
    """Base class of agent options: a subclass declares them with types, defaults and bounds."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Spelling:
    """Parsed name of an agent."""

    name: str
    argument: str
    """Text after the colon; may be empty."""
    written: tuple[tuple[str, str], ...]
    """Options with their values, in the order written."""

    @classmethod
    def parse(cls, text: str) -> Spelling:
        """Parse `text`; raises `InvalidRequest` if an option has no value or is repeated."""
        head, *rest = text.strip().split(",")
        name, _, argument = head.partition(":")
        written = []
        for part in rest:
            option, equals, value = part.strip().partition("=")
            if not (option and equals and value):
                raise InvalidRequest(f"{part.strip()!r} in {text.strip()!r} is not an option; write OPTION=VALUE")
            written.append((option, value))
        if len({option for option, _ in written}) < len(written):
            raise InvalidRequest(f"{text.strip()!r} repeats an option")
        return cls(name.strip(), argument.strip(), tuple(written))

    def __str__(self) -> str:
        return ",".join(
            [f"{self.name}:{self.argument}" if self.argument else self.name, *(f"{o}={v}" for o, v in self.written)]
        )

    def options(self, kind: type[Options]) -> Options:
        """Validate the options as `kind`; raises `InvalidRequest`, listing the known options."""
        try:
            return kind.model_validate(dict(self.written))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(step) for step in first["loc"])
            known = ", ".join(f"{name}={field.default}" for name, field in kind.model_fields.items())
            raise InvalidRequest(
                f"{self}: option {place!r}: {first['msg']}. Options and their defaults: {known or 'none'}"
            ) from None

    def refuse_argument(self) -> None:
        """Raise `InvalidRequest` if there is an argument."""
        if self.argument:
            raise InvalidRequest(f"{str(self)!r}: {self.name} takes no argument after a colon")

    def refuse_options(self) -> None:
        """Raise `InvalidRequest` if there are options."""
        self.options(AgentOptions)


def canonical_name(name: str, argument: str, options: AgentOptions) -> str:
    """Return the name with its argument and the options that differ from their defaults, in declaration order."""
    chosen = options.model_dump(exclude_defaults=True)
    return str(Spelling(name, argument, tuple((option, str(value).lower()) for option, value in chosen.items())))
