"""Events of the journal, one kind of line each. The meaning of a line never changes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from zerofleet.contracts.naming import MAX_VERSION
from zerofleet.contracts.promotions import CandidateStatus, MatchReport

__all__ = [
    "MOST_GROUPS",
    "SCHEMA",
    "TRIAL_MATCH",
    "Dropped",
    "Event",
    "GameEnded",
    "JournalBegun",
    "MatchClosed",
    "MatchOpened",
    "ModelPlay",
    "Placed",
    "StatusChanged",
    "Submitted",
    "Tallied",
]

SCHEMA = 1

TRIAL_MATCH = "watch/"
"""Prefix of the ids of matches that measure a version after its promotion."""


MOST_GROUPS = 1_000_000
"""Largest number of groups of games of a match. Openings are drawn in order, so that a group costs those of all before it."""

_MOST_PLIES = 100_000
_MOST_GAMES = 1 << 53

Version = Annotated[int, Field(ge=0, le=MAX_VERSION)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, ser_json_inf_nan="strings")


class JournalBegun(_Line):
    """Header of the journal."""

    event: Literal["journal"] = "journal"
    schema_version: int = SCHEMA
    model: str


class Submitted(_Line):
    """A version was submitted as a candidate."""

    event: Literal["submitted"] = "submitted"
    version: Version
    manifest_sha256: str


class StatusChanged(_Line):
    """The status of a candidate changed: its match began, or it was decided."""

    event: Literal["status"] = "status"
    version: Version
    status: CandidateStatus
    reason: str = ""
    report: MatchReport | None = None


class Dropped(_Line):
    """The verdicts on these versions are no longer kept; the highest one stays known."""

    event: Literal["dropped"] = "dropped"
    versions: tuple[Version, ...]


class ModelPlay(_Line):
    """How the models of a match choose their moves."""

    simulations: int = Field(ge=0)
    leaves_per_game: int = Field(ge=1)
    search: str
    """Other settings of the search, as `gate.search`."""

    def __str__(self) -> str:
        """Return it in words, such as `64 simulations a move, 4 leaves a request, root=puct`."""
        if not self.simulations:
            return "the policy without search"
        leaves = "leaf" if self.leaves_per_game == 1 else "leaves"
        words = f"{self.simulations:,} simulations a move, {self.leaves_per_game} {leaves} a request"
        return f"{words}, {self.search}" if self.search else words


class MatchOpened(_Line):
    """A match was opened, with all parameters that determine its games."""

    event: Literal["match"] = "match"
    match_id: str
    purpose: Literal["gate", "ladder"]
    first: str
    second: str
    seed: int = Field(ge=0, lt=1 << 64)
    opening_plies: int = Field(ge=0, le=_MOST_PLIES)
    max_groups: int = Field(ge=0, le=MOST_GROUPS)
    play: ModelPlay | None = None
    """None for a match between agents, and in journals of earlier releases: as the settings of the gatekeeper say."""


class GameEnded(_Line):
    """A game of a match ended."""

    event: Literal["game"] = "game"
    match_id: str
    group: int = Field(ge=0, lt=MOST_GROUPS)
    seating: tuple[int, ...]
    players: tuple[str, ...]
    moves: tuple[int, ...]
    scores: tuple[Finite, ...]


class MatchClosed(_Line):
    """A match was closed; its first `rated_groups` groups of games count for the ladder."""

    event: Literal["closed"] = "closed"
    match_id: str
    rated_groups: int = Field(ge=0, le=MOST_GROUPS)


class Tallied(_Line):
    """Total of the games of closed matches between two players, from the last rewrite of the journal."""

    event: Literal["tally"] = "tally"
    first: str
    second: str
    points: Finite
    games: int = Field(ge=0, le=_MOST_GAMES)


class Placed(_Line):
    """Number of games of closed matches between two players on more than two seats with one outcome; see `Tallied`."""

    event: Literal["placed"] = "placed"
    first: str
    second: str
    players: tuple[str, ...]
    places: tuple[int, ...]
    games: int = Field(ge=0, le=_MOST_GAMES)


Event = JournalBegun | Submitted | StatusChanged | Dropped | MatchOpened | GameEnded | MatchClosed | Tallied | Placed

EVENTS: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="event")])
